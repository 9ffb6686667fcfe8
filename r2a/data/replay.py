"""The replay of sequences that an agent learns from while it acts (App. Atari; R2D2).

Every step is kept once. A sequence begins every `period` steps of an episode and has `trace` steps, so that
neighbours overlap; it never leaves its episode. It can be drawn as soon as its last frame, or the end of its episode,
is there, and until the first of its frames is overwritten.

Every environment writes blocks of `period` rows into a ring of its own, and begins a block with every episode. A
block's *index* says where it lies; it is also that of the sequence that begins with it. A block's *number* counts the
blocks of its environment since the beginning: it tells whether an index still holds what it held.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int64, Shaped
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike

from r2a.config import ReplayConfig, require
from r2a.data.sum_tree import SumTree
from r2a.errors import UserError
from r2a.storage import PathLike, storage_errors

BLOCK = np.dtype(
    [
        ("number", np.int64),
        ("episode", np.int64),  # counted over all environments
        ("place", np.int64),  # among the blocks of its episode
        ("steps", np.int64),  # of the sequence that begins here; this and the next are set when it can be drawn
        ("frames", np.int64),
        ("return_before", np.float64),  # rewards of its episode before this block
        ("previous_reward", np.float32),  # got just before the step whose state is kept
        ("written", np.int64),  # when a row of it was written last; see `writes`
    ],
    align=True,  # else every field would be copied before it is used
)


@dataclass(frozen=True)
class ReplaySpec:
    """The shapes and types of a step; the agent's memory is one vector."""

    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike = np.uint8
    action_shape: tuple[int, ...] = ()
    action_dtype: DTypeLike = np.int32
    state_size: int = 0


class SequenceIds(NamedTuple):
    """Which sequences: where they lie, and a number that tells whether they are still there."""

    indices: Int64[np.ndarray, " n"]
    numbers: Int64[np.ndarray, " n"]


class Drawn(NamedTuple):
    """Sequences, the chance each had in a draw, and its weight in the loss, which is 1 for the least likely."""

    ids: SequenceIds
    probability: Float64[np.ndarray, " n"]
    weight: Float32[np.ndarray, " n"]


class Sampled(NamedTuple):
    """Sequences of W = burn_in + trace + 1 frames and W - 1 steps; where `valid` is false, action and outcome are zero.

    With `stack` > 1, the frames of an observation have an axis of their own, the newest last. The frame after the last
    valid step is there unless the episode terminated with that step; all others outside the episode are zero. `state`,
    `previous_action` and `previous_reward` are what the agent brought to the first of the frames: zeros, if the episode
    begins only later. Where it begins, `is_first` is true, and nothing was done or got before.
    """

    drawn: Drawn
    observation: Shaped[np.ndarray, "n W *frame"]
    action: Shaped[np.ndarray, "n W-1 *action"]
    reward: Float32[np.ndarray, "n W-1"]
    discount: Float32[np.ndarray, "n W-1"]
    valid: Bool[np.ndarray, "n W-1"]
    is_first: Bool[np.ndarray, "n W"]
    state: Float32[np.ndarray, "n size"]
    previous_action: Shaped[np.ndarray, "n *action"]
    previous_reward: Float32[np.ndarray, " n"]
    env: Int64[np.ndarray, " n"]
    episode: Int64[np.ndarray, " n"]  # counted over all environments
    step: Int64[np.ndarray, " n"]  # how far into its episode the first step after the burn-in is
    return_before: Float64[np.ndarray, " n"]  # the episode's rewards before that step


@dataclass(slots=True)
class Env:
    """How far an environment is in its latest episode."""

    is_open: bool = False  # whether the episode goes on
    terminated: bool = False  # whether its last step had no discount
    episode: int = 0
    first_block: int = 0  # its number
    next_block: int = 0  # number of the block that is begun next
    frames: int = 0  # rows that the episode has so far
    offset: int = 0  # of the last of them, in its block
    row: int = 0  # where that lies
    return_so_far: float = 0.0


