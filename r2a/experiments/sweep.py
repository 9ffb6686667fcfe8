"""The training runs behind an experiment, done one by one, each on a core of its own, in any number of sessions.

A run that has its result file is done; one that was cut short goes on from its checkpoint.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from r2a.errors import UserError
from r2a.storage import atomic_write_text
from r2a.training.compilation import use_compilation_cache
from r2a.training.course import Interrupted, stop_on_signal

INTERRUPTED = 130
"""Exit code of a worker that was asked to stop and has saved its run."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a process gets when its parent dies."""


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


Run = TypeVar("Run", bound=SweepRun)


class Experiment(ABC, Generic[Run]):
    """What there is to run."""

    name: str
    results: Path

    @property
    @abstractmethod
    def scales(self) -> tuple[str, ...]:
        """How much of it can be run."""

    @abstractmethod
    def all_runs(self, scale: str) -> Iterable[Run]:
        """Every run of a scale, in an order in which a sweep cut short is of most use."""

    @abstractmethod
    def run_from(self, **fields: Any) -> Run:
        """The run with the given fields."""

    @abstractmethod
    def have_source(self, scale: str, dataset: str, say: Callable[[str], None]) -> str:
        """What the runs of a scale learn from: the path of a data set, which may have to be made first, or nothing."""

    @abstractmethod
    def comes_from(self, result: dict[str, Any], run: Run, source: str) -> bool:
        """Whether a result is of the run's settings and data."""

    @abstractmethod
    def do(self, run: Run, source: str, folder: Path) -> dict[str, Any]:
        """Train (or go on training) one run in its folder, evaluate it more closely; its figures."""


def result_file(run: SweepRun, results: Path) -> Path:
    """Where a finished run's figures are kept."""
    return results / run.scale / "runs" / f"{run.name}.json"


def load_results(results: Path, scale: str) -> list[dict[str, Any]]:
    """The figures of all finished runs."""
    return [read_result(file) for file in sorted((results / scale / "runs").glob("*.json"))]


def is_done(experiment: Experiment[Any], run: SweepRun, source: str, results: Path) -> bool:
    """Whether the run has a result; one of other settings or data is refused, so that no two are ever mixed."""
    file = result_file(run, results)
    if not file.is_file():
        return False
    if not experiment.comes_from(read_result(file), run, source):
        raise UserError(f"{file} comes from other settings or data; move it away to have the run done again.")
    return True


def read_result(file: Path) -> dict[str, Any]:
    """A result file's figures."""
    try:
        result = json.loads(file.read_text())
        assert {"arm", "final", "curve", "config"} <= result.keys()
    except (ValueError, AssertionError, AttributeError) as reason:
        raise UserError(f"{file} is damaged; remove it to have its run done again.") from reason
    return result


def sweep(
    experiment: Experiment[Any],
    scale: str,
    dataset: str,
    runs: Path,
    results: Path,
    workers: int,
    say: Callable[[str], None],
    only: str = "",
) -> None:
    """Do what is left of the sweep with `workers` processes, each pinned to a core.

    Without a `dataset`, on that of the scale, if there is one.
    """
    if scale not in experiment.scales:
        raise UserError(f"There is no scale {scale!r}; choose one of {', '.join(experiment.scales)}.")
    if workers < 1:
        raise UserError(f"--workers is {workers}, but at least one process has to do the work.")
    every = list(experiment.all_runs(scale))
    wanted = [run for run in every if f"-{only}-" in f"-{run.name}-" or not only]
    if not wanted:
        raise UserError(f"No run of the {scale} scale has {only!r} in its name; {every[0].name} is one.")
    source = experiment.have_source(scale, dataset, say)
    waiting = [run for run in wanted if not is_done(experiment, run, source, results)]
    say(f"{len(wanted) - len(waiting)} of {len(wanted)} runs are done")
    active: dict[int, tuple[SweepRun, subprocess.Popen[bytes], float]] = {}
    try:
        with stop_on_signal() as stop:
            while waiting or active:
                for core in range(workers):
                    if core not in active and waiting:
                        run = waiting.pop(0)
                        process = start_worker(experiment, run, core, source, runs, results)
                        active[core] = (run, process, time.time())
                time.sleep(1.0)
                for core, (run, process, began) in list(active.items()):
                    if process.poll() is None:
                        continue
                    del active[core]
                    if process.returncode == INTERRUPTED:
                        raise Interrupted
                    if process.returncode and not stop.requested:
                        raise UserError(f"Run {run.name} failed; its log is {runs / run.scale / (run.name + '.log')}.")
                    if not process.returncode:
                        say(f"{outcome(run, results)} ({time.time() - began:.0f} s; {len(waiting)} left)")
                if stop.requested:
                    raise Interrupted
    finally:
        for _, process, _ in active.values():
            process.terminate()  # it saves its state and stops
            process.wait()


def outcome(run: SweepRun, results: Path) -> str:
    """A finished run's name and figures."""
    final = json.loads(result_file(run, results).read_text())["final"]
    return f"{run.name}: " + ", ".join(f"{source} {value:.2f}" for source, value in final.items())


def start_worker(
    experiment: Experiment[Any], run: SweepRun, core: int, source: str, runs: Path, results: Path
) -> subprocess.Popen[bytes]:
    """A process that does one run on one core."""
    log = runs / run.scale / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    values = [experiment.name, json.dumps(asdict(run)), source, str(runs), str(results), str(core)]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    if run.scale == "smoke":  # how long compiling takes is all that matters
        flags += " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    environment = {**os.environ, "XLA_FLAGS": flags, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    with open(log, "ab") as file:
        command = [sys.executable, "-m", "r2a.experiments.worker", *values]
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment)


def work(experiment: Experiment[Any], run: str, source: str, runs: str, results: str, core: str) -> int:
    """What a worker process does; its exit code."""
    stop_with_parent()
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {available[int(core) % len(available)]})
    use_compilation_cache()
    member = experiment.run_from(**json.loads(run))
    try:
        result = experiment.do(member, source, Path(runs) / member.scale / member.name)
    except Interrupted:
        return INTERRUPTED
    atomic_write_text(result_file(member, Path(results)), json.dumps(result, indent=1) + "\n")
    return 0


def stop_with_parent() -> None:
    """Have this process asked to stop when the one that started it is killed, where the system can (Linux)."""
    request = getattr(ctypes.CDLL(None), "prctl", None)
    if request is not None:
        request(PR_SET_PDEATHSIG, signal.SIGTERM)
