"""r2a sweep: regenerate the results of an experiment at a chosen scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.markdown import Markdown

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.experiments.gridroboman import analysis, sweep
from r2a.training.offline import Interrupted


@dataclass(frozen=True)
class Sweep:
    """Train all arms of an experiment, as far as not done yet, and write summary, table and figures.

    Examples:
      r2a sweep gridroboman --scale laptop
      r2a sweep gridroboman --scale laptop --only 10-none
      r2a sweep gridroboman --analyse-only
    """

    experiment: tyro.conf.Positional[Literal["gridroboman"]]
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    dataset: str = ""
    """Name or path of the data set (default: the one the scale's preset names)."""
    only: str = ""
    """Only runs with these parts of a name, as in ra_dqn-10-none-0: an arm, a number of tasks, an input, a seed."""
    workers: int = 2
    """Runs done at the same time, each on a core of its own."""
    analyse_only: bool = False
    runs: Path = Path("runs/sweep")
    results: Path = sweep.RESULTS


def main(argv: Sequence[str]) -> int:
    """Do what is left of the sweep, then analyse what is done."""
    options = parse(Sweep, argv, "sweep")
    if not options.analyse_only:
        try:
            sweep.sweep(
                options.scale,
                options.dataset or sweep.SCALES[options.scale].preset.data.dataset,
                options.runs,
                options.results,
                options.workers,
                CONSOLE.print,
                options.only,
            )
        except (Interrupted, KeyboardInterrupt):
            CONSOLE.print("Stopped; everything is saved, and the same command goes on from here.")
            return 130
    records = analysis.analyse(options.results, options.scale)
    CONSOLE.print(Markdown(analysis.table(records)))
    return 0
