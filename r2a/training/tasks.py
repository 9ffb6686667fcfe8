"""Which tasks of a data set a run is about."""

from __future__ import annotations

from dataclasses import replace

from r2a.config import RunConfig
from r2a.data.dataset import OfflineDataset
from r2a.environments.babyai import NAME as BABYAI
from r2a.environments.babyai import level_index, require_vocabulary
from r2a.environments.causalworld import NAME as CAUSALWORLD
from r2a.environments.causalworld import layout
from r2a.errors import UserError


def choose_tasks(config: RunConfig, dataset: OfflineDataset) -> tuple[RunConfig, OfflineDataset]:
    """The run's settings with its tasks settled, and the data set with those tasks and as many of their episodes."""
    config = settle_tasks(config, dataset)
    if config.data.tasks:
        dataset = dataset.select(config.data.tasks, config.data.episodes_per_task)
    return config, dataset


def settle_tasks(config: RunConfig, dataset: OfflineDataset) -> RunConfig:
    """The run's settings with its tasks counted and, unless they are gridroboman's with all their episodes, named.

    Refuses data of another environment, of other tasks, of another vocabulary, or of another rate of acting.
    """
    if dataset.environment != config.environment:
        raise UserError(f"{dataset.path} holds episodes of {dataset.environment}, not of {config.environment}.")
    names, wanted = config.data.tasks, config.data.num_tasks
    if config.environment in (BABYAI, CAUSALWORLD) and config.data.task_input != "none":
        raise UserError(
            f"data.task-input is {config.data.task_input}, but what is seen in {config.environment} tells the task; "
            f"set it to none."
        )
    if config.environment == BABYAI:
        require_vocabulary(dataset.manifest["provenance"].get("vocabulary"), str(dataset.path))
        for name in names:
            level_index(name)
    if config.environment == CAUSALWORLD:
        require_same_world(config, dataset)
    if not names and wanted > len(dataset.task_names):
        raise UserError(f"{dataset.path} has {len(dataset.task_names)} tasks; {wanted} were asked for.")
    if not names and (config.environment in (BABYAI, CAUSALWORLD) or config.data.episodes_per_task):
        names = dataset.task_names[: wanted or None]
    count = len(names) or wanted or len(dataset.task_names)
    at_once = min(config.data.tasks_per_step, count)
    batch_size = max(config.data.batch_size // at_once, 1) * at_once
    data = replace(config.data, tasks=tuple(names), num_tasks=count, tasks_per_step=at_once, batch_size=batch_size)
    return replace(config, data=data)


def require_same_world(config: RunConfig, dataset: OfflineDataset) -> None:
    """Refuse CausalWorld's data where actions last longer, or something else is seen, than in the run's worlds."""
    world, collected = config.causalworld, dataset.manifest["provenance"].get("settings", {})
    skipped, cameras = collected.get("skip_frame"), tuple(collected.get("cameras", ()))
    if skipped != world.skip_frame:
        raise UserError(
            f"An action of {dataset.path} lasts {skipped} frames, and causalworld.skip-frame is {world.skip_frame}; "
            f"set it to {skipped}."
        )
    seen = (cameras, collected.get("side") if cameras else None)
    if seen != (world.cameras, world.side if world.cameras else None):
        shows = f"pictures of cameras {cameras} with {seen[1]} pixels to a side" if cameras else "numbers"
        raise UserError(
            f"{dataset.path} shows {shows}, and the run's worlds would not: set causalworld.cameras and "
            f"causalworld.side to what the data were collected with."
        )
    if not cameras and dataset.observation_shape != (layout.SIZE,):
        raise UserError(
            f"An observation of {dataset.path} has shape {dataset.observation_shape}, and CausalWorld's are "
            f"{layout.SIZE} numbers: collect the data anew."
        )
