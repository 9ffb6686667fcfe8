"""The one loop that steps environments from outside of compiled programs (inside of them: rollout_pure.py).

Collecting is the roll-out of an expert into a writer, evaluating that of an agent into scores, acting that of an agent
into the replay; filming and going on after a stop play recorded actions again. Imports no jax: processes that collect
load this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from gymnasium.spaces import Discrete
from jaxtyping import Bool, Float32, Float64, Int64, Shaped, UInt8

from r2a.environments.api import Played, Seed, TimeStep, VectorEnv, play_again
from r2a.errors import UserError


class View(NamedTuple):
    """What a policy is given, [B] rows: what is seen, and what was done and got just before; none of it at a start."""

    observation: Shaped[np.ndarray, "B ..."]
    instruction: UInt8[np.ndarray, "B w"]
    previous_action: Shaped[np.ndarray, "B ..."]
    previous_reward: Float32[np.ndarray, " B"]
    is_first: Bool[np.ndarray, " B"]
    active: Bool[np.ndarray, " B"]
    """Rows whose episode goes on; what a policy says for the others is not done."""


@runtime_checkable
class Policy(Protocol):
    """Whatever acts; it may remember."""

    def act(self, view: View, step: int) -> tuple[Any, dict[str, Any]]:
        """An action for every row, and more to know of each; `step` counts the roll-out's own."""
        ...


class Step(NamedTuple):
    """One step of all rows: what was seen, what was done, what else the policy said, and what it led to."""

    view: View
    action: Shaped[np.ndarray, "B ..."]
    extras: dict[str, Any]
    after: TimeStep


class Finished(NamedTuple):
    """An episode from its start to its end."""

    row: int
    number: int
    episode: Played
    scores: Float64[np.ndarray, " s"]

    @property
    def length(self) -> int:
        """How many steps it took."""
        return len(self.episode.actions)


NextEpisode = Callable[[int, int], tuple[str, Seed] | None]
"""Task and seed of a row's episode of that number; None: the row has none left."""


