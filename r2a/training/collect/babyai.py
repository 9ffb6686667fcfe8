"""Make offline data sets of BabyAI: the expert bot with a ladder of noise, in many processes, resumable.

What an episode is depends on the settings, its level and its number only: neither on the number of processes nor on
interruptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from r2a import __version__
from r2a.config import require, require_positive
from r2a.data.dataset import DatasetWriter, OfflineDataset, assign_splits
from r2a.environments.babyai import ACTION_NAMES, LEVEL_NAMES, NAME, VOCABULARY_FINGERPRINT, level_index
from r2a.training.collect.shards import append_shards, finish, shard_folder

if TYPE_CHECKING:
    from r2a.training.collect.babyai_shards import Shard, ShardTask

SHARD_EPISODES = 50
Watch = Callable[[str, int, float], None]


@dataclass(frozen=True)
class BabyAICollectConfig:
    """How many episodes of which levels; a quarter of them is kept for retrieval."""

    levels: tuple[str, ...] = LEVEL_NAMES
    """Names of the levels; their order numbers the tasks."""
    episodes: int = 1_000
    """Episodes per level (the paper: 50,000 and 200,000)."""
    ladder: tuple[float, ...] = (0.0, 0.1, 0.3, 0.6, 1.0)
    """Shares of random actions; the episodes of a level take turns."""
    max_steps: int = 128
    """Longer episodes are cut off here: a truncation, not a termination."""
    retrieval_fraction: float = 0.25
    seed: int = 0
    workers: int = os.cpu_count() or 1
    """Processes; the data do not depend on it."""
    limit_seconds: float = 60.0
    """Processor time of one episode; beyond it its seed is dropped. Episodes take a tenth of a second."""

    def __post_init__(self) -> None:
        require(len(self.levels) > 0, "levels", self.levels, "it must name at least one level")
        for name in self.levels:
            level_index(name)
        twice = [name for name in self.levels if self.levels.count(name) > 1]
        require(not twice, "levels", self.levels, f"it must name each level once ({twice[0] if twice else ''})")
        require(self.episodes >= 2, "episodes", self.episodes, "it must be at least 2: one to learn, one to retrieve")
        require(
            len(self.ladder) > 0 and all(0 <= e <= 1 for e in self.ladder),
            "ladder",
            self.ladder,
            "it must list probabilities between 0 and 1",
        )
        require_positive(self, "max_steps", "workers", "limit_seconds")
        require(self.seed >= 0, "seed", self.seed, "it must not be negative")
        require(
            0 < self.retrieval_fraction < 1, "retrieval-fraction", self.retrieval_fraction, "it must lie within 0 and 1"
        )


def collect(
    config: BabyAICollectConfig,
    path: str | Path,
    *,
    overwrite: bool = False,
    watch: Watch = lambda level, episodes, mean_return: None,
) -> OfflineDataset:
    """Write a data set, going on where an interrupted collection of the same settings was.

    `watch` hears of each finished shard: its level, its episodes, their mean return.
    """
    # Late, and before anything is touched: it needs minigrid, whose absence is told in one sentence.
    from r2a.training.collect.babyai_shards import play_shard

    path = Path(path)
    with shard_folder(path, _identity(config), overwrite) as folder:
        tasks = {name: _shard_tasks(config, name, folder) for name in config.levels}
        for task in finish([task for own in tasks.values() for task in own], play_shard, config.workers):
            _tell(watch, task)
        _write(config, path, tasks, overwrite)
    return OfflineDataset.open(path)


def _identity(config: BabyAICollectConfig) -> dict[str, Any]:
    """Everything that decides the data."""
    from r2a.environments.babyai.upstream import VERSION

    settings = asdict(config)
    del settings["workers"]
    return {"settings": settings, "vocabulary": VOCABULARY_FINGERPRINT, "minigrid": VERSION, "r2a": __version__}


def _shard_tasks(config: BabyAICollectConfig, name: str, folder: Path) -> list[ShardTask]:
    """The shards of one level, in order."""
    from r2a.training.collect.babyai_shards import ShardTask

    noise = np.resize(np.array(config.ladder), config.episodes).tolist()
    return [
        ShardTask(
            str(folder),
            level_index(name),
            start,
            tuple(noise[start : start + SHARD_EPISODES]),
            config.max_steps,
            config.seed,
            config.limit_seconds,
        )
        for start in range(0, config.episodes, SHARD_EPISODES)
    ]


def _tell(watch: Watch, task: ShardTask) -> None:
    from r2a.training.collect.babyai_shards import read_shard

    shard = read_shard(task.file)
    watch(LEVEL_NAMES[task.level], len(shard.length), float(shard.reward.sum() / len(shard.length)))


def _write(config: BabyAICollectConfig, path: Path, tasks: Mapping[str, Sequence[ShardTask]], overwrite: bool) -> None:
    """Put the shards together: level by level, all rows as long as the longest episode."""
    from r2a.training.collect.babyai_shards import read_shard

    card = {name: _data_card(own) for name, own in tasks.items()}
    longest = max(level["longest"] for level in card.values())
    provenance = {
        "method": "expert_bot",
        "seed": config.seed,
        **_identity(config),
        "note": f"Episodes are cut off after {config.max_steps} steps, or where minigrid ends them: truncations. "
        "Seeds whose episode the bot could not play to its end were dropped, and the next ones taken.",
        "card": card,
    }
    writer = DatasetWriter(
        path,
        name=path.name,
        environment=NAME,
        task_names=config.levels,
        num_actions=len(ACTION_NAMES),
        provenance=provenance,
        overwrite=overwrite,
    )
    with writer:
        for number, (name, own) in enumerate(tasks.items()):
            # By the level, not by its place among those collected: its data do not depend on the others'.
            level = np.full(config.episodes, level_index(name))
            split = assign_splits(level, config.retrieval_fraction, config.seed)
            append_shards(writer, number, (read_shard(task.file) for task in own), split, longest, _others)


def _others(shard: Shard) -> dict[str, np.ndarray]:
    """The columns that only BabyAI has."""
    return {"terminated": shard.terminated, "instruction": shard.mission, "noise": shard.noise}


def _data_card(tasks: Sequence[ShardTask]) -> dict[str, Any]:
    """What came of a level; shard by shard, since all of them together may not fit in memory."""
    from r2a.training.collect.babyai_shards import REASONS, read_shard

    episodes = successes = cut_off = steps = longest = 0
    total = 0.0
    dropped = dict.fromkeys(REASONS, 0)
    for task in tasks:
        shard = read_shard(task.file)
        episodes += len(shard.length)
        successes += int(np.count_nonzero(shard.reward > 0))
        cut_off += int(np.count_nonzero(~shard.terminated))
        steps += int(shard.length.sum())
        longest = max(longest, int(shard.length.max()))
        total += float(shard.reward.sum(dtype=np.float64))
        for reason, count in zip(REASONS, shard.dropped, strict=True):
            dropped[reason] += int(count)
    return {
        "episodes": episodes,
        "success_rate": successes / episodes,
        "cut_off": cut_off / episodes,
        "mean_length": steps / episodes,
        "longest": longest,
        "mean_return": total / episodes,
        "dropped": {reason: count for reason, count in dropped.items() if count},
    }
