"""What every environment offers, whatever its world: B episodes side by side.

The law: **an episode is a function of its task, its seed and its actions.** So it can be played again: to film it, to
go on with it after a stop, and to bring back a simulator whose process has died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    def copy(self) -> TimeStep:
        """What is handed out does not change later."""
        return TimeStep(*(column.copy() for column in self))


def blank(spec: EnvSpec, num_envs: int) -> TimeStep:
    """Before the first reset: every row has ended."""
    if num_envs < 1:
        raise UserError(f"The number of environments is {num_envs}, but it must be greater than zero.")
    return TimeStep(
        np.zeros((num_envs, *spec.observation.shape), spec.observation.dtype),
        np.zeros((num_envs, spec.instruction_length), np.uint8),
        np.zeros(num_envs, np.float32),
        np.ones(num_envs, np.float32),
        np.ones(num_envs, bool),
        np.zeros(num_envs, bool),
        np.zeros((num_envs, len(spec.scores))),
    )


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


State = TypeVar("State")


@runtime_checkable
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


def rows_to_reset(num_envs: int, tasks: Sequence[str], seeds: Sequence[Seed], rows: Rows | None) -> list[int]:
    """The rows that a reset is about, after checking what it was given."""
    chosen = list(range(num_envs)) if rows is None else [int(row) for row in rows]
    if not len(chosen) == len(tasks) == len(seeds):
        raise ValueError(f"{len(chosen)} rows, {len(tasks)} tasks and {len(seeds)} seeds are not as many of each")
    return chosen


def rows_to_step(spec: EnvSpec, ended: np.ndarray, actions: Any, rows: Rows | None) -> tuple[np.ndarray, list[int]]:
    """The actions, checked, and the rows that they are done in."""
    chosen = np.asarray(actions)
    if len(chosen) != len(ended):
        raise ValueError(f"{len(chosen)} actions for {len(ended)} environments")
    going_on = np.flatnonzero(~ended).tolist()
    if rows is not None:
        allowed = set(map(int, rows))
        going_on = [row for row in going_on if row in allowed]
    if isinstance(spec.action, Discrete):
        wrong = [int(chosen[row]) for row in going_on if not 0 <= chosen[row] < spec.action.n]
        if wrong:
            raise ValueError(f"unknown action {wrong[0]}: choose a number from 0 to {int(spec.action.n) - 1}")
    return chosen, going_on


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
    chosen = list(range(env.num_envs)) if rows is None else [int(row) for row in rows]
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
    env = make(1)
    try:
        env.reset([episode.task], [episode.seed])
        yield env.render(0)
        for action in episode.actions:
            env.step(np.asarray(action)[None])
            yield env.render(0)
    finally:
        env.close()


def require_task(task: str, tasks: Sequence[str], what: str) -> None:
    """Refuse an unknown task with the names that come close, or all where there are few."""
    import difflib

    if task in tasks:
        return
    by_simple = {name.lower().replace("-", "_").replace(" ", "_"): name for name in tasks}
    simple = task.lower().replace("-", "_").replace(" ", "_")
    near = [by_simple[match] for match in difflib.get_close_matches(simple, by_simple, n=3, cutoff=0.5)]
    if near:
        advice = f"did you mean {' or '.join(near)}?"
    else:
        advice = f"choose one of {', '.join(tasks[:40])}."
    raise UserError(f"There is no {what} {task!r}; {advice}")
