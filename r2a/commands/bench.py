"""r2a bench: speed, side by side with others, in one run."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.errors import UserError
from r2a.training.course import use_compilation_cache

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Bench:
    """Measure speed by CPU time, against others in the same run.

    environment: gridroboman against its pycolab reference; games: Atari against ale-py's own vector environment; dqn:
    sample and update against other libraries (installed by `make bench-setup`); replay: drawing, changing and adding
    sequences against other libraries; online: acting, drawing and learning of R2D2 and RA-R2D2, and steps per second
    on a Ray cluster of 1, 2 and 4 players; retrieval: RA-DQN at the paper's size against the plain way; growth: time
    and memory of a recurrent agent's update with 64, 256 and 1,280 retrieval trajectories.

    Examples:
      r2a bench environment
      r2a bench dqn --json
    """

    what: tyro.conf.Positional[Literal["environment", "games", "dqn", "replay", "online", "retrieval", "growth"]]
    json: bool = False
    """Print one JSON object instead of lines."""
    quick: bool = False
    """A few seconds only: shows that it runs, not how fast."""


def main(argv: Sequence[str]) -> int:
    """Run one benchmark of the benchmarks/ folder and print its figures."""
    options = parse(Bench, argv, "bench")
    use_compilation_cache()
    if not (ROOT / "benchmarks" / f"{options.what}.py").is_file():
        raise UserError(f"There is no benchmarks/{options.what}.py here; run this in a checkout that has it.")
    sys.path.insert(0, str(ROOT))
    figures = importlib.import_module(f"benchmarks.{options.what}").run(quick=options.quick)
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0


def show(figures: dict[str, Any], indent: str = "") -> None:
    """One line per figure."""
    for name, value in figures.items():
        if isinstance(value, dict):
            CONSOLE.print(f"{indent}{name}")
            show(value, indent + "  ")
        else:
            shown = f"{value:,.3f}" if isinstance(value, float) else value
            CONSOLE.print(f"{indent}{name:32s} {shown}")
