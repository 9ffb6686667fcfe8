"""r2a collect: make an offline data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from r2a.commands.options import parse, parse_about, require_first
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.config import CollectConfig
from r2a.environments.registry import WORLDS, spec_of, world_of
from r2a.errors import UserError
from r2a.training.collect import collect, tasks_to_collect
from r2a.training.course import use_compilation_cache


@dataclass(frozen=True)
class Collect:
    """Make an offline data set of an environment that has an expert: gridroboman, babyai or causalworld.

    The expert acts with a ladder of noise, in several processes, or all at once where the environment runs inside
    compiled programs. A collection that was stopped goes on where it was: give the same command again. Every
    environment has options of its own: name it before --help.

    Examples:
      r2a collect gridroboman
      r2a collect gridroboman --method online --episodes 100000
      r2a collect babyai --tasks GoToLocal PickupLoc --episodes 100
      r2a collect causalworld --name far --env.goals space_b
    """

    environment: tyro.conf.Positional[str] = ""
    name: str = ""
    """Name of the data set under --root (default: the environment's usual one)."""
    root: Path = Path("datasets")
    overwrite: bool = False
    config: Annotated[CollectConfig, tyro.conf.arg(name="")] = field(default_factory=CollectConfig)


def main(argv: Sequence[str]) -> int:
    """Collect behind a progress bar and say what came of it."""
    world = world_of(parse_about(argv)[0] or next(iter(WORLDS)))
    options = parse(Collect, argv, "collect", Collect(world.name, config=world.collect or CollectConfig()))
    require_first("collect", "environment", options.environment, world.name)
    if world.collect is None:
        raise UserError(f"{world.name} has no expert to collect from.")
    use_compilation_cache()
    config, spec = options.config, spec_of(world.name, options.config.env)
    usual = world.dataset if config.method == "expert" else f"{world.name}-{config.method}"
    path = options.root / (options.name or usual)
    total = config.episodes * len(tasks_to_collect(config, spec))
    with progress_bar(f"{spec.scores[-1]} {{task.fields[mean]:.2f}}") as bar:
        row = bar.add_task("collecting", total=total, mean=0.0)

        def watch(task: str, episodes: int, mean: float) -> None:
            bar.update(row, advance=episodes, description=task, mean=mean)

        dataset = collect(world.name, config, path, overwrite=options.overwrite, watch=watch)
    CONSOLE.print(f"{dataset.num_episodes:,} episodes in {path}; `r2a datasets show {path}` tells more.")
    return 0
