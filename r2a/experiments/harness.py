"""What an experiment is, and its runs, done one by one, each on a core of its own, in any number of sessions.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from r2a.config import override
from r2a.data.dataset import MANIFEST
from r2a.environments.registry import world_of
from r2a.errors import UserError
from r2a.experiments.presets import experiment as experiment_of
from r2a.experiments.presets import named
from r2a.experiments.runs import Settings, same_evaluation, same_settings, settled, train_and_evaluate
from r2a.experiments.statistics import Bounds
from r2a.storage import atomic_write_text
from r2a.training.collect import collect
from r2a.training.course import Interrupted, stop_on_signal, use_compilation_cache

INTERRUPTED = 130
"""Exit code of a worker that was asked to stop and has saved its run."""
Result = dict[str, Any]
"""What a finished run's file holds."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Arm:
    """One agent of a comparison: what differs from the preset, and nothing else."""

    label: str
    changes: Settings = field(default_factory=dict)
    short: str = ""
    """Its label where there is a column for each arm."""
    paper: tuple[float, ...] = ()
    """The paper's scores, at the last values of the first axis."""
    adapt: Callable[[Any, Any], Any] | None = None
    """What `changes` cannot say: from the changed settings and those of the preset to the arm's."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Evaluations that are reported, if not only the first: what they are called, and where they are in `final`."""

    def of(self, config: Any) -> Any:
        """The arm's settings."""
        changed = override(config, self.changes)
        return self.adapt(changed, config) if self.adapt else changed


@dataclass(frozen=True)
class Axis:
    """What is varied beside the arm."""

    title: str
    """Head of its column in tables."""
    panel: str = "{}"
    """Title of a value's panel in figures."""
    names: Mapping[Any, str] = field(default_factory=dict)
    """What its values are called, if not by themselves."""

    def name(self, value: Any) -> str:
        """What a value is called."""
        return self.names.get(value, f"{value:,}" if isinstance(value, int) else str(value))


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run, on the preset of the same name."""

    axes: Mapping[str, Mapping[Any, Settings]]
    """Every axis' values, in the order in which they are run, and the settings of each."""
    seeds: int
    final_evaluation: Settings = field(default_factory=dict)
    """What is set otherwise for the evaluation at a run's end."""
    collect: Mapping[str, Settings] = field(default_factory=dict)
    """Its data sets: what their names add to the preset's, and what is set otherwise to collect them."""
    changes: Settings = field(default_factory=dict)
    """What is set otherwise than in the preset."""
    exceptions: Mapping[tuple[str, Any], Settings] = field(default_factory=dict)
    """What is set otherwise for one arm at one value of an axis."""
    optional: tuple[str, ...] = ()
    """Parts of the names of runs that are done only when their arm is asked for."""


@dataclass(frozen=True)
class Experiment:
    """Which arms are compared along which axes, by which score."""

    name: str
    presets: Mapping[str, Any]
    arms: Mapping[str, Arm]
    """In the order of tables and legends; the first is what `r2a train` trains unless told otherwise."""
    axes: Mapping[str, Axis]
    scales: Mapping[str, Scale]
    score: str
    """What an episode's score is called."""
    bounds: Bounds = (None, None)
    """Range of the score; one from 0 to 1 is shown in per cent."""
    further: Callable[[Run, Path, str], Result] = lambda run, folder, source: {}
    """More that a result holds: of a finished run, its folder, and its data set's path."""
    further_fits: Callable[[Run, Result, str], bool] = lambda run, result, source: True
    """Whether a result has that, and of the data that are there now."""
    by_task: bool = False
    """Also report every task."""
    task_names: Callable[[Sequence[str]], Mapping[str, str]] = lambda names: {name: name for name in names}
    """What tasks are called in tables, in their order there."""
    also: Callable[[Sequence[Result], str], Mapping[str, Any]] = lambda runs, task: {}
    """More entries of a record of the summary: of its runs, on one task or all."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Those of them that the table shows, and what it calls them."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Those of them that are lines in figures, and what the legend calls them."""
    curves: tuple[str, ...] = ("steps", "seconds")
    """What the score is drawn against: steps, seconds or an axis."""
    unit: str = ""
    """The arm in parts of whose mean score all games are put together."""
    extras: tuple[Callable[[Sequence[Result], Path], str], ...] = ()
    """Further tables of all results, and files that they write into the folder."""

    def scale(self, name: str) -> Scale:
        """The scale of that name."""
        return named(self.scales, "scale", name)

    def runs(self, scale: str) -> Iterator[Run]:
        """Every run: whole comparisons first, seed by seed."""
        settings = self.scale(scale)
        for seed in range(settings.seeds):
            for values in product(*settings.axes.values()):
                for arm in self.arms:
                    yield Run(self, scale, arm, dict(zip(settings.axes, values, strict=True)), seed)


