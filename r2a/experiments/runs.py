"""The one place where experiments meet training: train a run, evaluate it more closely, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from r2a.agents.agent import parameter_count
from r2a.config import RunConfig, override
from r2a.data.dataset import find_dataset
from r2a.data.retrieval_batch import load_resident
from r2a.training.evaluate import Evaluation, evaluate, evaluate_online, sources_to_evaluate
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.offline import OfflineRun, load_agent
from r2a.training.online import OnlineRun
from r2a.training.runs import read_config, run_config, settle
from r2a.training.train import train

Settings = Mapping[str, Any]
"""Values of settings by their dotted paths, as `override` takes them."""
SEED_OF_FINAL_EVALUATION = 10_000
"""Added to a run's seed: its last episodes are none of those in its curve."""


def settled(config: RunConfig, source: str) -> tuple[RunConfig, str | None]:
    """A run's settings with what its data decide, such as the names of tasks, and the fingerprint of these data."""
    if config.is_online:
        return config, None
    config, dataset = settle(config, find_dataset(source))
    return config, dataset.fingerprint


def same_settings(values: Mapping[str, Any], config: RunConfig) -> bool:
    """Whether a result's settings are those; what only data decide may be said by one of them alone."""
    found = run_config(values)
    if found.is_online or config.is_online:
        return found == config
    if not (found.data.tasks and config.data.tasks):
        found, config = (override(one, {"data.tasks": ()}) for one in (found, config))
    whole = {"learner.schedule_steps": config.steps if config.learner.schedule_steps else 0}
    return override(found, whole) == override(config, whole)


def evaluation_of(config: RunConfig, final_evaluation: Settings) -> dict[str, Any]:
    """How closely a run is evaluated at its end, as its result says it."""
    return asdict(override(config, final_evaluation).evaluation)


def same_evaluation(result: Mapping[str, Any], config: RunConfig, final_evaluation: Settings) -> bool:
    """Whether a result was evaluated in that way; older ones do not say all of it."""
    wanted, found = evaluation_of(config, final_evaluation), result.get("evaluation", {})
    as_json = {name: list(value) if isinstance(value, tuple) else value for name, value in wanted.items()}
    return all(value in (as_json.get(name, value), wanted.get(name, value)) for name, value in found.items())


def train_and_evaluate(
    config: RunConfig, folder: Path, source: str, final_evaluation: Settings, seed: int
) -> dict[str, Any]:
    """Train (or go on training) a run in its folder, evaluate it with other settings; the result."""
    run = OnlineRun(config, folder.parent) if config.is_online else OfflineRun(config, find_dataset(source))
    train(run, folder, resume=(folder / CONFIG).is_file())
    closer, lines = override(run.config, final_evaluation), read_metrics(folder)
    seed += SEED_OF_FINAL_EVALUATION
    found = _online(run, closer, lines, seed) if isinstance(run, OnlineRun) else _offline(run, closer, lines, seed)
    shared = {"config": asdict(run.config), "evaluation": asdict(closer.evaluation)}
    return {"parameters": parameter_count(run.agent), **found, **shared}


def evaluate_run(folder: Path, read_from: str, changes: Settings, seed: int) -> dict[str, Any]:
    """Evaluate a run that has learnt from data once more, with other settings, reading from any data."""
    config, dataset = settle(override(read_config(folder), changes), find_dataset(read_from))
    data, source = load_resident(dataset, config.data), sources_to_evaluate(config)[0]
    played = evaluate(load_agent(folder, dataset, config), data, config, source, jax.random.key(seed))
    return {"mean": played.mean(), **_by_score({source: played}, config.data.tasks, source)}


def _offline(run: OfflineRun, closer: RunConfig, lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    key = jax.random.key(seed)
    played = {read: evaluate(run.agent, run.data, closer, read, key) for read in sources_to_evaluate(run.config)}
    scores, first = [f"eval/{read}" for read in played], next(iter(played.values()))
    lines = [line for line in lines if scores[0] in line]
    shares = [] if first.weight is None else [[round(float(share), 4) for share in row] for row in first.weight]
    return {
        "dataset": run.saved["dataset"],
        "learner_steps": run.config.steps,
        "wall_seconds": lines[-1]["time/train_seconds"],
        "final": {read: found.mean() for read, found in played.items()},
        "curve": {name: [line[name] for line in lines] for name in ("step", "time/train_seconds", *scores)},
        **_by_score(played, run.config.data.tasks),
        **({"weight": shares} if shares else {}),
    }


def _by_score(played: Mapping[Any, Evaluation], names: tuple[str, ...], only: str = "") -> dict[str, Any]:
    """Every score of every task, by source: the first is called per_task, the others by their names."""
    found: dict[str, Any] = {}
    for number, score in enumerate(next(iter(played.values())).names):
        tables = {s: dict(zip(names, map(float, one.per_task(score)), strict=True)) for s, one in played.items()}
        found["per_task" if number == 0 else score] = tables[only] if only else tables
    return found


def _online(run: OnlineRun, closer: RunConfig, lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    played = evaluate_online(run.agent, run.encoded, replace(closer, seed=seed))
    columns = {"step": "step", "seconds": "time/train_seconds", "score": f"eval/{played.names[0]}"}
    evaluations = [line for line in lines if columns["score"] in line]
    return {
        "env_steps": run.config.steps,
        "updates": lines[-1]["rl/updates"],
        "wall_seconds": lines[-1]["time/train_seconds"],
        "final": {name: played.mean(name) for name in played.names},
        "final_scores": [round(float(score), 3) for score in played.scores[0, 0, :, 0]],
        "curve": {name: [line[column] for line in evaluations] for name, column in columns.items()},
        "training": training_curve(lines),
    }


def training_curve(lines: list[dict[str, Any]], points: int = 40) -> dict[str, list[float]]:
    """The scores of episodes that ended while learning, as means over equal parts of the run."""
    finished = [line for line in lines if "rl/score" in line]
    parts = [part for part in np.array_split(np.arange(len(finished)), points) if len(part)]
    weight = np.array([line["rl/episodes"] for line in finished])
    score = np.array([line["rl/score"] for line in finished])
    return {
        "step": [finished[part[-1]]["step"] for part in parts],
        "score": [round(float(np.average(score[part], weights=weight[part])), 4) for part in parts],
    }
