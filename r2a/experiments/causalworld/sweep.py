"""The runs behind Table 2: every arm, with few and many demonstrations, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax

from r2a.agents.agent import Agent
from r2a.config import EvaluationConfig, RunConfig
from r2a.data.dataset import OfflineDataset, find_dataset
from r2a.data.manifest import MANIFEST
from r2a.data.retrieval_batch import load_resident
from r2a.environments.causalworld import TASK_NAMES
from r2a.experiments.causalworld.presets import ARMS, CONTROLS, LAPTOP, PAPER, SMOKE, arm
from r2a.experiments.offline import OfflineExperiment
from r2a.training.collect.causalworld import CausalWorldCollectConfig, collect
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.tasks import choose_tasks

FAR = "-far"
"""Added to a data set's name: the same tasks with goals outside the range of those that are learnt from."""


@dataclass(frozen=True)
class SweepScale:
    """How much of the experiment is run."""

    preset: RunConfig
    demonstrations: tuple[int, ...]
    """Episodes per task."""
    controls: int
    """Episodes per task of the runs of arms that are not in the paper."""
    seeds: int
    final_evaluation: EvaluationConfig
    far_evaluation: EvaluationConfig
    """The same on goals outside the range of the data, for runs with the most demonstrations."""


SCALES: dict[str, SweepScale] = {
    "smoke": SweepScale(SMOKE, (4,), 4, 1, SMOKE.evaluation, SMOKE.evaluation),
    "laptop": SweepScale(
        LAPTOP,
        (10, 50, 250),
        250,
        3,
        replace(LAPTOP.evaluation, episodes=13, retrieval_batches=4),
        replace(LAPTOP.evaluation, episodes=10, retrieval_batches=2),
    ),
    "paper": SweepScale(
        PAPER,
        (50_000,),
        50_000,
        3,
        replace(PAPER.evaluation, episodes=25, retrieval_batches=4),
        replace(PAPER.evaluation, episodes=25, retrieval_batches=4),
    ),
}


@dataclass(frozen=True)
class SweepRun:
    """One training run of the sweep."""

    scale: str
    arm: str
    demonstrations: int
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        return f"{self.arm}-{self.demonstrations}-{self.seed}"

    def config(self) -> RunConfig:
        """Its settings: the scale's preset with this run's arm, amount of data and seed."""
        preset = SCALES[self.scale].preset
        data = replace(preset.data, episodes_per_task=self.demonstrations)
        return arm(replace(preset, data=data, seed=self.seed), self.arm)

    def final_evaluation(self) -> EvaluationConfig:
        """How closely it is evaluated at its end."""
        return SCALES[self.scale].final_evaluation


def all_runs(scale: str) -> Iterator[SweepRun]:
    """Every run, in an order in which a sweep cut short is of most use: whole comparisons first, seed by seed."""
    settings = SCALES[scale]
    for seed in range(settings.seeds):
        for demonstrations in settings.demonstrations:
            for name in ARMS:
                if name not in CONTROLS or demonstrations == settings.controls:
                    yield SweepRun(scale, name, demonstrations, seed)


def make_dataset(scale: str, path: Path) -> None:
    """Collect the data set of a scale, as many episodes as its largest runs use, or that of far goals, at most 50."""
    tasks = TASK_NAMES[: SCALES[scale].preset.data.num_tasks]
    config = CausalWorldCollectConfig(tasks=tasks, episodes=max(SCALES[scale].demonstrations))
    if path.name.endswith(FAR):
        config = replace(config, episodes=min(config.episodes, 50), goals="space_b")
    collect(config, path)


def far_data(run: SweepRun, source: str) -> OfflineDataset | None:
    """The data with far goals that lie beside a run's own, if it is one that they are for."""
    own = find_dataset(source).path
    path = own.with_name(own.name + FAR)
    most = run.demonstrations == max(SCALES[run.scale].demonstrations)
    return find_dataset(path) if most and (path / MANIFEST).is_file() else None


def far_goals_fit(result: dict[str, Any], run: SweepRun, source: str) -> bool:
    """Whether a result has the figures of far goals that it should have."""
    far, found = far_data(run, source), result.get("far_goals", {})
    wanted = asdict(SCALES[run.scale].far_evaluation)
    return far is None or (found.get("dataset"), found.get("evaluation")) == (far.fingerprint, wanted)


def far_goals(run: SweepRun, config: RunConfig, agent: Agent, source: str) -> dict[str, Any]:
    """Swap at test time: goals outside the training range, reading the training data, then data that have such goals.

    Nothing is trained in between. An agent that reads nothing is evaluated once. Left out where no data with far goals
    lie beside the training data.
    """
    scale, far = SCALES[run.scale], far_data(run, source)
    if far is None:
        return {}
    config = replace(config, evaluation=scale.far_evaluation, causalworld=replace(config.causalworld, goals="space_b"))
    every = replace(config, data=replace(config.data, episodes_per_task=0))
    found: dict[str, Any] = {"evaluation": asdict(scale.far_evaluation), "dataset": far.fingerprint}
    for name, read, chosen in (("training_data", find_dataset(source), config), ("far_data", far, every)):
        if name == "far_data" and not config.agent.retrieval.reads:
            break
        _, dataset = choose_tasks(chosen, read)
        data, key, names = load_resident(dataset, config.data), jax.random.key(20_000 + run.seed), config.data.tasks
        played = evaluate(agent, data, config, names, sources_to_evaluate(config)[0], key)
        assert played.fraction is not None
        covered = played.fraction.mean((1, 2))
        found[name] = {
            "success": played.mean(),
            "fractional": float(covered.mean()),
            "per_task": dict(zip(names, map(float, played.per_task()), strict=True)),
            "covered": dict(zip(names, map(float, covered), strict=True)),
        }
    return {"far_goals": found}


EXPERIMENT = OfflineExperiment(
    "causalworld",
    Path("results/causalworld"),
    {name: scale.preset.data.dataset for name, scale in SCALES.items()},
    all_runs,
    SweepRun,
    make_dataset,
    companions=(FAR,),
    further=far_goals,
    further_fits=far_goals_fit,
)
