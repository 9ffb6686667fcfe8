"""Shards of CausalWorld: what its processes play."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from r2a.environments.causalworld.expert import Episode, play_expert
from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.environments.causalworld.tasks import TASK_NAMES
from r2a.environments.causalworld.worlds import Setting
from r2a.training.collect import shards


@dataclass(frozen=True)
class ShardTask:
    """Which episodes of which task, and all that decides what they are."""

    folder: str
    task: int
    start: int
    noise: tuple[float, ...]
    """Standard deviation of the noise on each episode's actions."""
    stalls: float
    """How often, in episodes with noise, the expert hardly moves for a while."""
    setting: Setting
    seed: int

    @property
    def file(self) -> Path:
        """Where the shard is or will be."""
        return Path(self.folder) / f"{TASK_NAMES[self.task]}-{self.start:08d}.npz"


class Shard(NamedTuple):
    """Episodes one after the other, without padding."""

    length: np.ndarray
    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    fraction: np.ndarray
    """How much of the goal was covered at each episode's end."""
    noise: np.ndarray


def play_shard(task: ShardTask) -> None:
    """Play a shard's episodes and write its file; the same task always gives the same shard.

    What is kept of an action is what the expert advised, not what noise made of it: that is what is to be imitated.
    """
    env = _environment(TASK_NAMES[task.task], task.setting)
    episodes = [_play(env, task, task.start + offset, noise) for offset, noise in enumerate(task.noise)]
    shard = Shard(
        length=np.array([len(episode.action) for episode in episodes], np.int32),
        observation=np.concatenate([episode.observation for episode in episodes]),
        action=np.concatenate([episode.advice for episode in episodes]),
        reward=np.concatenate([episode.reward for episode in episodes]),
        fraction=np.array([episode.fractional_success[-1] for episode in episodes], np.float32),
        noise=np.array(task.noise, np.float32),
    )
    shards.write_shard(task.file, shard._asdict())


def read_shard(file: Path) -> Shard:
    """A shard that `play_shard` wrote."""
    return Shard(**shards.read_shard(file, Shard._fields))


@cache
def _environment(task: str, setting: Setting) -> CausalWorldEnv:
    return setting.make(task)


def _play(env: CausalWorldEnv, task: ShardTask, number: int, noise: float) -> Episode:
    """Episode `number` of the task."""
    seed = np.random.SeedSequence((task.seed, task.task, number)).generate_state(1, np.uint64)[0]
    return play_expert(env, int(seed >> 1), noise, task.stalls if noise else 0.0)
