"""Shards of BabyAI: what its processes play."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from r2a.environments.babyai.expert import Episode, Failure, play_expert
from r2a.environments.babyai.levels import LEVEL_NAMES
from r2a.errors import UserError
from r2a.training.collect import shards

MOST_ATTEMPTS = 200  # seeds for one episode
REASONS = ("no mission", "bot lost", "out of time")


@dataclass(frozen=True)
class ShardTask:
    """Which episodes of which level, and all that decides what they are."""

    folder: str
    level: int
    start: int
    noise: tuple[float, ...]
    """Share of random actions of each episode."""
    max_steps: int
    seed: int
    limit_seconds: float

    @property
    def file(self) -> Path:
        """Where the shard is or will be."""
        return Path(self.folder) / f"{LEVEL_NAMES[self.level]}-{self.start:08d}.npz"


class Shard(NamedTuple):
    """Episodes one after the other, without padding, and how many seeds were dropped for each of REASONS."""

    length: np.ndarray
    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    mission: np.ndarray
    noise: np.ndarray
    dropped: np.ndarray


def play_shard(task: ShardTask) -> None:
    """Play a shard's episodes and write its file; the same task always gives the same shard."""
    dropped: Counter[str] = Counter()
    episodes = [_play_episode(task, task.start + offset, epsilon, dropped) for offset, epsilon in enumerate(task.noise)]
    shard = Shard(
        length=np.array([len(episode.action) for episode in episodes], np.int32),
        observation=np.concatenate([episode.observation for episode in episodes]),
        action=np.concatenate([episode.action for episode in episodes]),
        reward=np.concatenate([episode.reward for episode in episodes]),
        terminated=np.array([episode.terminated for episode in episodes]),
        mission=np.stack([episode.mission for episode in episodes]),
        noise=np.array(task.noise, np.float32),
        dropped=np.array([dropped[reason] for reason in REASONS], np.int64),
    )
    shards.write_shard(task.file, shard._asdict())


def read_shard(file: Path) -> Shard:
    """A shard that `play_shard` wrote."""
    return Shard(**shards.read_shard(file, Shard._fields))


def _play_episode(task: ShardTask, number: int, epsilon: float, dropped: Counter[str]) -> Episode:
    """Episode `number` of the level: that of the first of its seeds which gives one."""
    for attempt in range(MOST_ATTEMPTS):
        sequence = np.random.SeedSequence((task.seed, task.level, number, attempt))
        seed = int(sequence.generate_state(1, np.uint64)[0] >> 1)
        outcome = play_expert(task.level, seed, epsilon, task.max_steps, task.limit_seconds)
        if not isinstance(outcome, Failure):
            return outcome
        dropped[outcome.reason] += 1
    raise UserError(
        f"{LEVEL_NAMES[task.level]} gave no episode with {MOST_ATTEMPTS} seeds at noise {epsilon:g}; "
        "allow it more seconds, or leave it out."
    )
