"""The replay of sequences that an agent learns from while it acts (App. Atari; R2D2).

Every step is kept once. A sequence begins every `period` steps of an episode and has `trace` steps, so that
neighbours overlap; it never leaves its episode. It can be drawn as soon as its last frame, or the end of its episode,
is there, and until the first of its frames is overwritten.
"""

from __future__ import annotations

import functools
import secrets
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int64, Shaped
from numpy.typing import DTypeLike

from r2a.config import ReplayConfig
from r2a.data.replay.reading import BYTES, START, Batch, draw_apart, draw_sequences, gather_sequences, sample_sequences
from r2a.data.replay.store import Layout, ReplaySpec, frames_in_file, frames_in_memory, make_store
from r2a.data.replay.sum_tree import SumTree
from r2a.data.replay.writing import Ready, Rows, add_rows, change_priorities
from r2a.errors import UserError
from r2a.storage import PathLike

Randomness = np.random.Generator | Float64[np.ndarray, " n"]
"""A generator, or as many uniform numbers from 0 up to 1 as there are sequences to draw."""


class SequenceIds(NamedTuple):
    """Which sequences: where they lie, and a number that tells whether they are still there."""

    slots: Int64[np.ndarray, " n"]
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
    previous_action: Shaped[np.ndarray, "n *action"]
    reward: Float32[np.ndarray, "n W-1"]
    discount: Float32[np.ndarray, "n W-1"]
    valid: Bool[np.ndarray, "n W-1"]
    is_first: Bool[np.ndarray, "n W"]
    state: Float32[np.ndarray, "n size"]
    starts: Shaped[np.ndarray, " n"]
    """One record each; its fields are those below."""

    @property
    def previous_reward(self) -> Float32[np.ndarray, " n"]:
        """What the agent got just before the first of the frames."""
        return self.starts["previous_reward"]

    @property
    def lane(self) -> Int64[np.ndarray, " n"]:
        """The lanes that the sequences are from."""
        return self.starts["lane"]

    @property
    def episode(self) -> Int64[np.ndarray, " n"]:
        """Their episodes, counted over all lanes."""
        return self.starts["episode"]

    @property
    def step(self) -> Int64[np.ndarray, " n"]:
        """How far into its episode the first step after the burn-in is."""
        return self.starts["step"]

    @property
    def return_before(self) -> Float64[np.ndarray, " n"]:
        """The episode's rewards before that step."""
        return self.starts["return_before"]


assert Sampled._fields[1:] == Batch._fields, "what compiled code fills is what is delivered"


