"""Evaluation: whole games by the agent as it is, nearly without random actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import UInt8

from r2a.agents.agent import Agent
from r2a.config import OnlineConfig
from r2a.environments.lanes import FinishedEpisode
from r2a.training.online.acting import Actors
from r2a.training.online.worlds import make_lanes
from r2a.types import EncodedBatch

STEPS_AT_A_TIME = 50
SEED_OF_EVALUATIONS = 1_000_003
"""Added to the run's seed: games that are evaluated are none of those that were learnt from."""


class Played(NamedTuple):
    """Games from start to end, and what was done in each."""

    episodes: tuple[FinishedEpisode, ...]
    actions: tuple[bytes, ...]

    @property
    def scores(self) -> np.ndarray:
        """The score of every game."""
        return np.array([episode.score for episode in self.episodes])


def play_games(agent: Agent, encoded: EncodedBatch | None, config: OnlineConfig) -> Played:
    """`play.episodes` games side by side, the same starts every time; all read from the same retrieval batch."""
    seed = config.seed + SEED_OF_EVALUATIONS
    lanes = make_lanes(config, config.play.episodes, seed)
    epsilon = np.full(lanes.num_lanes, config.play.epsilon, np.float32)
    actors = Actors(lanes, config.replay.stack, epsilon, agent)
    first: dict[int, FinishedEpisode] = {}
    actions = [bytearray() for _ in range(lanes.num_lanes)]
    step = 0
    while len(first) < lanes.num_lanes:  # a lane that is done plays on until the last one is
        chunk = actors.play(agent, encoded, STEPS_AT_A_TIME, jax.random.key(seed), step)
        step += STEPS_AT_A_TIME
        for lane in range(lanes.num_lanes):
            if lane not in first:
                done = chunk.present[lane] & ~chunk.is_last[lane]
                actions[lane] += chunk.action[lane][done].astype(np.uint8).tobytes()
        for episode in lanes.finished():
            first.setdefault(episode.lane, episode)
    lanes.close()
    episodes = tuple(first[lane] for lane in range(len(first)))
    return Played(episodes, tuple(bytes(a[: e.length]) for a, e in zip(actions, episodes, strict=True)))


def film(played: Played, lane: int, config: OnlineConfig) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """The pictures of one of the games that were evaluated."""
    lanes = make_lanes(config, 1, config.seed + SEED_OF_EVALUATIONS)
    yield from lanes.pictures(lane, played.episodes[lane].episode, played.actions[lane])
    lanes.close()
