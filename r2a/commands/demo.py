"""r2a demo: one network that is never told its task does what the data set it reads from shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.table import Table

from r2a.agents.agent import Agent
from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.commands.train import training_bar
from r2a.config import RunConfig
from r2a.data.dataset import MANIFEST, OfflineDataset, find_dataset
from r2a.data.retrieval_batch import ResidentData
from r2a.environments.registry import spec_of, world_of
from r2a.experiments.presets import DEMO, preset
from r2a.records import EpisodeRecord
from r2a.training.collect import collect
from r2a.training.collect_pure import expert_and_floor
from r2a.training.course import Interrupted, use_compilation_cache
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.offline import OfflineRun
from r2a.training.record import record_episode
from r2a.training.train import train
from r2a.viewer.curves import curves_of_sources
from r2a.viewer.report import COLUMNS, TaskReturns, write_report


@dataclass(frozen=True)
class Demo:
    """Collect data, train one network that is never told its task, then swap the data set it reads from.

    Ends with a table and report/index.html. A demo that was stopped goes on where it was.

    Examples:
      r2a demo
      r2a demo --steps 6000 --report longer
    """

    steps: int = 2_500
    """Learner steps."""
    seed: int = 0
    smoke: bool = False
    """Seconds instead of minutes: shows that everything runs, not that the network learns."""
    runs: Path = Path("runs")
    datasets: Path = Path("datasets")
    report: Path = Path("report")


def main(argv: Sequence[str]) -> int:
    """Collect, train, evaluate, report."""
    options = parse(Demo, argv, "demo")
    use_compilation_cache()
    config = preset(DEMO, "smoke") if options.smoke else replace(preset(DEMO, "demo"), steps=options.steps)
    config = replace(config, seed=options.seed)
    run = OfflineRun(config, demo_dataset(options.datasets, config))
    config = run.config
    folder = options.runs / f"demo-{'smoke' if options.smoke else config.steps}-{config.seed}"
    CONSOLE.print(
        f"One network, {config.data.num_tasks} tasks, and it is never told which: all it has is what it retrieves.\n"
        f"Training for {config.steps:,} steps; the first minute or two goes into compiling."
    )
    try:
        with training_bar(config) as watch:
            train(run, folder, resume=(folder / CONFIG).is_file(), watch=watch)
    except Interrupted:
        CONSOLE.print("Stopped; everything is saved. `r2a demo` goes on from here.")
        return 130
    rows = measure(run.agent, run.data, config)
    show(rows)
    page = options.report / "index.html"
    report(page, run.agent, run.data, config, rows, folder)
    CONSOLE.print(f"The report, with episodes and what was retrieved for each step: {page}")
    return 0


def demo_dataset(root: Path, config: RunConfig) -> OfflineDataset:
    """The demo's data set, made if it is not there."""
    path = root / config.data.dataset
    if not (path / MANIFEST).is_file():
        CONSOLE.print("Collecting episodes of a scripted expert with a ladder of noise ...")
        settings = world_of(config.environment).collect
        assert settings is not None
        collect(config.environment, replace(settings, num_tasks=config.data.num_tasks), path)
    return find_dataset(str(path), root)


def measure(agent: Agent, data: ResidentData, config: RunConfig) -> list[TaskReturns]:
    """Returns per task reading the right, a wrong and a random task's data, beside expert and floor."""
    key, bounds_key = jax.random.split(jax.random.key(config.seed + 17))
    returns: dict[str, Any] = {
        source: evaluate(agent, data, config, source, key).per_task() for source in sources_to_evaluate(config)
    }
    returns["expert"], returns["floor"] = expert_and_floor(config.environment, config.data.tasks, bounds_key)
    return [
        TaskReturns(name, **{column: float(values[task]) for column, values in returns.items()})
        for task, name in enumerate(config.data.tasks)
    ]


def show(rows: list[TaskReturns]) -> None:
    """The table that the demo ends with."""
    table = Table("task", *(head for head, _, _ in COLUMNS.values()), title="Return per episode, by data read")
    for row in rows:
        table.add_row(row.task, *(f"{getattr(row, column):.1f}" for column in COLUMNS))
    table.add_section()
    table.add_row("mean", *(f"{np.mean([getattr(row, column) for row in rows]):.1f}" for column in COLUMNS))
    CONSOLE.print(table)


def report(
    path: Path, agent: Agent, data: ResidentData, config: RunConfig, rows: list[TaskReturns], folder: Path
) -> None:
    """Write the HTML report: some episodes with what was retrieved, and two swaps from the same start."""
    count = config.data.num_tasks
    tasks = sorted({0, count // 2, count - 1})
    key = jax.random.key(config.seed + 23)

    def play(task: int, start: int) -> EpisodeRecord:
        start_key = jax.random.fold_in(key, start)
        return record_episode(agent, data, config, task=task, retrieve_from=task, key=start_key)

    write_report(
        path,
        title="Retrieval at work",
        page=world_of(config.environment).load("page"),
        best=float(spec_of(config.environment, config.env).max_steps),
        task_names=config.data.tasks,
        table=rows,
        curves=curves_of_sources([read_metrics(folder)]),
        told_task=config.data.task_input == "one_hot",
        episodes=[play(task, task) for task in tasks],
        swaps=[(play(one, one), play(other, one)) for one, other in ((tasks[-1], tasks[0]), (tasks[0], tasks[1]))],
        settings=asdict(config),
        note=f"Trained for {config.steps:,} learner steps on {data.length.shape[0]:,} recorded episodes.",
    )