class SequenceReplay:
    """Sequences of several environments ("lanes"), drawn uniformly or by priority."""

    def __init__(self, config: ReplayConfig, spec: ReplaySpec, lanes: int, folder: PathLike | None = None):
        """Frames are kept in memory, or in a file of `folder`."""
        self.config, self.spec = config, spec
        self.layout = Layout.of(config, spec, lanes)
        if folder is None:
            frames = frames_in_memory(self.layout, config.memory_share)
        else:
            frames = frames_in_file(self.layout, folder)
        self.tree = SumTree(self.layout.slots)
        self.store = make_store(self.layout, spec.state_size, self.tree, frames)
        self._store = tuple(self.store)
        # Tells this course of events from others that begin with the same checkpoint.
        self.lineage = secrets.token_hex(8)
        self.exponent = config.priority_exponent if config.kind == "prioritised" else 0.0

    def __len__(self) -> int:
        """How many sequences can be drawn."""
        return int(self.store.totals["sequences"][0])

    @property
    def ready(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self) >= self.config.minimum

    def add(
        self,
        observation: Shaped[np.ndarray, "lanes n *frame"],
        action: Shaped[np.ndarray, "lanes n *action"],
        reward: Float[np.ndarray, "lanes n"],
        discount: Float[np.ndarray, "lanes n"],
        is_first: Bool[np.ndarray, "lanes n"],
        is_last: Bool[np.ndarray, "lanes n"] | None = None,
        state: Float[np.ndarray, "lanes n size"] | None = None,
        present: Bool[np.ndarray, "lanes n"] | None = None,
    ) -> SequenceIds:
        """Write n rows of every lane; returns the sequences that are ready now, with the highest priority so far.

        In a row the agent, in memory `state`, saw `observation`, did `action` and got `reward` and `discount` (0: the
        episode terminated). A row that `is_last` is what it saw after the last step: no action follows. It is needed
        where an episode was truncated; without it, the last step is not learnt from. Rows not `present` are left out.
        """
        lanes, n = reward.shape
        if lanes != self.layout.lanes:
            raise ValueError(f"rows of {self.layout.lanes} lanes are expected, not of {lanes}")
        spec, (no_row, every_row, no_state) = self.spec, _defaults(lanes, n)
        rows = Rows(
            observation=_rows_of(observation, (lanes, n, *spec.observation_shape), spec.observation_dtype),
            action=_rows_of(action, (lanes, n, *spec.action_shape), spec.action_dtype),
            reward=_read_only(reward, np.float32),
            discount=_read_only(discount, np.float32),
            is_first=_read_only(is_first, np.bool_),
            is_last=no_row if is_last is None else _read_only(is_last, np.bool_),
            present=every_row if present is None else _read_only(present, np.bool_),
            state=no_state if state is None else _read_only(state, np.float32),
        )
        if rows.state.shape[2] != spec.state_size:
            raise ValueError(f"states of {spec.state_size} numbers are expected, not of {rows.state.shape[2]}")
        room = lanes * (n + self.layout.blocks_after)
        ready = Ready(np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(1, np.int64))
        stray = add_rows(self._store, tuple(rows), self.exponent, tuple(ready))
        if stray >= 0:
            raise ValueError(f"row {stray % n} of lane {stray // n} follows the end of an episode and is not a first")
        count = int(ready.count[0])
        return SequenceIds(ready.slots[:count], ready.numbers[:count])

    def draw(self, count: int, randomness: Randomness) -> Drawn:
        """Draw sequences, one from each of `count` equal parts of all priorities; a sequence may be drawn twice."""
        drawn, store = self._room(count), self.store
        uniforms, exponent = _uniforms(randomness, count), self.config.importance_exponent
        chances = drawn.probability, drawn.weight
        draw_sequences(store.blocks, store.nodes, store.starts, uniforms, exponent, *drawn.ids, *chances)
        return drawn

    def draw_apart(self, learning: int, retrieval: int, randomness: Randomness) -> tuple[Drawn, Drawn]:
        """Draw sequences to learn from and others to retrieve from: all distinct, and no frame is in both.

        They are drawn one after the other, each by its share of what may still be drawn; `probability` is its share of
        all, as in `draw`.
        """
        count = learning + retrieval
        drawn = self._room(count)
        uniforms, exponent = _uniforms(randomness, count), self.config.importance_exponent
        chances = drawn.probability, drawn.weight
        found = draw_apart(self._store, uniforms, learning, exponent, *drawn.ids, *chances)
        if found < count:
            raise UserError(
                f"The replay has too few sequences: {learning} to learn from and {retrieval} others to retrieve from, "
                f"which share no frame, were asked for, and there are {found} in all."
            )
        return _part(drawn, slice(None, learning)), _part(drawn, slice(learning, None))

    def gather(self, drawn: Drawn, out: Sampled | None = None) -> Sampled:
        """What was drawn, put side by side; into the arrays of `out`, if it is given."""
        out, batch = self._batch(drawn.ids.slots.size, out, drawn)
        gone = gather_sequences(self._store, *drawn.ids, batch)
        if gone >= 0:
            raise ValueError(f"sequence {gone} of those drawn has been overwritten since")
        return out

    def sample(self, count: int, randomness: Randomness, out: Sampled | None = None) -> Sampled:
        """Draw sequences and gather them."""
        drawn = self._room(count)
        out, batch = self._batch(count, out, drawn)
        uniforms, exponent = _uniforms(randomness, count), self.config.importance_exponent
        chances = drawn.probability, drawn.weight
        sample_sequences(self._store, uniforms, exponent, *drawn.ids, *chances, batch)
        return out

    def update_priorities(self, ids: SequenceIds, priorities: Float[np.ndarray, " n"]) -> None:
        """Give sequences new priorities; those overwritten since are passed over."""
        priorities = np.array(priorities, np.float64)
        if priorities.shape != ids.slots.shape:
            raise ValueError(f"{ids.slots.size} priorities are expected, not {priorities.size}")
        store, floor = self.store, self.config.priority_floor
        tree = store.nodes, store.starts, store.totals
        wrong = change_priorities(store.blocks, *tree, *ids, priorities, self.exponent, floor)
        if wrong >= 0:
            raise UserError(
                f"A sequence's priority is {priorities[wrong]}, but it must be finite and not negative: "
                "learning has diverged, which a lower learner.learning-rate may prevent."
            )

    def blank(self, count: int) -> Sampled:
        """So many sequences in which no step is valid."""
        nowhere = np.zeros(count, np.int64)
        blank = self._empty(count, Drawn(SequenceIds(nowhere, nowhere), np.ones(count), np.ones(count, np.float32)))
        arrays: Any = blank[1:]
        for array in arrays:
            array[...] = 0
        return blank

    def _room(self, count: int) -> Drawn:
        if len(self) == 0:
            raise UserError("Nothing can be drawn from the replay: no sequence is complete yet.")
        ids = SequenceIds(np.empty(count, np.int64), np.empty(count, np.int64))
        return Drawn(ids, np.empty(count), np.empty(count, np.float32))

    def _batch(self, count: int, out: Sampled | None, drawn: Drawn) -> tuple[Sampled, tuple[np.ndarray, ...]]:
        if out is None:
            out = self._empty(count, drawn)
        elif len(out.starts) != count:
            raise ValueError(f"there is room for {len(out.starts)} sequences, not for {count}")
        arrays: Any = out[1:]
        batch = (*map(_bytes_of, arrays[:BYTES]), *arrays[BYTES:])
        return out._replace(drawn=drawn), batch

    def _empty(self, count: int, drawn: Drawn) -> Sampled:
        spec, steps = self.spec, self.config.burn_in + self.config.trace
        stack = (self.config.stack,) if self.config.stack > 1 else ()
        return Sampled(
            drawn=drawn,
            observation=np.empty((count, steps + 1, *stack, *spec.observation_shape), spec.observation_dtype),
            action=np.empty((count, steps, *spec.action_shape), spec.action_dtype),
            reward=np.empty((count, steps), np.float32),
            discount=np.empty((count, steps), np.float32),
            valid=np.empty((count, steps), np.bool_),
            is_first=np.empty((count, steps + 1), np.bool_),
            previous_action=np.empty((count, *spec.action_shape), spec.action_dtype),
            state=np.empty((count, spec.state_size), np.float32),
            starts=np.empty(count, START),
        )


