"""What every environment offers, whatever its world: B episodes side by side.

The law: **an episode is a function of its task, its seed and its actions.** So it can be played again: to film it, to
go on with it after a stop, and to bring back a simulator whose process has died.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float32, Float64, Shaped, UInt8

from r2a.errors import UserError

Seed = int | tuple[int, ...]
"""Of an episode: a number; or a run's seed, followed by numbers that tell the run's episodes apart."""
Rows = Sequence[int] | np.ndarray
Actions = Shaped[np.ndarray, "B ..."]
Picture = UInt8[np.ndarray, "h w 3"]


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """What an episode's random numbers come from."""
    first, *rest = (seed,) if isinstance(seed, int) else seed
    return np.random.SeedSequence(first, spawn_key=tuple(rest))


def seed_number(seed: Seed) -> int:
    """A seed as one number, for whatever takes no other."""
    return seed if isinstance(seed, int) else int(seed_sequence(seed).generate_state(1)[0])


@dataclass(frozen=True)
class EnvSpec:
    """What agents, data sets and evaluation need to know of an environment."""

    id: str
    tasks: tuple[str, ...]
    observation: Box
    action: Discrete | Box
    max_steps: int
    instruction_length: int = 0
    """Words of the longest instruction (0: nothing is said)."""
    scores: tuple[str, ...] = ("return",)
    """What an episode is judged by; the first is the one that is reported."""
    action_names: tuple[str, ...] = ()
    fps: float = 15.0
    """Pictures in a second of a video."""

    @property
    def action_size(self) -> int:
        """How many actions there are or, of continuous ones, how many numbers one has."""
        return int(self.action.n) if isinstance(self.action, Discrete) else int(np.prod(self.action.shape))


class TimeStep(NamedTuple):
    """What B episodes show: after their last action or, just reset, at their start. Rows that ended stay as they are.

    `discount` is 0 where nothing that follows counts for learning: after a terminal step. `scores` are those of the
    episodes so far.
    """

    observation: Shaped[np.ndarray, "B ..."]
    instruction: UInt8[np.ndarray, "B w"]
    reward: Float32[np.ndarray, " B"]
    discount: Float32[np.ndarray, " B"]
    terminated: Bool[np.ndarray, " B"]
    truncated: Bool[np.ndarray, " B"]
    scores: Float64[np.ndarray, "B s"]

    @property
    def ended(self) -> Bool[np.ndarray, " B"]:
        """The rows that wait to be reset."""
        return self.terminated | self.truncated

    def begin(self, rows: Any) -> None:
        """Episodes begin in these rows; what they show is for the environment to say."""
        self.reward[rows], self.discount[rows], self.scores[rows] = 0.0, 1.0, 0.0
        self.terminated[rows] = self.truncated[rows] = False

    def copy(self) -> TimeStep:
        """What is handed out does not change later."""
        return TimeStep(*(column.copy() for column in self))


