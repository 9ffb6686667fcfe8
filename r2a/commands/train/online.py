"""r2a train atari | minatar: learn while acting."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.config import OnlineConfig
from r2a.errors import UserError
from r2a.experiments.games.presets import ARMS
from r2a.experiments.presets import online_arm, online_preset
from r2a.training.compilation import use_compilation_cache
from r2a.training.course import Interrupted, Progress
from r2a.training.metrics import read_metrics, tensorboard_is_installed
from r2a.training.online.loop import OnlineRun, Run
from r2a.training.online.train import read_config, train
from r2a.training.online.worlds import with_game, world_of
from r2a.viewer.curves import Curve, plot_curves


@dataclass(frozen=True)
class TrainOnline:
    """Learn while acting, with or without retrieval from what was done so far.

    A preset sets all options below; each can be overridden. Go on with a run that was stopped by --resume.

    Agents: ra_r2d2; r2d2, without retrieval; ra_r2d2_slots_only, the same network, but its slots read nothing;
    r2d2_auxiliary, without retrieval, but with its auxiliary losses.

    Examples:
      r2a train minatar --game breakout --agent ra_r2d2
      r2a train atari --game frostbite --agent r2d2 --steps 640000
      r2a train atari --game frostbite --preset paper
      r2a train minatar --game freeway --acting.samples-per-insert 16 --name eager
      r2a train --resume runs/eager
      r2a train atari --game frostbite --ray-address auto --players 8 --acting.lanes 32
    """

    environment: tyro.conf.Positional[Literal["atari", "minatar"]] = "minatar"
    game: str = ""
    """Which game is played (default: the preset's)."""
    agent: str = ""
    """One of the agents named above (default: ra_r2d2)."""
    preset: Literal["paper", "laptop", "smoke"] = "laptop"
    name: str = ""
    """Name of the run folder under --runs (default: AGENT-GAME-SEED)."""
    runs: Path = Path("runs")
    resume: Path | None = None
    """Run folder to go on with; its own settings are used."""
    tensorboard: bool = field(default_factory=tensorboard_is_installed)
    """Also write the metrics for TensorBoard (default: if tensorboardX is installed)."""
    ray_address: str = ""
    """Spread the run over a Ray cluster: auto, the one this machine is part of; HOST:PORT; or local, one of our own
    (default: everything in one process, without Ray)."""
    players: int = 4
    """Processes that play, each with its share of acting.lanes, on a Ray cluster."""
    config: Annotated[OnlineConfig, tyro.conf.arg(name="")] = field(default_factory=OnlineConfig)


def main(argv: Sequence[str], environment: str, name: str) -> int:
    """Train with a progress bar; end with the score and its curve. `name` is the preset's."""
    default = TrainOnline(environment, preset=name, config=online_preset(environment, name))  # type: ignore[arg-type]
    options = parse(TrainOnline, argv, "train", default=default)
    use_compilation_cache()
    if options.resume is not None:
        folder, config = options.resume, read_config(options.resume)
    else:
        agent = options.agent or next(iter(ARMS))
        config = online_arm(options.config, agent)
        if options.game:
            config = with_game(config, options.game)
        folder = options.runs / (options.name or f"{agent}-{world_of(config).game}-{config.seed}")
    try:
        with training_bar(config) as watch:
            make = where(options.ray_address, options.players)
            resume = options.resume is not None
            train(config, folder, resume=resume, watch=watch, tensorboard=options.tensorboard, make=make)
    except Interrupted:
        CONSOLE.print(f"Stopped; everything is saved. Go on with: r2a train --resume {folder}")
        return 130
    show_result(folder, config)
    return 0


def where(ray_address: str, players: int) -> Callable[[OnlineConfig, Path], Run]:
    """What makes a run: all of it here, or its parts on a Ray cluster."""
    if not ray_address:
        return OnlineRun
    if importlib.util.find_spec("ray") is None:
        raise UserError("--ray-address needs Ray: pip install 'r2a[distributed]'.")
    from r2a.training.online.cluster.run import ClusterRun

    return partial(ClusterRun, address=ray_address, players=players)


def environment_of(folder: Path) -> str:
    """What is played in a run."""
    return read_config(folder).environment


@contextmanager
def training_bar(config: OnlineConfig) -> Iterator[Callable[[Progress], None]]:
    """A progress bar and the function that moves it."""
    texts = ("{task.fields[rate]:.0f} steps/s", "score {task.fields[score]}", "evaluated {task.fields[evaluated]}")
    with progress_bar(*texts) as bar:
        row = bar.add_task("compiling", total=config.steps, rate=0.0, score="-", evaluated="-")

        def watch(progress: Progress) -> None:
            if "rl/score" in progress.metrics:
                bar.update(row, score=f"{progress.metrics['rl/score']:.1f}")
            if "eval/score" in progress.metrics:
                bar.update(row, evaluated=f"{progress.metrics['eval/score']:.1f}")
            doing = "training" if progress.metrics["rl/updates"] else "filling the replay"
            bar.update(row, completed=progress.step, description=doing, rate=progress.steps_per_second)

        yield watch


def show_result(folder: Path, config: OnlineConfig) -> None:
    """The last evaluation of a run, and all of them as a curve."""
    metrics = read_metrics(folder)
    last = next(line for line in reversed(metrics) if "eval/score" in line)
    human = f", {last['eval/human_normalised']:.1%} of a person's" if "eval/human_normalised" in last else ""
    CONSOLE.print(
        f"{folder} after {last['step']:,} steps: score {last['eval/score']:.1f}{human} "
        f"(mean of {config.play.episodes} games of {world_of(config).game})"
    )
    plot = folder / "scores.png"
    curves = {"evaluated": Curve([metrics], "eval/score"), "while learning": Curve([metrics], "rl/score")}
    plot_curves(curves, plot, steps="steps of the environment", score="score of a game")
    CONSOLE.print(f"The curve: {plot}; a film: r2a evaluate {folder} --film {folder / 'film.gif'}")
