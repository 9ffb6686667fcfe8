"""r2a train: learn from a data set, or while acting."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from r2a.commands.options import parse, parse_about, require_first
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.config import RunConfig
from r2a.data.dataset import find_dataset
from r2a.environments.registry import WORLDS, spec_of, world_of
from r2a.errors import UserError
from r2a.experiments.presets import agents, arm, preset
from r2a.training.course import Interrupted, Progress, use_compilation_cache
from r2a.training.evaluate import sources_to_evaluate
from r2a.training.metrics import read_metrics, tensorboard_is_installed
from r2a.training.offline import OfflineRun
from r2a.training.online import OnlineRun
from r2a.training.runs import read_config
from r2a.training.train import Run, train
from r2a.viewer.curves import Curve, curves_of_sources, plot_curves


@dataclass(frozen=True)
class Train:
    """Train an agent, with or without retrieval: on a data set (gridroboman, babyai, causalworld), or while it acts,
    reading from its own replay (atari, minatar).

    A preset sets all options below; each can be overridden. Every environment has its own: name it before --help. Go on
    with a run that was stopped by --resume.

    Agents that read: ra_dqn (gridroboman), ra_rdqn_multi and ra_rdqn_single (babyai), ra_bc_multi and ra_bc_single
    (causalworld), ra_r2d2 (atari, minatar). The same without retrieval: dqn, rdqn, bc, r2d2. An unknown name lists all
    agents of the environment, controls and ablations among them.

    Examples:
      r2a train gridroboman --agent ra_dqn --data.num-tasks 10
      r2a train gridroboman --preset paper --agent dqn --data.task-input one_hot
      r2a train babyai --agent ra_rdqn_multi --data.tasks GoToLocal PickupLoc PutNextLocal
      r2a train causalworld --agent bc --data.dataset causalworld-expert --data.tasks pushing picking
      r2a train gridroboman --retrieval.k-traj 5 --retrieval.summariser gru --name wider
      r2a train minatar --env.game breakout --agent ra_r2d2
      r2a train atari --env.game frostbite --ray-address auto --players 8 --acting.num-envs 32
      r2a train --resume runs/wider
    """

    environment: tyro.conf.Positional[str] = ""
    agent: str = ""
    """One of the agents of the environment (default: the first of them)."""
    preset: str = "laptop"
    """paper, laptop or smoke."""
    name: str = ""
    """Name of the run folder under --runs (default: AGENT-TASKS-SEED)."""
    runs: Path = Path("runs")
    datasets: Path = Path("datasets")
    resume: Path | None = None
    """Run folder to go on with; its own settings are used."""
    tensorboard: bool = field(default_factory=tensorboard_is_installed)
    """Also write the metrics for TensorBoard (default: if tensorboardX is installed)."""
    ray_address: str = ""
    """Spread a run that learns while it acts over a Ray cluster: auto, the one this machine is part of; HOST:PORT; or
    local, one of our own (default: everything in one process, without Ray)."""
    players: int = 4
    """Processes that play, each with its share of acting.num-envs, on a Ray cluster."""
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)


def main(argv: Sequence[str]) -> int:
    """Train with a progress bar; end with a table and a curve."""
    named, about = parse_about(argv)
    if about.resume is not None:
        usual = read_config(about.resume)
    else:
        usual = preset(world_of(named or next(iter(WORLDS))).name, about.preset)
    environment = usual.environment
    options = parse(Train, argv, "train", Train(environment, preset=about.preset, config=usual))
    require_first("train", "environment", options.environment, environment)
    use_compilation_cache()
    if options.resume is not None:
        folder, run = options.resume, make_run(usual, options)
    else:
        agent = options.agent or agents(environment)[0]
        config = arm(options.config, agent)
        run = make_run(config, options)
        tasks = spec_of(environment, config.env).tasks[0] if config.is_online else run.config.data.num_tasks
        folder = options.runs / (options.name or f"{agent}-{tasks}-{config.seed}")
    try:
        with training_bar(run.config) as watch:
            train(run, folder, resume=options.resume is not None, watch=watch, tensorboard=options.tensorboard)
    except Interrupted:
        CONSOLE.print(f"Stopped; everything is saved. Go on with: r2a train --resume {folder}")
        return 130
    show_result(folder, run.config)
    return 0


def make_run(config: RunConfig, options: Train) -> Run:
    """The run that a config describes: all of it here, or its parts on a Ray cluster."""
    if not config.is_online:
        if options.ray_address:
            raise UserError("--ray-address is for agents that learn while they act; this one learns from a data set.")
        return OfflineRun(config, find_dataset(config.data.dataset, options.datasets))
    if not options.ray_address:
        return OnlineRun(config, scratch=options.runs)
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray-address needs Ray: pip install 'r2a[distributed]'.")
    from r2a.training.cluster import ClusterRun

    return ClusterRun(config, options.runs, address=options.ray_address, players=options.players)


def main_metric(config: RunConfig) -> str:
    """The metric by which a run is judged."""
    scores = spec_of(config.environment, config.env).scores
    return f"eval/{scores[0]}" if config.is_online else f"eval/{sources_to_evaluate(config)[0]}"


@contextmanager
def training_bar(config: RunConfig) -> Iterator[Callable[[Progress], None]]:
    """A progress bar and the function that moves it."""
    metric, score = main_metric(config), spec_of(config.environment, config.env).scores[0]
    texts = ["{task.fields[rate]:.0f} steps/s", score + " {task.fields[evaluated]}"]
    if config.is_online:
        texts.append("while learning {task.fields[learning]}")
    with progress_bar(*texts) as bar:
        row = bar.add_task("compiling", total=config.steps, rate=0.0, evaluated="-", learning="-")

        def watch(progress: Progress) -> None:
            if metric in progress.metrics:
                bar.update(row, evaluated=f"{progress.metrics[metric]:.2f}")
            if "rl/score" in progress.metrics:
                bar.update(row, learning=f"{progress.metrics['rl/score']:.2f}")
            doing = "training" if progress.metrics.get("rl/updates", 1) else "filling the replay"
            bar.update(row, completed=progress.step, description=doing, rate=progress.steps_per_second)

        yield watch


def show_result(folder: Path, config: RunConfig) -> None:
    """The last evaluation of a run, and all of them as a curve."""
    metrics, main, spec = read_metrics(folder), main_metric(config), spec_of(config.environment, config.env)
    last = next(line for line in reversed(metrics) if main in line)
    if config.is_online:
        scores = ", ".join(f"{name.removeprefix('eval/')} {v:.2f}" for name, v in last.items() if name[:5] == "eval/")
        CONSOLE.print(f"{folder} after {last['step']:,} steps of {spec.tasks[0]}: {scores}")
        curves = {"evaluated": Curve([metrics], main), "while learning": Curve([metrics], "rl/score")}
        plot_curves(curves, folder / "scores.png", steps="steps of the environment", score=spec.scores[0])
        video = f"r2a evaluate {folder} --videos {folder / 'videos'}"
        CONSOLE.print(f"The curve: {folder / 'scores.png'}; a video: {video}")
        return
    table = Table("task", spec.scores[0], title=f"{folder} after {last['step']:,} steps")
    for name, value in last.items():
        if name.startswith(f"{main}/"):
            table.add_row(name.removeprefix(f"{main}/"), f"{value:.2f}")
    CONSOLE.print(table)
    reads = config.agent.retrieval.reads
    for source in sources_to_evaluate(config):
        whose = {"all_tasks": "all tasks'", "right": "its own task's"}.get(source, f"a {source} task's")
        reading = f" reading {whose} data" if reads else ""
        CONSOLE.print(f"mean {spec.scores[0]}{reading}: {last[f'eval/{source}']:.2f}")
    curves = curves_of_sources([metrics], reads)
    plot_curves(curves, folder / "returns.png", score=f"{spec.scores[0]} per episode")
    CONSOLE.print(f"The curve: {folder / 'returns.png'}")
