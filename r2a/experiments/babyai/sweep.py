"""The runs behind Table 1: every arm on two sizes of data, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from r2a.config import EvaluationConfig, RunConfig
from r2a.environments.babyai import LEVEL_NAMES
from r2a.experiments.babyai.presets import ARMS, LAPTOP, LAPTOP_LEVELS, PAPER, SMOKE, SMOKE_LEVELS, arm
from r2a.experiments.offline import OfflineExperiment
from r2a.training.collect.babyai import BabyAICollectConfig, collect


@dataclass(frozen=True)
class SweepScale:
    """How much of the experiment is run."""

    preset: RunConfig
    trajectories_per_level: tuple[int, ...]
    """Sizes of the data set."""
    seeds: int
    final_evaluation: EvaluationConfig


SCALES: dict[str, SweepScale] = {
    "smoke": SweepScale(SMOKE, (24, 48), 1, SMOKE.evaluation),
    "laptop": SweepScale(LAPTOP, (250, 1_000), 3, replace(LAPTOP.evaluation, episodes=25, retrieval_batches=4)),
    "paper": SweepScale(PAPER, (50_000, 200_000), 3, replace(PAPER.evaluation, episodes=25, retrieval_batches=4)),
}


@dataclass(frozen=True)
class SweepRun:
    """One training run of the sweep."""

    scale: str
    arm: str
    trajectories_per_level: int
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        return f"{self.arm}-{self.trajectories_per_level}-{self.seed}"

    def config(self) -> RunConfig:
        """Its settings: the scale's preset with this run's arm, amount of data and seed."""
        preset = SCALES[self.scale].preset
        data = replace(preset.data, episodes_per_task=self.trajectories_per_level)
        return arm(replace(preset, data=data, seed=self.seed), self.arm)

    def final_evaluation(self) -> EvaluationConfig:
        """How closely it is evaluated at its end."""
        return SCALES[self.scale].final_evaluation


def all_runs(scale: str) -> Iterator[SweepRun]:
    """Every run, in an order in which a sweep cut short is of most use: whole comparisons first, seed by seed."""
    settings = SCALES[scale]
    for seed in range(settings.seeds):
        for trajectories in reversed(settings.trajectories_per_level):
            for name in ARMS:
                yield SweepRun(scale, name, trajectories, seed)


def make_dataset(scale: str, path: Path) -> None:
    """Collect the data set of a scale: as many episodes as its largest runs use."""
    levels = {"smoke": SMOKE_LEVELS, "laptop": LAPTOP_LEVELS, "paper": LEVEL_NAMES}[scale]
    collect(BabyAICollectConfig(levels=levels, episodes=max(SCALES[scale].trajectories_per_level)), path)


EXPERIMENT = OfflineExperiment(
    "babyai",
    Path("results/babyai"),
    {name: scale.preset.data.dataset for name, scale in SCALES.items()},
    all_runs,
    SweepRun,
    make_dataset,
)
