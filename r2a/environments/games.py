"""Lanes of games that are played one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Integer, UInt8

from r2a.environments.lanes import FinishedEpisode, LanesSpec, LaneStep, Observations, Picture
from r2a.errors import UserError


class Outcome(NamedTuple):
    """What one action did to one game."""

    reward: float
    over: bool
    life_lost: bool


@runtime_checkable
class Game(Protocol):
    """One game; the same seed and the same actions give the same episode, whatever was played before."""

    def begin(self, seed: np.random.SeedSequence) -> None:
        """Start an episode."""
        ...

    def act(self, action: int) -> Outcome:
        """Do one action."""
        ...

    def observation(self) -> np.ndarray:
        """What the agent sees now."""
        ...

    def picture(self) -> UInt8[np.ndarray, "h w 3"]:
        """What a person sees now."""
        ...


class GameLanes:
    """The `Lanes` of Python objects, each a `Game`; remembers every action of the episodes that are going on.

    Restoring plays those actions again: emulators' own snapshots turned out to be inexact (Q*bert's, for one).
    """

    def __init__(
        self,
        spec: LanesSpec,
        games: Sequence[Game],
        make_filmed: Callable[[], Game],
        seed: int,
        *,
        clip_rewards: bool = False,
        life_ends_episode: bool = False,
    ):
        self._spec, self._games, self._make_filmed, self._seed = spec, games, make_filmed, seed
        self._clip_rewards, self._life_ends_episode = clip_rewards, life_ends_episode
        num_lanes = len(games)
        self._actions = [bytearray() for _ in range(num_lanes)]
        self._observation = np.zeros((num_lanes, *spec.observation_shape), spec.observation_dtype)
        self._episode = np.full(num_lanes, -1, np.int64)
        self._score = np.zeros(num_lanes, np.float64)
        self._ended = np.ones(num_lanes, bool)
        self._over = np.ones(num_lanes, bool)  # the game itself, not just a life of it
        self._finished: list[FinishedEpisode] = []

    @property
    def spec(self) -> LanesSpec:
        return self._spec

    @property
    def num_lanes(self) -> int:
        return len(self._games)

    def reset(self) -> Observations:
        """Begin the next episode in every lane; what was going on is given up."""
        for lane in range(self.num_lanes):
            self._begin(lane)
        self._ended[:] = False
        return self._observation.copy()

    def restart(self, ended: Bool[np.ndarray, " B"]) -> Observations:
        """Begin new episodes in lanes that ended; the rows of the others are as they were.

        Where only a life was lost, the game goes on and the observation stays.
        """
        too_early = np.flatnonzero(ended & ~self._ended)
        if too_early.size:
            raise ValueError(f"lane {too_early[0]} is to be restarted, but its episode has not ended")
        for lane in np.flatnonzero(ended & self._over).tolist():
            self._begin(lane)
        self._ended &= ~ended
        return self._observation.copy()

    def step(self, actions: Integer[np.ndarray, " B"]) -> LaneStep:
        """Do one action in every lane."""
        if self._ended.any():
            raise ValueError(f"lane {np.flatnonzero(self._ended)[0]} has ended: restart comes before the next step")
        chosen = actions.tolist()
        if len(chosen) != self.num_lanes:
            raise ValueError(f"{len(chosen)} actions for {self.num_lanes} lanes")
        if min(chosen) < 0 or max(chosen) >= self._spec.num_actions:
            raise ValueError(f"actions are {chosen}, but there are numbers from 0 to {self._spec.num_actions - 1} only")
        reward = np.zeros(self.num_lanes, np.float32)
        terminated = np.zeros(self.num_lanes, bool)
        truncated = np.zeros(self.num_lanes, bool)
        for lane, (game, action) in enumerate(zip(self._games, chosen, strict=True)):
            outcome = game.act(action)
            self._actions[lane].append(action)
            self._score[lane] += outcome.reward
            self._observation[lane] = game.observation()
            reward[lane] = np.sign(outcome.reward) if self._clip_rewards else outcome.reward
            too_long = not outcome.over and len(self._actions[lane]) >= self._spec.max_steps
            truncated[lane] = too_long
            terminated[lane] = outcome.over or (self._life_ends_episode and outcome.life_lost and not too_long)
            self._over[lane] = outcome.over or too_long
        self._ended = terminated | truncated
        for lane in np.flatnonzero(self._over).tolist():
            episode, score, length = int(self._episode[lane]), float(self._score[lane]), len(self._actions[lane])
            self._finished.append(FinishedEpisode(lane, episode, score, length))
        return LaneStep(self._observation.copy(), reward, terminated, truncated)

    def finished(self) -> list[FinishedEpisode]:
        """The games that came to their end since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    def pictures(self, lane: int, episode: int, actions: bytes) -> Iterator[Picture]:
        """An episode of these lanes in colour, from its first observation to the one after its last action.

        It is played again to be filmed: the games of the lanes themselves are not disturbed.
        """
        game = self._make_filmed()
        game.begin(self._seed_of(lane, episode))
        yield game.picture()
        for action in actions:
            game.act(action)
            yield game.picture()

    def state(self) -> dict[str, np.ndarray]:
        """All that other lanes need to go on from here: which episodes, and what was done in them so far."""
        lanes, episodes, scores, lengths = ([episode[i] for episode in self._finished] for i in range(4))
        return {
            "seed": np.array([self._seed], np.int64),
            "episode": self._episode.copy(),
            "length": np.array([len(actions) for actions in self._actions], np.int64),
            "actions": np.frombuffer(b"".join(self._actions), np.uint8).copy(),
            "score": self._score.copy(),
            "ended": self._ended.copy(),
            "over": self._over.copy(),
            "observation": self._observation.copy(),
            "finished_lane": np.array(lanes, np.int64),
            "finished_episode": np.array(episodes, np.int64),
            "finished_score": np.array(scores, np.float64),
            "finished_length": np.array(lengths, np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on where `state` was taken: play the actions of every lane's episode again, and compare."""
        if len(state["episode"]) != self.num_lanes or int(state["seed"][0]) != self._seed:
            raise UserError(
                f"The saved games are {len(state['episode'])} lanes of seed {int(state['seed'][0])}, "
                f"but this run has {self.num_lanes} lanes of seed {self._seed}."
            )
        self._episode = state["episode"].copy()
        ends = np.cumsum(state["length"])
        for lane, (length, end) in enumerate(zip(state["length"].tolist(), ends.tolist(), strict=True)):
            self._actions[lane] = bytearray(state["actions"][end - length : end].tobytes())
            if self._episode[lane] >= 0:
                self._replay(lane)
        same = np.array_equal(self._observation, state["observation"]) and np.array_equal(self._score, state["score"])
        if not same:
            raise UserError("The saved games went another way when played again: their settings or version differ.")
        self._ended, self._over = state["ended"].copy(), state["over"].copy()
        columns = (state[f"finished_{name}"].tolist() for name in FinishedEpisode._fields)
        self._finished = [FinishedEpisode(*row) for row in zip(*columns, strict=True)]

    def close(self) -> None:
        """Let go of the games."""
        self._games = ()

    def _seed_of(self, lane: int, episode: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self._seed, spawn_key=(lane, episode))

    def _begin(self, lane: int) -> None:
        self._episode[lane] += 1
        self._actions[lane] = bytearray()
        self._replay(lane)
        self._over[lane] = False

    def _replay(self, lane: int) -> None:
        game = self._games[lane]
        game.begin(self._seed_of(lane, int(self._episode[lane])))
        self._score[lane] = sum(game.act(action).reward for action in self._actions[lane])
        self._observation[lane] = game.observation()