def _part(drawn: Drawn, part: slice) -> Drawn:
    ids = SequenceIds(drawn.ids.slots[part], drawn.ids.numbers[part])
    return Drawn(ids, drawn.probability[part], drawn.weight[part])


def _bytes_of(array: np.ndarray) -> np.ndarray:
    if not array.flags.c_contiguous:
        raise ValueError("an array whose elements lie side by side is expected")
    return array.reshape(-1).view(np.uint8)


def _rows_of(array: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    if array.shape != shape:
        raise ValueError(f"an array of shape {shape} is expected, not {array.shape}")
    if array.dtype != dtype:
        array = array.astype(dtype, casting="same_kind")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    flat.flags.writeable = False
    return flat


@functools.lru_cache(maxsize=8)
def _defaults(lanes: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """No row, every row, and states without numbers."""
    shape = lanes, n
    no_row, no_state = np.zeros(shape, np.bool_), np.zeros((*shape, 0), np.float32)
    return _read_only(no_row, np.bool_), _read_only(~no_row, np.bool_), _read_only(no_state, np.float32)


def _read_only(array: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    # Arrays that can be written to and those that cannot, such as jax's, would each be compiled for.
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def _uniforms(randomness: Randomness, count: int) -> np.ndarray:
    if isinstance(randomness, np.random.Generator):
        return randomness.random(count)
    if randomness.shape != (count,):
        raise ValueError(f"{count} uniform numbers are expected, not {randomness.shape}")
    return np.array(randomness)