class Rollout:
    """Rows that go through episodes, each at its own pace; one that ends begins its next episode at once."""

    def __init__(self, env: VectorEnv, policy: Policy, next_episode: NextEpisode):
        self.env, self.policy, self._next = env, policy, next_episode
        count = env.num_envs
        example = np.asarray(env.spec.action.sample())
        self._no_action = -1 if isinstance(env.spec.action, Discrete) else 0.0
        kind = np.int32 if isinstance(env.spec.action, Discrete) else example.dtype
        self.action = np.full((count, *example.shape), self._no_action, kind)
        self.reward = np.zeros(count, np.float32)
        self.is_first = np.ones(count, bool)
        self.steps = 0
        self.numbers: Int64[np.ndarray, " B"] = np.full(count, -1, np.int64)
        self.episodes: list[Played | None] = [None] * count
        self._finished: list[Finished] = []
        self.now: TimeStep = self._begin(range(count))

    @property
    def active(self) -> Bool[np.ndarray, " B"]:
        """The rows that have an episode to go on with."""
        return np.array([episode is not None for episode in self.episodes])

    def step(self) -> Step:
        """Let the policy act in every row, and begin what comes next where an episode ended."""
        view = View(self.now.observation, self.now.instruction, self.action, self.reward, self.is_first, self.active)
        chosen, extras = self.policy.act(view, self.steps)
        action = np.array(chosen)  # episodes keep it, and a policy may write into the same array again
        after = self.env.step(action, np.flatnonzero(view.active))
        self.steps += 1
        for row in np.flatnonzero(view.active).tolist():
            episode = self.episodes[row]
            assert episode is not None
            episode.actions.append(action[row])
            if after.ended[row]:
                self._finished.append(Finished(row, int(self.numbers[row]), episode, after.scores[row].copy()))
        ended = after.ended & view.active
        self.action = action.astype(self.action.dtype)
        self.action[ended] = self._no_action
        self.reward = np.where(ended, 0.0, after.reward).astype(np.float32)
        self.is_first = ended
        self.now = after
        if ended.any():
            self.now = self._begin(np.flatnonzero(ended).tolist())
        return Step(view, action, extras, after)

    def finished(self) -> list[Finished]:
        """The episodes that came to their end since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    def _begin(self, rows: Sequence[int]) -> TimeStep:
        """Begin the next episode of these rows; those that have none left stay as they are."""
        begun: list[tuple[int, str, Seed]] = []
        for row in rows:
            self.numbers[row] += 1
            following = self._next(row, int(self.numbers[row]))
            self.episodes[row] = None if following is None else Played(*following, [])
            if following is not None:
                begun.append((row, *following))
        if not begun:
            return self.now
        places, tasks, seeds = zip(*begun, strict=True)
        return self.env.reset(tasks, seeds, places)

    def state(self) -> dict[str, np.ndarray]:
        """All that another roll-out of the same environment needs to go on from here: which episodes, and how far."""
        episodes = [episode or Played("", 0, []) for episode in self.episodes]
        actions = [np.asarray(action) for episode in episodes for action in episode.actions]
        small = np.uint8 if isinstance(self.env.spec.action, Discrete) else self.action.dtype
        finished = self._finished
        return {
            "episode": self.numbers.copy(),
            "length": np.array([len(episode.actions) for episode in episodes], np.int64),
            "actions": np.array(actions, small).reshape(-1, *self.action.shape[1:]),
            "observation": self.now.observation.copy(),
            "finished_lane": np.array([episode.row for episode in finished], np.int64),
            "finished_episode": np.array([episode.number for episode in finished], np.int64),
            "finished_score": np.array([episode.scores[0] for episode in finished], np.float64),
            "finished_length": np.array([episode.length for episode in finished], np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on where `state` was taken: play every row's episode again, and compare."""
        if len(state["episode"]) != self.env.num_envs:
            raise UserError(
                f"The saved episodes are of {len(state['episode'])} environments, but this run has {self.env.num_envs}."
            )
        ends = np.cumsum(state["length"])
        episodes: list[Played] = []
        for row, (number, length, end) in enumerate(zip(state["episode"], state["length"], ends, strict=True)):
            following = self._next(row, int(number))
            assert following is not None
            episodes.append(Played(*following, list(state["actions"][end - length : end])))
        self.now = play_again(self.env, episodes)
        if not np.array_equal(self.now.observation, state["observation"]):
            raise UserError("The saved episodes went another way when played again: their settings or version differ.")
        self.numbers, self.episodes = state["episode"].copy(), [*episodes]
        self.is_first = state["length"] == 0
        for row, episode in enumerate(episodes):
            self.action[row] = episode.actions[-1] if episode.actions else self._no_action
        self.reward = np.where(self.is_first, 0.0, self.now.reward).astype(np.float32)
        self._finished = []
        for row, number, score, length in zip(
            *(state[f"finished_{name}"].tolist() for name in ("lane", "episode", "score", "length")), strict=True
        ):
            scores = np.zeros(len(self.env.spec.scores))
            scores[0] = score
            self._finished.append(Finished(row, number, Played("", 0, [None] * length), scores))


class Episode(NamedTuple):
    """A whole episode of T steps; its actions are those to learn from, if the policy told these from what it did."""

    task: str
    seed: Seed
    instruction: UInt8[np.ndarray, " w"]
    observation: Shaped[np.ndarray, "T+1 ..."]
    action: Shaped[np.ndarray, "T ..."]
    reward: Float32[np.ndarray, " T"]
    terminated: bool
    scores: Float64[np.ndarray, " s"]


def play(env: VectorEnv, policy: Policy, task: str, seed: Seed) -> Episode:
    """One episode in an environment of one row."""
    rollout = Rollout(env, policy, lambda row, number: (task, seed) if number == 0 else None)
    instruction, seen = rollout.now.instruction[0], [rollout.now.observation[0]]
    actions, rewards, step = [], [], None
    while step is None or not step.after.ended[0]:
        step = rollout.step()
        seen.append(step.after.observation[0])
        actions.append(step.extras.get("recorded", step.action)[0])
        rewards.append(step.after.reward[0])
    terminated, scores = bool(step.after.terminated[0]), step.after.scores[0]
    columns = np.stack(seen), np.stack(actions), np.array(rewards, np.float32)
    return Episode(task, seed, instruction, *columns, terminated, scores)


def play_all(env: VectorEnv, policy: Policy, episodes: Sequence[tuple[str, Seed]]) -> Iterator[Finished]:
    """One episode in every row, in lockstep; yields each when it ends."""
    rollout = Rollout(env, policy, lambda row, number: episodes[row] if number == 0 else None)
    while rollout.active.any():
        rollout.step()
        yield from rollout.finished()