@dataclass(frozen=True)
class Run:
    """One training run of an experiment."""

    experiment: Experiment
    scale: str
    arm: str
    values: Mapping[str, Any]
    """Its place on every axis."""
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        return "-".join(map(str, (self.arm, *self.values.values(), self.seed)))

    @property
    def about(self) -> Result:
        """What sets it apart from the others, as its result says it."""
        return {"world": self.experiment.name, "scale": self.scale, "arm": self.arm, **self.values, "seed": self.seed}

    @property
    def settings(self) -> Scale:
        """Those of its scale."""
        return self.experiment.scale(self.scale)

    @property
    def optional(self) -> bool:
        """Whether it is only done when its arm is asked for."""
        return any(has_part(self.name, part) for part in self.settings.optional)

    @property
    def config(self) -> Any:
        """The scale's preset with this run's place, seed and arm."""
        scale = self.settings
        changes = [scale.changes, {"seed": self.seed}]
        for axis, value in self.values.items():
            changes += [scale.axes[axis][value], scale.exceptions.get((self.arm, value), {})]
        return self.experiment.arms[self.arm].of(override(self.experiment.presets[self.scale], *changes))

    def file(self, results: Path) -> Path:
        """Where its result is kept."""
        return results / self.scale / "runs" / f"{self.name}.json"


def along(path: str, *values: Any) -> dict[Any, Settings]:
    """The values of an axis that is one setting, named by its dotted path."""
    return {value: {path: value} for value in values}


def has_part(name: str, part: str) -> bool:
    """Whether a run's name has a part, as 10-none is one of ra_dqn-10-none-0; the empty part is in every name."""
    return not part or f"-{part}-" in f"-{name}-"


def read_result(file: Path) -> Result:
    """A finished run's result."""
    try:
        result = json.loads(file.read_text())
        assert {"arm", "final", "curve", "config"} <= result.keys()
    except (ValueError, AssertionError, AttributeError) as reason:
        raise UserError(f"{file} is damaged; remove it to have its run done again.") from reason
    return result


def has_settings(result: Result, run: Run) -> bool:
    """Whether a result is of the run's settings; if they leave the names of tasks to the data, of any tasks."""
    config = run.config
    return same_settings(result["config"], config) and same_evaluation(result, config, run.settings.final_evaluation)


def has_data(result: Result, run: Run, source: str) -> bool:
    """Whether a result is of the data in `source`, and of what settings they make of the run's."""
    config, fingerprint = settled(run.config, source)
    same = same_settings(result["config"], config) and result.get("dataset") == fingerprint
    return same and run.experiment.further_fits(run, result, source)


def is_done(run: Run, results: Path, source: str | None = None) -> bool:
    """Whether the run has a result; one of other settings, or of other data, is refused, so that none are mixed."""
    file = run.file(results)
    if not file.is_file():
        return False
    result = read_result(file)
    if not has_settings(result, run) or (source is not None and not has_data(result, run, source)):
        raise UserError(f"{file} comes from other settings or data; move it away to have the run done again.")
    return True


def have_source(experiment: Experiment, scale: str, dataset: str, needed: bool, say: Say) -> str | None:
    """The data set of a scale, unless another is named; collected if it is missing and needed, else there is none."""
    preset = experiment.presets[scale]
    if preset.is_online:
        if dataset:
            raise UserError(f"{experiment.name} is learnt while acting: --dataset makes no difference to it.")
        return ""
    if dataset:
        return dataset
    path = Path("datasets") / preset.data.dataset
    for suffix, changes in experiment.scale(scale).collect.items():
        each = Path(f"{path}{suffix}")
        if needed and not (each / MANIFEST).is_file():
            say(f"Collecting {each} ...")
            usual = world_of(experiment.name).collect
            assert usual is not None
            collect(experiment.name, override(usual, changes), each)
    return str(path) if (path / MANIFEST).is_file() else None


