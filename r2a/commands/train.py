"""r2a train: learn from a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.config import RunConfig
from r2a.data.dataset import find_dataset
from r2a.errors import UserError
from r2a.experiments.presets import arm, preset
from r2a.training.compilation import use_compilation_cache
from r2a.training.metrics import read_metrics, tensorboard_is_installed
from r2a.training.offline import Interrupted, Progress, read_config, train
from r2a.viewer.curves import curves_of_sources, plot_curves


@dataclass(frozen=True)
class Train:
    """Learn from a data set, with or without retrieval.

    A preset sets all options below; each can be overridden. Go on with a run that was stopped by --resume.

    Examples:
      r2a train gridroboman --agent ra_dqn --data.num-tasks 10
      r2a train gridroboman --preset paper --agent dqn --data.task-input one_hot
      r2a train gridroboman --retrieval.k-traj 5 --retrieval.summariser gru --name wider
      r2a train --resume runs/wider
    """

    environment: tyro.conf.Positional[Literal["gridroboman"]] = "gridroboman"
    agent: Literal["dqn", "dqn_matched", "ra_dqn", "ra_dqn_random"] = "ra_dqn"
    """dqn: no retrieval; dqn_matched: none, but as many parameters; ra_dqn_random: reads random tasks' data."""
    preset: Literal["paper", "laptop", "smoke"] = "laptop"
    name: str = ""
    """Name of the run folder under --runs (default: AGENT-TASKS-SEED)."""
    runs: Path = Path("runs")
    datasets: Path = Path("datasets")
    resume: Path | None = None
    """Run folder to go on with; its own settings are used."""
    tensorboard: bool = field(default_factory=tensorboard_is_installed)
    """Also write the metrics for TensorBoard (default: if tensorboardX is installed)."""
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)


def named_preset(argv: Sequence[str]) -> str:
    """The preset that the command line names: its values are the defaults of all other options."""
    for i, argument in enumerate(argv):
        if argument == "--preset" and i + 1 < len(argv):
            return argv[i + 1]
        if argument.startswith("--preset="):
            return argument.partition("=")[2]
    return "laptop"


def main(argv: Sequence[str]) -> int:
    """Train with a progress bar; end with a table."""
    name = named_preset(argv)
    options = parse(Train, argv, "train", default=Train(preset=name, config=preset(name)))  # type: ignore[arg-type]
    use_compilation_cache()
    if options.resume is not None:
        folder, config = options.resume, read_config(options.resume)
    else:
        config = arm(with_whole_schedule(options.config, argv), options.agent)
        folder = options.runs / (options.name or f"{options.agent}-{config.data.num_tasks}-{config.seed}")
    dataset = find_dataset(config.data.dataset, options.datasets)
    if dataset.environment != config.environment:
        raise UserError(f"{dataset.path} holds episodes of {dataset.environment}, not of {config.environment}.")
    try:
        with training_bar(config) as watch:
            train(
                config, folder, dataset, resume=options.resume is not None, watch=watch, tensorboard=options.tensorboard
            )
    except Interrupted:
        CONSOLE.print(f"Stopped; everything is saved. Go on with: r2a train --resume {folder}")
        return 130
    show_result(folder)
    plot = folder / "returns.png"
    plot_curves(curves_of_sources([read_metrics(folder)]), plot)
    CONSOLE.print(f"The curve: {plot}")
    return 0


def with_whole_schedule(config: RunConfig, argv: Sequence[str]) -> RunConfig:
    """A learning-rate schedule spans all of the run, however long, unless the command line says otherwise."""
    said = any(argument.startswith("--learner.schedule-steps") for argument in argv)
    if said or not config.learner.schedule_steps:
        return config
    return replace(config, learner=replace(config.learner, schedule_steps=config.steps))


@contextmanager
def training_bar(config: RunConfig) -> Iterator[Callable[[Progress], None]]:
    """A progress bar and the function that moves it."""
    with progress_bar("{task.fields[rate]:.0f} steps/s", "return {task.fields[value]}") as bar:
        row = bar.add_task("compiling", total=config.steps, rate=0.0, value="-")

        def watch(progress: Progress) -> None:
            value = progress.metrics.get("eval/right")
            if value is not None:
                bar.update(row, value=f"{value:.1f}")
            bar.update(row, completed=progress.step, description="training", rate=progress.steps_per_second)

        yield watch


def show_result(folder: Path) -> None:
    """The last evaluation of a run, per task."""
    last = next(line for line in reversed(read_metrics(folder)) if "eval/right" in line)
    table = Table("task", "return", title=f"{folder} after {last['step']:,} steps")
    for name, value in last.items():
        if name.startswith("eval/right/"):
            table.add_row(name.removeprefix("eval/right/"), f"{value:.1f}")
    CONSOLE.print(table)
    for source in ("right", "wrong", "random"):
        if f"eval/{source}" in last:
            CONSOLE.print(f"mean return reading the {source} task's data: {last[f'eval/{source}']:.2f}")
