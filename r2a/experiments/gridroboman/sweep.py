"""The runs behind the gridroboman figure: every arm, number of tasks and task input, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from r2a.config import EvaluationConfig, RunConfig
from r2a.experiments.gridroboman.presets import LAPTOP, PAPER, SMOKE, arm
from r2a.experiments.offline import OfflineExperiment
from r2a.training.collect.gridroboman import OnlineConfig, ScriptedConfig, collect

FINAL_EVALUATION = EvaluationConfig(episodes=16, retrieval_batches=8)


@dataclass(frozen=True)
class SweepScale:
    """How much of the experiment is run."""

    preset: RunConfig
    num_tasks: tuple[int, ...]
    seeds: int
    steps: int
    """Learner steps, the same for every arm and number of tasks."""
    tasks_per_step: int
    """At most; fewer where there are not as many."""
    states_per_task: int
    """Transitions of each task in a learner step."""
    told_dqn_rate: float = 1.0
    """Factor on the learning rate of the small DQN that is told its task: every arm has the rate that suits it."""


SCALES: dict[str, SweepScale] = {
    "smoke": SweepScale(SMOKE, (3,), 2, 20, 3, 8),
    "laptop": SweepScale(LAPTOP, (10, 20, 30), 3, 2_500, 30, 32, told_dqn_rate=2.0),
    "paper": SweepScale(PAPER, (10, 20, 30), 3, 1_000_000, 4, 64),
}
ARM_ORDER = ("ra_dqn", "dqn", "dqn_matched", "ra_dqn_random")


@dataclass(frozen=True)
class SweepRun:
    """One training run of the sweep."""

    scale: str
    arm: str
    num_tasks: int
    task_input: Literal["none", "one_hot"]
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        return f"{self.arm}-{self.num_tasks}-{self.task_input}-{self.seed}"

    def config(self) -> RunConfig:
        """Its settings: the scale's preset with this run's arm, tasks and seed."""
        scale = SCALES[self.scale]
        steps, tasks_per_step = scale.steps, min(scale.tasks_per_step, self.num_tasks)
        learner = scale.preset.learner
        told_dqn = self.arm == "dqn" and self.task_input == "one_hot"
        base = replace(
            scale.preset,
            learner=replace(
                learner,
                learning_rate=learner.learning_rate * (scale.told_dqn_rate if told_dqn else 1.0),
                schedule_steps=steps if learner.schedule_steps else 0,
            ),
            data=replace(
                scale.preset.data,
                num_tasks=self.num_tasks,
                tasks_per_step=tasks_per_step,
                batch_size=tasks_per_step * scale.states_per_task,
                task_input=self.task_input,
            ),
            seed=self.seed,
            steps=steps,
            evaluate_every=max(steps // 10, scale.preset.evaluate_every),
        )
        return arm(base, self.arm)

    def final_evaluation(self) -> EvaluationConfig:
        """How closely it is evaluated at its end."""
        return FINAL_EVALUATION if self.scale != "smoke" else SMOKE.evaluation


def all_runs(scale: str) -> Iterator[SweepRun]:
    """Every run, in an order in which a sweep cut short is of most use: whole comparisons first, seed by seed."""
    settings = SCALES[scale]
    ends = sorted({settings.num_tasks[0], settings.num_tasks[-1]}, reverse=True)
    between = [count for count in settings.num_tasks if count not in ends]
    for counts in (ends, between):
        for task_input in ("none", "one_hot"):
            for num_tasks in counts:
                for seed in range(settings.seeds):
                    for name in ARM_ORDER:
                        yield SweepRun(scale, name, num_tasks, task_input, seed)


def make_dataset(scale: str, path: Path) -> None:
    """Collect the data set of a scale."""
    settings = {
        "smoke": ScriptedConfig(episodes=80, num_tasks=3),
        "laptop": ScriptedConfig(),
        "paper": OnlineConfig(episodes=100_000),
    }
    collect(settings[scale], path)


EXPERIMENT = OfflineExperiment(
    "gridroboman",
    Path("results/gridroboman"),
    {name: scale.preset.data.dataset for name, scale in SCALES.items()},
    all_runs,
    SweepRun,
    make_dataset,
)