def choose_runs(experiment: Experiment, scale: str, only: str) -> list[Run]:
    """The runs with `only` in their names; optional ones, if it is their arm that is asked for."""
    every = list(experiment.runs(scale))
    wanted = [run for run in every if has_part(run.name, only) and (not run.optional or has_part(only, run.arm))]
    if not wanted:
        raise UserError(f"No run of the {scale} scale has {only!r} in its name; {every[0].name} is one.")
    return wanted


def sweep(
    experiment: Experiment,
    scale: str,
    runs: Path,
    results: Path,
    *,
    dataset: str = "",
    only: str = "",
    workers: int = 2,
    say: Say = print,
) -> None:
    """Do what is left of an experiment with `workers` processes, each pinned to a core."""
    if workers < 1:
        raise UserError(f"--workers is {workers}, but at least one process has to do the work.")
    wanted = choose_runs(experiment, scale, only)
    waiting = [run for run in wanted if not is_done(run, results)]
    source = have_source(experiment, scale, dataset, bool(waiting), say)
    for run in wanted if source is not None else ():
        is_done(run, results, source)  # of these data
    say(f"{len(wanted) - len(waiting)} of {len(wanted)} runs are done")
    active: dict[int, tuple[Run, subprocess.Popen[bytes], float]] = {}
    try:
        with stop_on_signal() as stop:
            while waiting or active:
                for core in range(workers):
                    if core not in active and waiting:
                        run = waiting.pop(0)
                        active[core] = (run, start_worker(run, core, source or "", runs, results), time.time())
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
                        final = read_result(run.file(results))["final"].items()
                        scores = ", ".join(f"{source} {value:.2f}" for source, value in final)
                        say(f"{run.name}: {scores} ({time.time() - began:.0f} s; {len(waiting)} left)")
                if stop.requested:
                    raise Interrupted
    finally:
        for _, process, _ in active.values():
            process.terminate()  # it saves its state and stops
            process.wait()


def start_worker(run: Run, core: int, source: str, runs: Path, results: Path) -> subprocess.Popen[bytes]:
    """A process that does one run on one core."""
    (runs / run.scale).mkdir(parents=True, exist_ok=True)
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    if run.scale == "smoke":  # how long compiling takes is all that matters
        flags += " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    environment = {**os.environ, "XLA_FLAGS": flags, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    values = [run.experiment.name, run.scale, run.name, source, str(runs), str(results), str(core)]
    command = [sys.executable, "-m", "r2a.experiments.harness", *values]
    with open(runs / run.scale / f"{run.name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def work(world: str, scale: str, name: str, source: str, runs: str, results: str, core: str) -> int:
    """What a worker process does: one run, and its result file; its exit code."""
    stop_with_parent()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(core) % len(cores)]})
    use_compilation_cache()
    run = next(run for run in experiment_of(world).runs(scale) if run.name == name)
    folder = Path(runs) / scale / name
    try:
        result = train_and_evaluate(run.config, folder, source, run.settings.final_evaluation, run.seed)
        result |= run.experiment.further(run, folder, source)
    except Interrupted:
        return INTERRUPTED
    atomic_write_text(run.file(Path(results)), json.dumps({**run.about, **result}, indent=1) + "\n")
    return 0


def stop_with_parent() -> None:
    """Have this process asked to stop when the one that started it is killed, where the system can (Linux)."""
    request = getattr(ctypes.CDLL(None), "prctl", None)
    if request is not None:
        request(1, signal.SIGTERM)  # 1 is PR_SET_PDEATHSIG, the signal for when the parent dies


if __name__ == "__main__":
    from r2a.experiments.harness import work as do_run  # the module that the worlds know, not its copy __main__

    sys.exit(do_run(*sys.argv[1:]))
