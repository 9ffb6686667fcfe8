"""r2a collect: make an offline data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.errors import UserError
from r2a.training.collect import babyai, causalworld, gridroboman
from r2a.training.collect.babyai import BabyAICollectConfig
from r2a.training.collect.causalworld import CausalWorldCollectConfig
from r2a.training.collect.gridroboman import OnlineConfig, ScriptedConfig
from r2a.training.compilation import use_compilation_cache


@dataclass(frozen=True)
class Collect:
    """Make an offline data set of gridroboman; for the others: `r2a collect babyai --help`, `... causalworld --help`.

    scripted: an expert with a ladder of noise, seconds for 4,000 episodes of each of the 30 tasks.

    online: the paper's way, a DQN agent that learns each task online and whose episodes are all recorded.

    Examples:
      r2a collect gridroboman
      r2a collect gridroboman --method online --episodes 100000
    """

    environment: tyro.conf.Positional[Literal["gridroboman", "babyai", "causalworld"]]
    method: Literal["scripted", "online"] = "scripted"
    name: str = ""
    """Name of the data set under --root (default: gridroboman-METHOD)."""
    root: Path = Path("datasets")
    overwrite: bool = False
    scripted: tyro.conf.OmitSubcommandPrefixes[ScriptedConfig] = field(default_factory=ScriptedConfig)
    online: OnlineConfig = field(default_factory=OnlineConfig)
    episodes: int | None = None
    """Episodes per task, whichever the method."""
    num_tasks: int | None = None
    """The first so many tasks, whichever the method."""
    seed: int | None = None


@dataclass(frozen=True)
class CollectBabyAI:
    """Make an offline data set of BabyAI: an expert bot with a ladder of noise, in several processes.

    A collection that was stopped goes on where it was: give the same command again.

    Examples:
      r2a collect babyai --levels GoToLocal PickupLoc --episodes 100
      r2a collect babyai --name babyai-40 --episodes 1000
    """

    name: str = "babyai-expert"
    """Name of the data set under --root."""
    root: Path = Path("datasets")
    overwrite: bool = False
    settings: Annotated[BabyAICollectConfig, tyro.conf.arg(name="")] = field(default_factory=BabyAICollectConfig)


@dataclass(frozen=True)
class CollectCausalWorld:
    """Make an offline data set of CausalWorld: a scripted expert with a ladder of noise, in several processes.

    A collection that was stopped goes on where it was: give the same command again.

    Examples:
      r2a collect causalworld --tasks pushing picking --episodes 50
      r2a collect causalworld --name far --goals space_b
    """

    name: str = "causalworld-expert"
    """Name of the data set under --root."""
    root: Path = Path("datasets")
    overwrite: bool = False
    settings: Annotated[CausalWorldCollectConfig, tyro.conf.arg(name="")] = field(
        default_factory=CausalWorldCollectConfig
    )


def main(argv: Sequence[str]) -> int:
    """Collect and say what came of it."""
    if argv and argv[0] == "babyai":
        return collect_babyai(parse(CollectBabyAI, argv[1:], "collect babyai"))
    if argv and argv[0] == "causalworld":
        return collect_causalworld(parse(CollectCausalWorld, argv[1:], "collect causalworld"))
    options = parse(Collect, argv, "collect")
    if options.environment != "gridroboman":
        raise UserError(f"Name the environment before its options: `r2a collect {options.environment} [OPTIONS]`.")
    return collect_gridroboman(options)


def collect_gridroboman(options: Collect) -> int:
    """By the method asked for."""
    use_compilation_cache()
    chosen = options.scripted if options.method == "scripted" else options.online
    shared = {name: getattr(options, name) for name in ("episodes", "num_tasks", "seed")}
    given = {name: value for name, value in shared.items() if value is not None}
    config = type(chosen)(**{**{n: getattr(chosen, n) for n in asdict(chosen)}, **given})
    path = options.root / (options.name or f"gridroboman-{options.method}")
    return _collect(gridroboman.collect, config, path, options.overwrite, config.episodes * config.num_tasks, ".1f")


def collect_babyai(options: CollectBabyAI) -> int:
    """In processes of their own."""
    config = options.settings
    total = config.episodes * len(config.levels)
    return _collect(babyai.collect, config, options.root / options.name, options.overwrite, total, ".2f")


def collect_causalworld(options: CollectCausalWorld) -> int:
    """In processes of their own."""
    config = options.settings
    total = config.episodes * len(config.tasks)
    return _collect(
        causalworld.collect, config, options.root / options.name, options.overwrite, total, ".2f", "covered"
    )


def _collect(
    collect: Any,
    config: Any,
    path: Path,
    overwrite: bool,
    total: int,
    digits: str,
    score: str = "return",
) -> int:
    """Collect behind a progress bar."""
    with progress_bar(f"{score} {{task.fields[mean]:{digits}}}") as bar:
        row = bar.add_task("collecting", total=total, mean=0.0)

        def watch(task: str, episodes: int, mean: float) -> None:
            bar.update(row, advance=episodes, description=task, mean=mean)

        dataset = collect(config, path, overwrite=overwrite, watch=watch)
    CONSOLE.print(f"{dataset.num_episodes:,} episodes in {path}; `r2a datasets show {path}` tells more.")
    return 0
