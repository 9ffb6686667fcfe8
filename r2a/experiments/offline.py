"""Runs that learn from a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import jax

from r2a.agents.agent import Agent, parameter_count
from r2a.config import EvaluationConfig, RunConfig, config_from_dict
from r2a.data.dataset import find_dataset
from r2a.data.manifest import MANIFEST
from r2a.data.retrieval_batch import load_resident
from r2a.experiments.sweep import Experiment, SweepRun
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.offline import train
from r2a.training.tasks import choose_tasks, settle_tasks


class OfflineRun(SweepRun, Protocol):
    """A run that learns from a data set."""

    def config(self) -> RunConfig:
        """Its settings."""
        ...

    def final_evaluation(self) -> EvaluationConfig:
        """How closely it is evaluated at its end."""
        ...


@dataclass(frozen=True)
class OfflineExperiment(Experiment[OfflineRun]):
    """An experiment all of whose runs learn from the data set of their scale."""

    name: str
    results: Path
    datasets: Mapping[str, str]
    """The data set of every scale."""
    runs_of: Callable[[str], Iterable[OfflineRun]]
    make_run: Callable[..., OfflineRun]
    make_dataset: Callable[[str, Path], object]
    """Collects the data set of a scale, or one of its companions."""
    companions: tuple[str, ...] = ()
    """What the names of further data sets add to that of a scale's own."""
    further: Callable[[Any, RunConfig, Agent, str], dict[str, Any]] = lambda run, config, agent, source: {}
    """More figures of a finished run: of its settings, its agent, and its data set's path."""
    further_fits: Callable[[dict[str, Any], Any, str], bool] = lambda result, run, source: True
    """Whether a result has them, and of the data that are there now."""

    @property
    def scales(self) -> tuple[str, ...]:
        """Those that have a data set."""
        return tuple(self.datasets)

    def all_runs(self, scale: str) -> Iterable[OfflineRun]:
        """Every run of a scale."""
        return self.runs_of(scale)

    def run_from(self, **fields: Any) -> OfflineRun:
        """The run with the given fields."""
        return self.make_run(**fields)

    def have_source(self, scale: str, dataset: str, say: Callable[[str], None]) -> str:
        """The data set of a scale, unless another one is named; it is collected if it is not there yet."""
        if dataset:
            return dataset
        path = Path("datasets") / self.datasets[scale]
        for each in (path, *(Path(f"{path}{companion}") for companion in self.companions)):
            if not (each / MANIFEST).is_file():
                say(f"Collecting {each} ...")
                self.make_dataset(scale, each)
        return str(path)

    def comes_from(self, result: dict[str, Any], run: OfflineRun, source: str) -> bool:
        """Whether a result is of the run's settings and data."""
        dataset = find_dataset(source)
        config = settle_tasks(run.config(), dataset)
        evaluated = result.get("evaluation", asdict(run.final_evaluation()))  # older results do not say
        return (
            config_from_dict(RunConfig, result["config"]) == config
            and result.get("dataset") == dataset.fingerprint
            and evaluated == asdict(run.final_evaluation())
            and self.further_fits(result, run, source)
        )

    def do(self, run: OfflineRun, source: str, folder: Path) -> dict[str, Any]:
        """Train (or go on training) one run in its folder, evaluate it more closely; its figures."""
        config, dataset = choose_tasks(run.config(), find_dataset(source))
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
            "evaluation": asdict(run.final_evaluation()),
        }
        covered = {s: r.fraction.mean((1, 2)) for s, r in final.items() if r.fraction is not None}
        if covered:
            result["fraction"] = {s: dict(zip(names, map(float, of), strict=True)) for s, of in covered.items()}
        weight = next(iter(final.values())).weight
        if weight is not None:
            result["weight"] = [[round(float(share), 4) for share in row] for row in weight]
        return result | self.further(run, config, state.params, source)
