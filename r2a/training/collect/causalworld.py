"""Make offline data sets of CausalWorld: a scripted expert with a ladder of noise, in many processes, resumable.

What an episode is depends on the settings, its task and its number only: neither on the number of processes nor on
interruptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from r2a import __version__
from r2a.config import require, require_cameras, require_positive
from r2a.data.dataset import DatasetWriter, OfflineDataset, assign_splits
from r2a.environments.causalworld import NAME, SOLVED, TASK_NAMES, task_entry
from r2a.environments.causalworld.worlds import Setting
from r2a.training.collect.shards import append_shards, finish, shard_folder

if TYPE_CHECKING:
    from r2a.training.collect.causalworld_shards import Shard, ShardTask

SHARD_EPISODES = 10
Watch = Callable[[str, int, float], None]


@dataclass(frozen=True)
class CausalWorldCollectConfig:
    """How many episodes of which tasks."""

    tasks: tuple[str, ...] = TASK_NAMES
    """Names of the tasks; their order numbers them."""
    episodes: int = 250
    """Episodes per task."""
    ladder: tuple[float, ...] = (0.0, 0.05, 0.1)
    """Standard deviations of noise on where the fingertips are sent, in units of 5 cm; the episodes take turns. What is
    recorded is the expert's advice, noise or not."""
    stalls: float = 0.3
    """In episodes with noise the expert now and then hardly moves for five steps; at each step that begins with a
    probability of a fifth of this (0.3: about a quarter of the steps). What is advised where fingers stand still would
    be missing otherwise, and a cloned policy that comes to rest would stay there."""
    skip_frame: int = 10
    """Steps of the simulation, at 250 a second, that an action lasts."""
    max_steps: int = 0
    """Steps of an episode (0: as many as the task has, 75 to 150)."""
    goals: Literal["space_a", "space_b"] = "space_a"
    """Where goals lie; space_b is farther out."""
    cameras: tuple[int, ...] = ()
    """Cameras (0, 1, 2) whose pictures of table and goal are recorded in place of numbers; 25 kB a step and camera with
    64 pixels to a side. Train with the same causalworld.cameras, and encoder.features strided_half."""
    side: Literal[128, 64, 32] = 64
    """Pixels of a picture's side."""
    retrieval_fraction: float = 0.25
    seed: int = 0
    workers: int = os.cpu_count() or 1
    """Processes; the data do not depend on it."""

    def __post_init__(self) -> None:
        require(len(self.tasks) > 0, "tasks", self.tasks, "it must name at least one task")
        for name in self.tasks:
            task_entry(name)
        require(len(set(self.tasks)) == len(self.tasks), "tasks", self.tasks, "it must name each task once")
        require(self.episodes >= 2, "episodes", self.episodes, "it must be at least 2: one to learn, one to retrieve")
        require(
            len(self.ladder) > 0 and min(self.ladder) >= 0, "ladder", self.ladder, "it must list noise of 0 or more"
        )
        require(0 <= self.stalls < 1, "stalls", self.stalls, "it must lie between 0 and 1")
        require_positive(self, "skip_frame", "workers")
        require(self.max_steps >= 0, "max-steps", self.max_steps, "it must be 0 (the task's own) or more")
        require_cameras("", self.cameras)
        require(self.seed >= 0, "seed", self.seed, "it must not be negative")
        require(
            0 < self.retrieval_fraction < 1, "retrieval-fraction", self.retrieval_fraction, "it must lie within 0 and 1"
        )


def collect(
    config: CausalWorldCollectConfig,
    path: str | Path,
    *,
    overwrite: bool = False,
    watch: Watch = lambda task, episodes, success: None,
) -> OfflineDataset:
    """Write a data set, going on where an interrupted collection of the same settings was.

    `watch` hears of each finished shard: its task, its episodes, how much of their goals was covered.
    """
    # Late, and before anything is touched: it needs causal_world, whose absence is told in one sentence.
    from r2a.training.collect.causalworld_shards import play_shard, read_shard

    path = Path(path)
    with shard_folder(path, _identity(config), overwrite) as folder:
        tasks = {name: _shard_tasks(config, name, folder) for name in config.tasks}
        for task in finish([task for own in tasks.values() for task in own], play_shard, config.workers):
            shard = read_shard(task.file)
            watch(TASK_NAMES[task.task], len(shard.length), float(shard.fraction.mean()))
        _write(config, path, tasks, overwrite)
    return OfflineDataset.open(path)


def _identity(config: CausalWorldCollectConfig) -> dict[str, Any]:
    """Everything that decides the data."""
    settings = asdict(config)
    del settings["workers"]
    return {"settings": settings, "causal_world": version("causal_world"), "r2a": __version__}


def _shard_tasks(config: CausalWorldCollectConfig, name: str, folder: Path) -> list[ShardTask]:
    """The shards of one task, in order."""
    from r2a.training.collect.causalworld_shards import ShardTask

    noise = np.resize(np.array(config.ladder), config.episodes).tolist()
    return [
        ShardTask(
            str(folder),
            TASK_NAMES.index(name),
            start,
            tuple(noise[start : start + SHARD_EPISODES]),
            config.stalls,
            Setting(config.skip_frame, config.max_steps or None, config.goals, config.cameras, config.side),
            config.seed,
        )
        for start in range(0, config.episodes, SHARD_EPISODES)
    ]


def _write(
    config: CausalWorldCollectConfig, path: Path, tasks: Mapping[str, Sequence[ShardTask]], overwrite: bool
) -> None:
    """Put the shards together: task by task, all rows as long as the longest episode."""
    from r2a.environments.causalworld.gym import MOVES
    from r2a.training.collect.causalworld_shards import read_shard

    card = {name: _data_card(own) for name, own in tasks.items()}
    longest = max(task["longest"] for task in card.values())
    provenance = {
        "method": "scripted_expert",
        "seed": config.seed,
        **_identity(config),
        "note": "Actions are what the expert advised; what was done had the episode's noise added, and "
        "hardly moved where the expert stalled. Episodes end by their time alone: truncations.",
        "card": card,
    }
    writer = DatasetWriter(
        path,
        name=path.name,
        environment=NAME,
        task_names=config.tasks,
        num_actions=MOVES,
        provenance=provenance,
        overwrite=overwrite,
    )
    with writer:
        for number, (name, own) in enumerate(tasks.items()):
            # By the task, not by its place among those collected: its data do not depend on the others'.
            split = assign_splits(
                np.full(config.episodes, TASK_NAMES.index(name)), config.retrieval_fraction, config.seed
            )
            append_shards(writer, number, (read_shard(task.file) for task in own), split, longest, _others)


def _others(shard: Shard) -> dict[str, np.ndarray]:
    """The columns that only CausalWorld has; nothing ends its episodes but time."""
    return {"terminated": np.zeros(len(shard.length), bool), "fraction": shard.fraction, "noise": shard.noise}


def _data_card(tasks: Sequence[ShardTask]) -> dict[str, Any]:
    """What came of a task, in all and for each level of noise."""
    from r2a.training.collect.causalworld_shards import read_shard

    all_shards = [read_shard(task.file) for task in tasks]
    fraction, noise, length = (
        np.concatenate([getattr(shard, name) for shard in all_shards]) for name in ("fraction", "noise", "length")
    )
    return {
        "episodes": len(fraction),
        "success_rate": float(np.mean(fraction > SOLVED)),
        "fractional_success": float(fraction.mean()),
        "by_noise": {f"{level:g}": float(fraction[noise == level].mean()) for level in np.unique(noise)},
        "mean_length": float(length.mean()),
        "longest": int(length.max()),
    }
