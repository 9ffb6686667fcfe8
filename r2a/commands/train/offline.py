"""r2a train gridroboman | babyai | causalworld: learn from a data set."""

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
from r2a.experiments.presets import EXPERIMENTS, arm, preset
from r2a.training.compilation import use_compilation_cache
from r2a.training.course import Interrupted, Progress
from r2a.training.evaluate import score_name, sources_to_evaluate
from r2a.training.metrics import read_metrics, tensorboard_is_installed
from r2a.training.offline import read_config, train
from r2a.training.tasks import choose_tasks
from r2a.viewer.curves import curves_of_sources, plot_curves


@dataclass(frozen=True)
class Train:
    """Learn from a data set, with or without retrieval.

    A preset sets all options below; each can be overridden. Go on with a run that was stopped by --resume.
    Agents that learn while they act: `r2a train atari --help`, `r2a train minatar --help`.

    Agents of gridroboman: ra_dqn; dqn, without retrieval; dqn_matched, the same with as many parameters; ra_dqn_random,
    which reads random tasks' data.

    Agents of babyai: ra_rdqn_multi, which reads from all levels' data; ra_rdqn_single, from its own level's;
    ra_rdqn_multi_no_ib, without information bottleneck; ra_rdqn_random, from a random level's; rdqn, without retrieval;
    rdqn_auxiliary, the same with retrieval's auxiliary losses.

    Agents of causalworld: ra_bc_multi, which reads from all tasks' data; ra_bc_single, from its own task's;
    ra_bc_random, from a random task's; bc, without retrieval; bc_matched, the same with as many parameters.

    Examples:
      r2a train gridroboman --agent ra_dqn --data.num-tasks 10
      r2a train gridroboman --preset paper --agent dqn --data.task-input one_hot
      r2a train babyai --agent ra_rdqn_multi --data.tasks GoToLocal PickupLoc PutNextLocal
      r2a train causalworld --agent bc --data.dataset causalworld-expert --data.tasks pushing picking
      r2a train gridroboman --retrieval.k-traj 5 --retrieval.summariser gru --name wider
      r2a train --resume runs/wider
    """

    environment: tyro.conf.Positional[Literal["gridroboman", "babyai", "causalworld"]] = "gridroboman"
    agent: str = ""
    """One of the agents named above (default: the first of its environment)."""
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


def main(argv: Sequence[str], environment: str, name: str) -> int:
    """Train with a progress bar; end with a table. `name` is the preset's."""
    default = Train(environment, preset=name, config=preset(environment, name))  # type: ignore[arg-type]
    options = parse(Train, argv, "train", default=default)
    use_compilation_cache()
    if options.resume is not None:
        folder, config = options.resume, read_config(options.resume)
        dataset = find_dataset(config.data.dataset, options.datasets)
        config, dataset = choose_tasks(config, dataset)
    else:
        agent = options.agent or EXPERIMENTS[environment].ARMS[0]
        config = arm(with_whole_schedule(options.config, argv), agent)
        config, dataset = choose_tasks(config, find_dataset(config.data.dataset, options.datasets))
        folder = options.runs / (options.name or f"{agent}-{config.data.num_tasks}-{config.seed}")
    try:
        with training_bar(config) as watch:
            train(
                config, folder, dataset, resume=options.resume is not None, watch=watch, tensorboard=options.tensorboard
            )
    except Interrupted:
        CONSOLE.print(f"Stopped; everything is saved. Go on with: r2a train --resume {folder}")
        return 130
    show_result(folder, config)
    plot = folder / "returns.png"
    curves = curves_of_sources([read_metrics(folder)], config.agent.retrieval.reads)
    plot_curves(curves, plot, score=f"{score_name(config)} per episode")
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
    source = sources_to_evaluate(config)[0]
    with progress_bar("{task.fields[rate]:.0f} steps/s", score_name(config) + " {task.fields[value]}") as bar:
        row = bar.add_task("compiling", total=config.steps, rate=0.0, value="-")

        def watch(progress: Progress) -> None:
            value = progress.metrics.get(f"eval/{source}")
            if value is not None:
                bar.update(row, value=f"{value:.2f}")
            bar.update(row, completed=progress.step, description="training", rate=progress.steps_per_second)

        yield watch


def show_result(folder: Path, config: RunConfig) -> None:
    """The last evaluation of a run, per task."""
    sources, score = sources_to_evaluate(config), score_name(config)
    last = next(line for line in reversed(read_metrics(folder)) if f"eval/{sources[0]}" in line)
    table = Table("task", score, title=f"{folder} after {last['step']:,} steps")
    for name, value in last.items():
        if name.startswith(f"eval/{sources[0]}/"):
            table.add_row(name.removeprefix(f"eval/{sources[0]}/"), f"{value:.2f}")
    CONSOLE.print(table)
    for source in sources:
        whose = {"all_tasks": "all tasks'", "right": "its own task's"}.get(source, f"a {source} task's")
        reading = f" reading {whose} data" if config.agent.retrieval.reads else ""
        CONSOLE.print(f"mean {score}{reading}: {last[f'eval/{source}']:.2f}")
