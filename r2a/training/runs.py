"""Run folders: what a run is about, and its settings read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from r2a.config import FromDataset, FromReplay, RunConfig, config_from_dict, override
from r2a.data.dataset import OfflineDataset
from r2a.environments.registry import check_data, world_of
from r2a.errors import UserError
from r2a.renamed import modern_settings
from r2a.training.checkpoint import latest_checkpoint
from r2a.training.metrics import read_run_config


def settle(config: RunConfig, dataset: OfflineDataset) -> tuple[RunConfig, OfflineDataset]:
    """The run's settings with its tasks named and counted, and the data set with those tasks and their episodes.

    Refuses data of another environment, and settings that do not fit these data.
    """
    check_data(config.environment, config.env, dataset.manifest, str(dataset.path))
    data = config.data
    if "instruction" in dataset.columns and data.task_input != "none":
        raise UserError(
            f"data.task-input is {data.task_input}, but instructions tell the task in {config.environment}; "
            "set it to none."
        )
    if not data.tasks and data.num_tasks > len(dataset.task_names):
        raise UserError(f"{dataset.path} has {len(dataset.task_names)} tasks; {data.num_tasks} were asked for.")
    names = data.tasks or dataset.task_names[: data.num_tasks or None]
    dataset = dataset.select(names, data.episodes_per_task)
    at_once = min(data.tasks_per_step, len(names))
    batch_size = max(data.batch_size // at_once, 1) * at_once
    data = replace(data, tasks=names, num_tasks=len(names), tasks_per_step=at_once, batch_size=batch_size)
    learner = config.learner
    if learner.schedule_steps < 0:
        learner = replace(learner, schedule_steps=config.steps)
    return replace(config, learner=learner, experience=replace(config.from_dataset, data=data)), dataset


def run_config(values: Mapping[str, Any]) -> RunConfig:
    """The settings of a run, as JSON has them, under today's names or those of before."""
    values = modern_settings(values)
    world = world_of(values.get("environment", ""))
    steps = values["evaluation"].pop("steps", None)
    if not values["env"] and steps and "max_steps" in {f.name for f in fields(world.settings)}:
        values["env"] = {"max_steps": steps}  # of a world that had no settings of its own
    if world.pure:  # runs of before read from all three where that took no time
        values["evaluation"].setdefault("sources", ["right", "wrong", "random"])
    experience = FromReplay if "replay" in values["experience"] else FromDataset
    return config_from_dict(RunConfig, values, {"env": type(world.settings), "experience": experience})


def read_config(folder: str | Path) -> RunConfig:
    """The settings of a run folder."""
    values = read_run_config(folder)
    if not isinstance(values.get("config"), dict):
        raise UserError(f"{folder} holds no training run: its config.json has no settings.")
    return run_config(values["config"])


def checkpoint_to_resume(folder: str | Path, saved: Mapping[str, Any]) -> Path | None:
    """The newest checkpoint of a run that had the same settings and data; None if it has saved nothing yet."""
    if read_run_config(folder).get("dataset") != saved.get("dataset"):
        raise UserError(f"{folder} was trained on other data; it can only go on with the data set it began with.")
    before, now = read_config(folder), run_config(saved["config"])
    if not before.is_online and not before.data.tasks:  # runs of before did not name the first tasks of their data
        before = override(before, {"data.tasks": now.data.tasks})
    if before != now:
        raise UserError(f"{folder} was started with other settings; it can only go on with those.")
    return latest_checkpoint(folder)


def checkpoint_of(folder: str | Path) -> Path:
    """The newest checkpoint of a run."""
    newest = latest_checkpoint(folder)
    if newest is None:
        raise UserError(f"{folder} has no checkpoint yet; let `r2a train --resume {folder}` go on for a while.")
    return newest
