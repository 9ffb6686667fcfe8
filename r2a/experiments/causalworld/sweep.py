"""The runs behind Table 2: every arm, with few and many demonstrations, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from r2a.config import EvaluationConfig, RunConfig
from r2a.environments.causalworld import TASK_NAMES
from r2a.experiments.causalworld.presets import ARMS, LAPTOP, PAPER, SMOKE, arm
from r2a.experiments.offline import OfflineExperiment
from r2a.training.collect.causalworld import CausalWorldCollectConfig, collect


@dataclass(frozen=True)
class SweepScale:
    """How much of the experiment is run."""

    preset: RunConfig
    demonstrations: tuple[int, ...]
    """Episodes per task."""
    seeds: int
    final_evaluation: EvaluationConfig


SCALES: dict[str, SweepScale] = {
    "smoke": SweepScale(SMOKE, (4,), 1, SMOKE.evaluation),
    "laptop": SweepScale(LAPTOP, (10, 50, 250), 3, replace(LAPTOP.evaluation, episodes=13, retrieval_batches=4)),
    "paper": SweepScale(PAPER, (50_000,), 3, replace(PAPER.evaluation, episodes=25, retrieval_batches=4)),
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
                yield SweepRun(scale, name, demonstrations, seed)


def make_dataset(scale: str, path: Path) -> None:
    """Collect the data set of a scale: as many episodes as its largest runs use."""
    tasks = TASK_NAMES[: SCALES[scale].preset.data.num_tasks]
    collect(CausalWorldCollectConfig(tasks=tasks, episodes=max(SCALES[scale].demonstrations)), path)


EXPERIMENT = OfflineExperiment(
    "causalworld",
    Path("results/causalworld"),
    {name: scale.preset.data.dataset for name, scale in SCALES.items()},
    all_runs,
    SweepRun,
    make_dataset,
)
