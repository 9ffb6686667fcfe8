"""r2a collect: make an offline data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE, progress_bar
from r2a.training.collect import OnlineConfig, ScriptedConfig, collect
from r2a.training.compilation import use_compilation_cache


@dataclass(frozen=True)
class Collect:
    """Make an offline data set of gridroboman.

    scripted: an expert with a ladder of noise, seconds for 4,000 episodes of each of the 30 tasks.

    online: the paper's way, a DQN agent that learns each task online and whose episodes are all recorded.

    Examples:
      r2a collect gridroboman
      r2a collect gridroboman --method online --episodes 100000
    """

    environment: tyro.conf.Positional[Literal["gridroboman"]]
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


def main(argv: Sequence[str]) -> int:
    """Collect and say what came of it."""
    options = parse(Collect, argv, "collect")
    use_compilation_cache()
    chosen = options.scripted if options.method == "scripted" else options.online
    shared = {name: getattr(options, name) for name in ("episodes", "num_tasks", "seed")}
    given = {name: value for name, value in shared.items() if value is not None}
    config = type(chosen)(**{**{n: getattr(chosen, n) for n in asdict(chosen)}, **given})
    path = options.root / (options.name or f"gridroboman-{options.method}")
    with progress_bar("return {task.fields[mean]:.1f}") as bar:
        row = bar.add_task("collecting", total=config.episodes * config.num_tasks, mean=0.0)

        def watch(task: str, episodes: int, mean: float) -> None:
            bar.update(row, advance=episodes, description=task, mean=mean)

        dataset = collect(config, path, overwrite=options.overwrite, watch=watch)
    CONSOLE.print(f"{dataset.num_episodes:,} episodes in {path}; `r2a datasets show {path}` tells more.")
    return 0
