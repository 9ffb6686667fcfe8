"""The runs behind the gridroboman figure, done one by one, each on a core of its own, in any number of sessions.

A run that has its result file is done; one that was cut short goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax

from r2a.agents.agent import parameter_count
from r2a.config import EvaluationConfig, RunConfig, config_from_dict
from r2a.data.dataset import OfflineDataset, find_dataset
from r2a.data.retrieval_batch import load_resident
from r2a.errors import UserError
from r2a.experiments.gridroboman.presets import LAPTOP, PAPER, SMOKE, arm
from r2a.storage import atomic_write_text
from r2a.training.compilation import use_compilation_cache
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.offline import Interrupted, train

Scale = Literal["smoke", "laptop", "paper"]
RESULTS = Path("results/gridroboman")
INTERRUPTED = 130
"""Exit code of a worker that was asked to stop and has saved its run."""
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


def result_file(run: SweepRun, results: Path) -> Path:
    """Where a finished run's figures are kept."""
    return results / run.scale / "runs" / f"{run.name}.json"


def is_done(run: SweepRun, fingerprint: str, results: Path) -> bool:
    """Whether the run has a result; one of other settings or data is refused, so that no two are ever mixed."""
    file = result_file(run, results)
    if not file.is_file():
        return False
    result = read_result(file)
    if config_from_dict(RunConfig, result["config"]) != run.config() or result["dataset"] != fingerprint:
        raise UserError(f"{file} comes from other settings or data; move it away to have the run done again.")
    return True


def read_result(file: Path) -> dict[str, Any]:
    """A result file's figures."""
    try:
        result = json.loads(file.read_text())
        assert {"arm", "final", "curve", "config", "dataset"} <= result.keys()
    except (ValueError, AssertionError, AttributeError) as reason:
        raise UserError(f"{file} is damaged; remove it to have its run done again.") from reason
    return result


def do_run(run: SweepRun, dataset: OfflineDataset, runs: Path, results: Path) -> dict[str, Any]:
    """Train (or go on training) one run, evaluate it more closely, and write its result file."""
    config = run.config()
    folder = runs / run.scale / run.name
    state = train(config, folder, dataset, resume=(folder / CONFIG).is_file())
    data = load_resident(dataset, config.data.num_tasks)
    closer = replace(config, evaluation=FINAL_EVALUATION if run.scale != "smoke" else config.evaluation)
    final = {
        source: evaluate(state.params, data, closer, dataset.task_names, source, jax.random.key(10_000 + run.seed))
        for source in sources_to_evaluate(config)
    }
    names = dataset.task_names[: run.num_tasks]
    lines = [line for line in read_metrics(folder) if "eval/right" in line]
    columns = ["step", "time/train_seconds", *(f"eval/{source}" for source in final)]
    result = {
        **asdict(run),
        "parameters": parameter_count(state.params),
        "dataset": dataset.fingerprint,
        "learner_steps": config.steps,
        "wall_seconds": lines[-1]["time/train_seconds"],
        "final": {source: result.mean() for source, result in final.items()},
        "per_task": {s: dict(zip(names, map(float, r.per_task()), strict=True)) for s, r in final.items()},
        "curve": {column: [line[column] for line in lines] for column in columns},
        "config": asdict(config),
    }
    atomic_write_text(result_file(run, results), json.dumps(result, indent=1) + "\n")
    return result


def sweep(
    scale: str, dataset: str, runs: Path, results: Path, workers: int, say: Callable[[str], None], only: str = ""
) -> None:
    """Do what is left of the sweep with `workers` processes, each pinned to a core."""
    if scale not in SCALES:
        raise UserError(f"There is no scale {scale!r}; choose one of {', '.join(SCALES)}.")
    if workers < 1:
        raise UserError(f"--workers is {workers}, but at least one process has to do the work.")
    fingerprint = find_dataset(dataset).fingerprint
    wanted = [run for run in all_runs(scale) if f"-{only}-" in f"-{run.name}-" or not only]
    if not wanted:
        raise UserError(f"No run of the {scale} scale has {only!r} in its name; {next(all_runs(scale)).name} is one.")
    waiting = [run for run in wanted if not is_done(run, fingerprint, results)]
    say(f"{len(wanted) - len(waiting)} of {len(wanted)} runs are done")
    active: dict[int, tuple[SweepRun, subprocess.Popen[bytes], float]] = {}
    try:
        while waiting or active:
            for core in range(workers):
                if core not in active and waiting:
                    run = waiting.pop(0)
                    active[core] = (run, start_worker(run, core, dataset, runs, results), time.time())
            time.sleep(1.0)
            for core, (run, process, began) in list(active.items()):
                if process.poll() is None:
                    continue
                del active[core]
                if process.returncode == INTERRUPTED:
                    raise Interrupted
                if process.returncode:
                    raise UserError(f"Run {run.name} failed; its log is {runs / run.scale / (run.name + '.log')}.")
                final = json.loads(result_file(run, results).read_text())["final"]
                figures = ", ".join(f"{source} {value:.2f}" for source, value in final.items())
                say(f"{run.name}: {figures} ({time.time() - began:.0f} s; {len(waiting)} left)")
    finally:
        for _, process, _ in active.values():
            process.terminate()  # it saves its state and stops
            process.wait()


def start_worker(run: SweepRun, core: int, dataset: str, runs: Path, results: Path) -> subprocess.Popen[bytes]:
    """A process that does one run on one core."""
    log = runs / run.scale / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "r2a.experiments.gridroboman.sweep",
        json.dumps(asdict(run)),
        dataset,
        str(runs),
        str(results),
        str(core),
    ]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    environment = {**os.environ, "XLA_FLAGS": flags, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    with open(log, "ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment)


def main(arguments: list[str]) -> None:
    """What a worker process does."""
    run, dataset, runs, results, core = arguments
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {available[int(core) % len(available)]})
    use_compilation_cache()
    try:
        do_run(SweepRun(**json.loads(run)), find_dataset(dataset), Path(runs), Path(results))
    except Interrupted:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main(sys.argv[1:])