@runtime_checkable
class VectorEnv(Protocol):
    """B environments in lockstep. Nothing restarts by itself: a row that ended takes no step before it is reset."""

    spec: EnvSpec
    num_envs: int

    def reset(self, tasks: Sequence[str], seeds: Sequence[Seed], rows: Rows | None = None) -> TimeStep:
        """Begin episodes in these rows (default: in all), one task and one seed for each of them."""
        ...

    def step(self, actions: Actions, rows: Rows | None = None) -> TimeStep:
        """Do one action in every row that has not ended, or only in these of them; `actions` has an entry for all."""
        ...

    def render(self, row: int) -> Picture:
        """What a person would see of a row now."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class HostEnv:
    """A `VectorEnv` but for what its rows do: it checks what it is given, and keeps what they show in `_now`."""

    def __init__(self, spec: EnvSpec, num_envs: int):
        if num_envs < 1:
            raise UserError(f"The number of environments is {num_envs}, but it must be greater than zero.")
        self.spec, self.num_envs = spec, num_envs
        self._now = TimeStep(  # before the first reset every row has ended
            np.zeros((num_envs, *spec.observation.shape), spec.observation.dtype),
            np.zeros((num_envs, spec.instruction_length), np.uint8),
            np.zeros(num_envs, np.float32),
            np.ones(num_envs, np.float32),
            np.ones(num_envs, bool),
            np.zeros(num_envs, bool),
            np.zeros((num_envs, len(spec.scores))),
        )

    def reset(self, tasks: Sequence[str], seeds: Sequence[Seed], rows: Rows | None = None) -> TimeStep:
        """Begin episodes in these rows (default: in all), one task and one seed for each of them."""
        for task in tasks:
            self._require_task(task)
        chosen = [int(row) for row in (range(self.num_envs) if rows is None else rows)]
        if not len(chosen) == len(tasks) == len(seeds):
            raise ValueError(f"{len(chosen)} rows, {len(tasks)} tasks and {len(seeds)} seeds are not as many of each")
        self._begin(chosen, tasks, seeds)
        return self._now.copy()

    def step(self, actions: Actions, rows: Rows | None = None) -> TimeStep:
        """Do one action in every row that has not ended, or only in these of them; `actions` has an entry for all."""
        chosen = np.asarray(actions)
        if len(chosen) != self.num_envs:
            raise ValueError(f"{len(chosen)} actions for {self.num_envs} environments")
        allowed = range(self.num_envs) if rows is None else set(map(int, rows))
        going_on = [row for row in np.flatnonzero(~self._now.ended).tolist() if row in allowed]
        if isinstance(self.spec.action, Discrete):
            wrong = [int(chosen[row]) for row in going_on if not 0 <= chosen[row] < self.spec.action.n]
            if wrong:
                raise ValueError(f"unknown action {wrong[0]}: choose a number from 0 to {int(self.spec.action.n) - 1}")
        self._now.reward[:] = 0.0
        self._advance(chosen, going_on)
        return self._now.copy()

    def close(self) -> None:
        """Let go of everything; there may be nothing."""

    def _require_task(self, task: str) -> None:
        require_task(task, self.spec.tasks, f"task of {self.spec.id}")

    def _begin(self, rows: list[int], tasks: Sequence[str], seeds: Sequence[Seed]) -> None:
        raise NotImplementedError

    def _advance(self, actions: np.ndarray, rows: list[int]) -> None:
        raise NotImplementedError


State = TypeVar("State")


@runtime_checkable
class PureEnv(Protocol[State]):
    """An environment without a batch axis whose methods are pure: they are mapped and compiled by whoever calls them.

    Episodes have exactly `spec.max_steps` steps; their end is a truncation. Tasks are numbers, places in `spec.tasks`.
    """

    spec: EnvSpec

    def reset(self, key: Any) -> State:
        """Draw a start state; consumes `key`."""
        ...

    def observe(self, state: State) -> Any:
        """What the agent sees of a state."""
        ...

    def step(self, state: State, action: Any, task: Any) -> tuple[State, Any]:
        """The next state, and the reward of the task in it."""
        ...

    def render(self, state: State) -> Picture:
        """What a person would see of a state that is not traced."""
        ...


class NoEpisodeError(Exception):
    """A seed of which no episode can be made, or by an expert played to its end."""

    reason = "no episode"


class Played(NamedTuple):
    """An episode as far as it has come: all that it takes to play it again."""

    task: str
    seed: Seed
    actions: list[Any]


def play_again(env: VectorEnv, episodes: Sequence[Played], rows: Rows | None = None) -> TimeStep:
    """Bring rows to where episodes were, by resetting them and doing the same actions again.

    All come to their last action in the same step, so that what is returned shows the reward of each.
    """
    chosen = range(env.num_envs) if rows is None else rows
    now = env.reset([e.task for e in episodes], [e.seed for e in episodes], chosen)
    example = env.spec.action.sample()
    for left in range(max((len(episode.actions) for episode in episodes), default=0), 0, -1):
        going_on = [i for i, episode in enumerate(episodes) if len(episode.actions) >= left]
        actions = np.zeros((env.num_envs, *np.shape(example)), np.asarray(example).dtype)
        for i in going_on:
            actions[chosen[i]] = episodes[i].actions[-left]
        now = env.step(actions, [chosen[i] for i in going_on])
    return now


def pictures(make: Callable[[int], VectorEnv], episode: Played) -> Iterator[Picture]:
    """A video of an episode, from its start to what its last action led to; it is played again, elsewhere."""
    with closing(make(1)) as env:
        env.reset([episode.task], [episode.seed])
        yield env.render(0)
        for action in episode.actions:
            env.step(np.asarray(action)[None])
            yield env.render(0)


def require_task(task: str, tasks: Sequence[str], what: str) -> None:
    """Refuse an unknown task with the names that come close, or all where there are few."""
    if task in tasks:
        return
    simple, *names = (name.lower().replace("-", "_").replace(" ", "_") for name in (task, *tasks))
    by_simple = dict(zip(names, tasks, strict=True))
    near = [by_simple[match] for match in difflib.get_close_matches(simple, by_simple, n=3, cutoff=0.5)]
    advice = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(tasks[:40])}."
    raise UserError(f"There is no {what} {task!r}; {advice}")
