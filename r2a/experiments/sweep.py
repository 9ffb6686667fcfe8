"""The training runs behind an experiment, done one by one, each on a core of its own, in any number of sessions.

A run that has its result file is done; one that was cut short goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import jax

from r2a.agents.agent import parameter_count
from r2a.config import EvaluationConfig, RunConfig, config_from_dict
from r2a.data.dataset import OfflineDataset, find_dataset
from r2a.data.manifest import MANIFEST
from r2a.data.retrieval_batch import load_resident
from r2a.errors import UserError
from r2a.storage import atomic_write_text
from r2a.training.compilation import use_compilation_cache
from r2a.training.course import Interrupted
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.offline import train
from r2a.training.tasks import choose_tasks, settle_tasks

INTERRUPTED = 130
"""Exit code of a worker that was asked to stop and has saved its run."""


class SweepRun(Protocol):
    """One training run of an experiment: a dataclass of what sets it apart from the others."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def scale(self) -> str:
        """How much of the experiment it belongs to."""
        ...

    @property
    def seed(self) -> int:
        """Which of several runs that are alike in all else."""
        ...

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        ...

    def config(self) -> RunConfig:
        """Its settings."""
        ...

    def final_evaluation(self) -> EvaluationConfig:
        """How closely it is evaluated at its end."""
        ...


@dataclass(frozen=True)
class Experiment:
    """What there is to run."""

    name: str
    results: Path
    datasets: Mapping[str, str]
    """The data set of every scale."""
    all_runs: Callable[[str], Iterable[SweepRun]]
    """Every run of a scale, in an order in which a sweep cut short is of most use."""
    run_from: Callable[..., SweepRun]
    """The run with the given fields."""
    make_dataset: Callable[[str, Path], object]
    """Collects the data set of a scale."""


def result_file(run: SweepRun, results: Path) -> Path:
    """Where a finished run's figures are kept."""
    return results / run.scale / "runs" / f"{run.name}.json"


def load_results(results: Path, scale: str) -> list[dict[str, Any]]:
    """The figures of all finished runs."""
    return [read_result(file) for file in sorted((results / scale / "runs").glob("*.json"))]


def is_done(run: SweepRun, dataset: OfflineDataset, results: Path) -> bool:
    """Whether the run has a result; one of other settings or data is refused, so that no two are ever mixed."""
    file = result_file(run, results)
    if not file.is_file():
        return False
    result = read_result(file)
    config = settle_tasks(run.config(), dataset)
    if config_from_dict(RunConfig, result["config"]) != config or result["dataset"] != dataset.fingerprint:
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
    config, dataset = choose_tasks(run.config(), dataset)
    folder = runs / run.scale / run.name
    state = train(config, folder, dataset, resume=(folder / CONFIG).is_file())
    data = load_resident(dataset, config.data)
    closer = replace(config, evaluation=run.final_evaluation())
    names = dataset.task_names[: config.data.num_tasks]
    final = {
        source: evaluate(state.params, data, closer, names, source, jax.random.key(10_000 + run.seed))
        for source in sources_to_evaluate(config)
    }
    lines = [line for line in read_metrics(folder) if f"eval/{next(iter(final))}" in line]
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
    weight = next(iter(final.values())).weight
    if weight is not None:
        result["weight"] = [[round(float(share), 4) for share in row] for row in weight]
    atomic_write_text(result_file(run, results), json.dumps(result, indent=1) + "\n")
    return result


def sweep(
    experiment: Experiment,
    scale: str,
    dataset: str,
    runs: Path,
    results: Path,
    workers: int,
    say: Callable[[str], None],
    only: str = "",
) -> None:
    """Do what is left of the sweep with `workers` processes, each pinned to a core.

    Without a `dataset`, on that of the scale.
    """
    if scale not in experiment.datasets:
        raise UserError(f"There is no scale {scale!r}; choose one of {', '.join(experiment.datasets)}.")
    if workers < 1:
        raise UserError(f"--workers is {workers}, but at least one process has to do the work.")
    every = list(experiment.all_runs(scale))
    wanted = [run for run in every if f"-{only}-" in f"-{run.name}-" or not only]
    if not wanted:
        raise UserError(f"No run of the {scale} scale has {only!r} in its name; {every[0].name} is one.")
    dataset = dataset or have_dataset(experiment, scale, say)
    data = find_dataset(dataset)
    waiting = [run for run in wanted if not is_done(run, data, results)]
    say(f"{len(wanted) - len(waiting)} of {len(wanted)} runs are done")
    active: dict[int, tuple[SweepRun, subprocess.Popen[bytes], float]] = {}
    try:
        while waiting or active:
            for core in range(workers):
                if core not in active and waiting:
                    run = waiting.pop(0)
                    process = start_worker(experiment, run, core, dataset, runs, results)
                    active[core] = (run, process, time.time())
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


def have_dataset(experiment: Experiment, scale: str, say: Callable[[str], None]) -> str:
    """The data set of a scale; it is collected if it is not there yet."""
    path = Path("datasets") / experiment.datasets[scale]
    if not (path / MANIFEST).is_file():
        say(f"Collecting {path} ...")
        experiment.make_dataset(scale, path)
    return str(path)


def start_worker(
    experiment: Experiment, run: SweepRun, core: int, dataset: str, runs: Path, results: Path
) -> subprocess.Popen[bytes]:
    """A process that does one run on one core."""
    log = runs / run.scale / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    values = [experiment.name, json.dumps(asdict(run)), dataset, str(runs), str(results), str(core)]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    if run.scale == "smoke":  # compiles in half the time; how fast it then runs does not matter
        flags += " --xla_backend_optimization_level=0"
    environment = {**os.environ, "XLA_FLAGS": flags, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    with open(log, "ab") as file:
        command = [sys.executable, "-m", "r2a.experiments.worker", *values]
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment)


def work(experiment: Experiment, run: str, dataset: str, runs: str, results: str, core: str) -> int:
    """What a worker process does; its exit code."""
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {available[int(core) % len(available)]})
    use_compilation_cache()
    try:
        do_run(experiment.run_from(**json.loads(run)), find_dataset(dataset), Path(runs), Path(results))
    except Interrupted:
        return INTERRUPTED
    return 0