class Chunk(NamedTuple):
    """Rows [envs, n] that are added, and what they change."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    state: np.ndarray
    returns: np.ndarray  # [envs, n + 1] the sum of an environment's rewards before each row
    chances: dict[int, float]  # by index
    ready: list[tuple[int, int]]  # indices and numbers of the sequences that are ready now


def ring_sizes(config: ReplayConfig, num_envs: int) -> tuple[int, int, int]:
    """Blocks of an environment; blocks before its own, and from it on, that a sequence may need."""
    require(num_envs > 0, "num_envs", num_envs, "there must be at least one")
    before, after = -(-(config.burn_in + config.stack - 1) // config.period), config.trace // config.period + 1
    # One more than a sequence needs: when the oldest one leaves, another is there to be drawn.
    needed, capacity = num_envs * (before + after + 1), config.capacity
    require(capacity >= needed, "replay.capacity", capacity, f"{num_envs} environments need at least {needed}")
    # Those of short episodes lie closer together: of them there may be more.
    most = num_envs * (capacity // num_envs - before - after)
    reason = f"with {num_envs} environments and replay.capacity = {capacity} there may never be more than {most} "
    reason += "whole sequences, and nothing would be learnt"
    require(config.minimum <= most, "replay.minimum", config.minimum, reason)
    return capacity // num_envs, before, after


class SequenceReplay:
    """Sequences of several environments, drawn uniformly or by priority."""

    def __init__(self, config: ReplayConfig, spec: ReplaySpec, num_envs: int, folder: PathLike | None = None):
        """Frames are kept in memory, or, if they take more of it than they may, in a file of `folder`."""
        self.config, self.spec = config, spec
        self.env_blocks, self.blocks_before, self.blocks_after = ring_sizes(config, num_envs)
        indices, steps = num_envs * self.env_blocks, config.burn_in + config.trace
        rows = indices * config.period
        self.observation = _frames(config, spec, rows, folder)
        kinds = (spec.action_shape, spec.action_dtype), ((), np.float32), ((), np.float32)
        columns = [np.zeros((rows + steps, *shape), dtype) for shape, dtype in kinds]  # a window begins with any row
        self.action, self.reward, self.discount = (column[:rows] for column in columns)
        self._windows = [np.moveaxis(sliding_window_view(column, steps, axis=0), -1, 1) for column in columns]
        # What the agent brought to one step of each block, from which a burn-in leads to the first of a later block.
        self.state_offset = -config.burn_in % config.period
        self.state = np.zeros((indices, spec.state_size), np.float32)
        self.previous_action = np.zeros((indices, *spec.action_shape), spec.action_dtype)
        self.blocks, self.envs = np.zeros(indices, BLOCK), [Env() for _ in range(num_envs)]
        self.blocks["number"] = -1
        self.tree = SumTree(indices)  # the priorities, raised to their exponent; 0: not to be drawn
        self.exponent, self.highest_priority = config.priority_exponent if config.kind == "prioritised" else 0.0, 1.0
        self.sequences = self.episodes = self.writes = 0  # that can be drawn; that have begun; chunks that were added
        # Tells this course of events from others that begin with the same checkpoint.
        self.lineage = os.urandom(8).hex()

    def __len__(self) -> int:
        """How many sequences can be drawn."""
        return self.sequences

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self) >= self.config.minimum

    def add(
        self,
        observation: Shaped[np.ndarray, "envs n *frame"],
        action: Shaped[np.ndarray, "envs n *action"],
        reward: Float[np.ndarray, "envs n"],
        discount: Float[np.ndarray, "envs n"],
        is_first: Bool[np.ndarray, "envs n"],
        is_last: Bool[np.ndarray, "envs n"] | None = None,
        state: Float[np.ndarray, "envs n size"] | None = None,
        present: Bool[np.ndarray, "envs n"] | None = None,
    ) -> SequenceIds:
        """Write n rows of every environment; returns the sequences now ready, with the highest priority so far.

        In a row the agent, in memory `state`, saw `observation`, did `action` and got `reward` and `discount` (0: the
        episode terminated). A row that `is_last` is what it saw after the last step: no action follows. It is needed
        where an episode was truncated; without it, the last step is not learnt from. Rows not `present` are left out.
        """
        shape, spec = (len(self.envs), reward.shape[1]), self.spec
        observation = _checked(observation, (*shape, *spec.observation_shape), spec.observation_dtype)
        action = _checked(action, (*shape, *spec.action_shape), spec.action_dtype)
        state = _checked(np.zeros((*shape, 0)) if state is None else state, (*shape, spec.state_size), np.float32)
        reward, discount = _checked(reward, shape, np.float32), _checked(discount, shape, np.float32)
        is_last = np.zeros(shape, np.bool_) if is_last is None else is_last
        present = np.ones(shape, np.bool_) if present is None else present
        pieces = self._cut(is_first & present, is_last & present, ~present)
        returns = np.zeros((shape[0], shape[1] + 1))
        np.cumsum(reward * present, axis=1, out=returns[:, 1:])
        chunk = Chunk(observation, action, reward, discount, state, returns, {}, [])
        self.writes += 1
        for piece in pieces:
            self._add_piece(*piece, chunk)
        indices, chances = np.array([*chunk.chances], np.int64), np.array([*chunk.chances.values()], np.float64)
        self.sequences += int(np.count_nonzero(chances)) - int(np.count_nonzero(self.tree.values[indices]))
        self.tree.set(indices, chances)
        return SequenceIds(*np.array(chunk.ready, np.int64).reshape(-1, 2).T)

    def _cut(self, is_first: np.ndarray, is_last: np.ndarray, gaps: np.ndarray) -> list[tuple[int, int, int, int, int]]:
        """Rows that simply follow each other: environment, from, until; and whether a first or a last row follows."""
        n, special, pieces = is_first.shape[1], is_first | is_last | gaps, []
        if not special.any() and all(env.is_open for env in self.envs):
            return [(number, 0, n, False, False) for number in range(len(self.envs))]
        for number, env in enumerate(self.envs):
            begin, is_open = 0, env.is_open
            for row in (*np.flatnonzero(special[number]).tolist(), n):
                first, last = row < n and bool(is_first[number, row]), row < n and bool(is_last[number, row])
                if not is_open and (row > begin or last > first):
                    where = f"row {begin} of environment {number}"
                    raise ValueError(f"{where} follows the end of an episode and is not a first")
                pieces.append((number, begin, row, first, last))
                is_open = not last if first or last else is_open
                begin = row + (last or not first)
        return pieces

    def _add_piece(self, number: int, begin: int, end: int, first: int, last: int, chunk: Chunk) -> None:
        env = self.envs[number]
        if end > begin:
            self._write(number, begin, end, chunk)
        terminated = env.terminated
        if last > first and not terminated:  # else nothing is bootstrapped from the last frame, which is not kept
            self._write(number, end, end + 1, chunk)
        if (first or last) and env.is_open:
            # Truncated without a last row: the frame of the last step becomes it, the step's outcome is not known.
            steps, env.is_open = env.frames - (not terminated), False
            self._make_ready(number, self._complete(env.frames), -(-steps // self.config.period), steps, chunk)
        if first > last:
            env.is_open, env.episode, env.first_block, env.frames = True, self.episodes, env.next_block, 0
            env.return_so_far = 0.0
            self.episodes += 1

    def _write(self, number: int, begin: int, end: int, chunk: Chunk) -> None:
        """Write rows of the environment's episode."""
        env, blocks, period, trace = self.envs[number], self.env_blocks, self.config.period, self.config.trace
        first_index, first_row, rows = number * blocks, number * blocks * period, blocks * period
        before, frames, first_block = env.frames, env.frames + end - begin, env.first_block
        origin, next_row = begin - before, first_block * period + before  # the episode's first frame is row `origin`
        returns = env.return_so_far - chunk.returns[number, begin]
        for place in range(-(-before // period), -(-frames // period)):
            index = first_index + (first_block + place) % blocks
            total = returns + chunk.returns[number, origin + place * period]
            self.blocks[index] = (first_block + place, env.episode, place, trace, trace + 1, total, 0.0, self.writes)
            chunk.chances[index] = 0.0
        for frame in range(before + (self.state_offset - before) % period, frames, period):
            index, row = first_index + (first_block + frame // period) % blocks, origin + frame
            self.state[index] = chunk.state[number, row]
            if frame > before:
                action, reward = chunk.action[number, row - 1], chunk.reward[number, row - 1]
            else:
                action, reward = (self.action[env.row], self.reward[env.row]) if frame else (0, 0.0)
            self.previous_action[index], self.blocks["previous_reward"][index] = action, reward
        env.frames, env.next_block = frames, first_block - (-frames // period)
        env.return_so_far = float(returns + chunk.returns[number, end])
        env.terminated = bool(chunk.discount[number, end - 1] == 0.0)
        while begin < end:
            to = first_row + next_row % rows
            count = min(end - begin, first_row + rows - to)
            kept, new = slice(to, to + count), slice(begin, begin + count)
            self.observation[kept], self.action[kept] = chunk.observation[number, new], chunk.action[number, new]
            self.reward[kept], self.discount[kept] = chunk.reward[number, new], chunk.discount[number, new]
            self.blocks["written"][to // period] = self.writes
            begin, next_row, env.row = begin + count, next_row + count, to + count - 1
        env.offset, oldest = env.row % period, env.next_block - blocks
        for later in range(self.blocks_before):  # sequences that need a block that is gone
            index = first_index + (oldest + later) % blocks
            if self.blocks["number"][index] == oldest + later and self.blocks["place"][index] > later:
                chunk.chances[index] = 0.0
        self._make_ready(number, self._complete(before), self._complete(frames), frames - 1, chunk)

    def _complete(self, frames: int) -> int:
        """With how many of an episode's blocks sequences begin that have all of their frames."""
        return max(0, (frames - 1 - self.config.trace) // self.config.period + 1)

    def _make_ready(self, number: int, first: int, until: int, steps: int, chunk: Chunk) -> None:
        """Let the sequences be drawn that begin with these blocks of the environment's episode of so many steps."""
        env, period, trace = self.envs[number], self.config.period, self.config.trace
        for place in range(first, until):
            block = env.first_block + place
            index = number * self.env_blocks + block % self.env_blocks
            chunk.ready.append((index, block))
            # If a chunk is longer than the ring, what was ready at its beginning is gone at its end.
            if block - min(place, self.blocks_before) >= env.next_block - self.env_blocks:
                chunk.chances[index] = self.highest_priority**self.exponent
                self.blocks["steps"][index] = min(steps - place * period, trace)
                self.blocks["frames"][index] = min(env.frames - place * period, trace + 1)

    def draw(self, count: int, generator: np.random.Generator) -> Drawn:
        """Draw sequences, one from each of `count` equal parts of all priorities; a sequence may be drawn twice."""
        uniforms, total = self._uniforms(generator, count), self.tree.total
        indices = self.tree.find((np.arange(count) + uniforms) / count * total)
        return self._drawn(indices, self.tree.values[indices] / total)

    def draw_apart(self, learning: int, retrieval: int, generator: np.random.Generator) -> tuple[Drawn, Drawn]:
        """Draw sequences to learn from and others to retrieve from: all distinct, and no frame is in both.

        They are drawn one after the other, each by its share of what may still be drawn; `probability` is its share of
        all, as in `draw`.
        """
        uniforms, found, hidden = self._uniforms(generator, learning + retrieval), [], np.zeros(0, np.int64)
        chances, total = self.tree.values.copy(), self.tree.total
        # What must not be drawn is given no chance for the time being, which draws exactly and needs no second try.
        try:
            for uniform in uniforms.tolist():
                if len(found) == learning:
                    hidden = self._sharing_frames(np.array(found, np.int64))
                    self.tree.set(hidden, 0.0)
                index = self.tree.take(uniform)
                if index is None:
                    asked = f"{learning} to learn from and {retrieval} others to retrieve from, which share no frame"
                    fault = f"{asked}, were asked for, and there are {len(found)} in all"
                    raise UserError(f"The replay has too few sequences: {fault}.")
                found.append(index)
        finally:
            indices = np.array(found, np.int64)
            hidden = np.concatenate([hidden, indices])
            self.tree.set(hidden, chances[hidden])
        learnt, read = indices[:learning], indices[learning:]
        return self._drawn(learnt, chances[learnt] / total), self._drawn(read, chances[read] / total)

    def _sharing_frames(self, indices: np.ndarray) -> np.ndarray:
        """The sequences that have a frame of one of these."""
        config, blocks, reach = self.config, self.env_blocks, self.blocks_before + self.blocks_after - 1
        block, away = self.blocks.take(indices)[:, None], np.arange(-reach, reach + 1)
        number = block["number"] + away
        index = (indices // blocks * blocks)[:, None] + number % blocks
        other = self.blocks.take(index)
        # Counted from the episode's beginning, the later one's first frame and the end of the earlier one.
        begins = np.maximum(block["place"], other["place"]) * config.period - config.burn_in - config.stack + 1
        earlier = np.where(away > 0, block, other)
        ends = earlier["place"] * config.period + earlier["frames"]
        return index[(other["number"] == number) & (other["episode"] == block["episode"]) & (begins < ends)]

    def _uniforms(self, generator: np.random.Generator, count: int) -> np.ndarray:
        if len(self) == 0:
            raise UserError("Nothing can be drawn from the replay: no sequence is complete yet.")
        return generator.random(count)

    def _drawn(self, indices: np.ndarray, probability: np.ndarray) -> Drawn:
        """With the weights that make up for unequal chances, as far as `importance_exponent` says."""
        weight = (probability.min(initial=1.0) / probability) ** self.config.importance_exponent
        return Drawn(SequenceIds(indices, self.blocks["number"][indices]), probability, weight.astype(np.float32))

    def gather(self, drawn: Drawn, out: Sampled | None = None) -> Sampled:
        """What was drawn, put side by side; the frames in the array of `out`, if it is given."""
        (indices, numbers), config, blocks = drawn.ids, self.config, self.env_blocks
        burn_in, stack, period, count = config.burn_in, config.stack, config.period, len(indices)
        block, env, start = self.blocks.take(indices), indices // blocks, indices * period
        gone = (block["number"] != numbers) | (self.tree.values[indices] == 0.0)
        if gone.any():
            raise ValueError(f"sequence {gone.argmax()} of those drawn has been overwritten since")
        step, column = (block["place"] * period)[:, None], np.arange(-burn_in, config.trace + 1)
        shape = count, len(column), *[stack] * (stack > 1), *self.spec.observation_shape
        dtype = self.observation.dtype
        frames = np.empty(shape, dtype) if out is None else _checked(out.observation, shape, dtype)
        place, rows = indices - env * blocks, start[:, None] + column
        if stack > 1:  # an episode's first frame stands for what would precede it
            rows = rows[..., None] - np.minimum(np.arange(stack)[::-1], np.maximum(step + column, 0)[..., None])
        around = (place < self.blocks_before) | (place > blocks - self.blocks_after)  # the end of the ring
        if around.any():
            base = (start - place * period).reshape(-1, *[1] * (rows.ndim - 1))
            rows = base + (rows - base) % (blocks * period)
            newest = rows.reshape(count, len(column), stack)[:, :-1, -1]
            steps = [kept[newest] for kept in (self.action, self.reward, self.discount)]
        else:
            steps = [windows[start - burn_in] for windows in self._windows]
        self.observation.take(rows, axis=0, out=frames, mode="clip")  # other modes copy once more
        valid = np.ones((count, len(column) - 1), np.bool_)
        if burn_in or block["frames"].min(initial=config.trace + 1) <= config.trace:
            begun = column >= -step
            valid = begun[:, :-1] & (column[:-1] < block["steps"][:, None])
            frames[~(begun & (column < block["frames"][:, None]))] = 0
            for new in steps:
                new[~valid] = 0
        # What the agent brought to the first frame; nothing, if the episode begins only later.
        index, step = indices - place + (block["number"] + -burn_in // period) % blocks, step[:, 0]
        brought = self.state[index], self.previous_action[index], self.blocks["previous_reward"][index]
        for new in brought:
            new[step < burn_in] = 0
        about = env, block["episode"], step, block["return_before"]
        return Sampled._make([drawn, frames, *steps, valid, column == -step[:, None], *brought, *about])

    def sample(self, count: int, generator: np.random.Generator, out: Sampled | None = None) -> Sampled:
        """Draw sequences and gather them."""
        return self.gather(self.draw(count, generator), out)

    def blank(self, count: int) -> Sampled:
        """So many sequences in which no step is valid."""
        none, nowhere = np.zeros(0, np.int64), np.zeros(count, np.int64)
        like = self.gather(self._drawn(none, np.zeros(0)))
        arrays = (np.zeros((count, *array.shape[1:]), array.dtype) for array in like[1:])
        return Sampled(Drawn(SequenceIds(nowhere, nowhere), np.ones(count), np.ones(count, np.float32)), *arrays)

    def update_priorities(self, ids: SequenceIds, priorities: Float[np.ndarray, " n"]) -> None:
        """Give sequences new priorities; those overwritten since are passed over."""
        indices, numbers = ids
        priorities = _checked(np.asarray(priorities), indices.shape, np.float64)
        wrong = ~((priorities >= 0.0) & (priorities < np.inf))
        if wrong.any():
            fault = f"A sequence's priority is {priorities[wrong][0]}, but it must be finite and not negative"
            raise UserError(f"{fault}: learning has diverged, which a lower learner.learning-rate may prevent.")
        there = (self.blocks["number"][indices] == numbers) & (self.tree.values[indices] > 0.0)
        priorities = np.maximum(priorities[there], self.config.priority_floor)
        self.highest_priority = float(priorities.max(initial=self.highest_priority))
        self.tree.set(indices[there], priorities**self.exponent)


def _frames(config: ReplayConfig, spec: ReplaySpec, rows: int, folder: PathLike | None) -> np.ndarray:
    """Room for frames: in memory, or in a new file of the folder, without a name: it is gone when the process ends."""
    shape = (rows, *spec.observation_shape)
    size = math.prod(shape) * np.dtype(spec.observation_dtype).itemsize
    limit = config.memory_share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size <= limit:
        return np.zeros(shape, spec.observation_dtype)
    if folder is None:
        gb = f"{size / 1e9:.1f} GB, more than replay.memory-share allows ({limit / 1e9:.1f} GB)"
        raise UserError(f"The replay's frames take {gb}; give it a folder to keep them in, or a lower replay.capacity.")
    with storage_errors("write", folder):
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            # Reserved now: a disk that is full would otherwise end the process without a word.
            os.posix_fallocate(file.fileno(), 0, size)
            return np.asarray(np.memmap(file, spec.observation_dtype, "r+", shape=shape))


def _checked(array: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    if array.shape != shape:
        raise ValueError(f"an array of shape {shape} is expected, not {array.shape}")
    return array if array.dtype == dtype else array.astype(dtype, casting="same_kind")
