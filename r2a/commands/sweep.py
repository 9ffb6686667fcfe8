"""r2a sweep: regenerate the results of an experiment at a chosen scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markdown import Markdown

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.experiments import harness, report
from r2a.experiments.presets import EXPERIMENTS, experiment
from r2a.training.course import Interrupted


@dataclass(frozen=True)
class Sweep:
    """Train all arms of an experiment, as far as not done yet, and write summary, table and figures.

    gridroboman: return of RA-DQN and its baselines on 10, 20 and 30 tasks (Sec. 3.2).

    babyai: success of RA-RDQN and its baselines on two sizes of data, and whose data it reads (Sec. 3.3, Table 1).

    causalworld: success of RA-BC and its baselines, with few and many demonstrations (Sec. 3.4, Table 2).

    minatar, atari: score of R2D2, RA-R2D2 and its ablation A-2, learning while they act (Sec. 3.1).

    Optional arms are run when --only names them: r2d2_auxiliary of minatar, for example.

    Examples:
      r2a sweep gridroboman --scale laptop
      r2a sweep gridroboman --scale laptop --only 10-none
      r2a sweep babyai --only ra_rdqn_multi-1000
      r2a sweep minatar --only breakout
      r2a sweep gridroboman --analyse-only
    """

    experiment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="{" + ",".join(EXPERIMENTS) + "}")]
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    dataset: str = ""
    """Name or path of the data set (default: the one the scale's preset names, collected if it is not there)."""
    only: str = ""
    """Only runs with these parts of a name, as in ra_dqn-10-none-0: an arm, a number of tasks, an input, a seed."""
    workers: int = 2
    """Runs done at the same time, each on a core of its own."""
    analyse_only: bool = False
    runs: Path = Path("runs/sweep")
    results: Path | None = None
    """Where the results are kept (default: results/EXPERIMENT)."""


def main(argv: Sequence[str]) -> int:
    """Do what is left of the sweep, then analyse what is done."""
    options = parse(Sweep, argv, "sweep")
    chosen = experiment(options.experiment)
    results = options.results or Path("results") / chosen.name
    if not options.analyse_only:
        try:
            harness.sweep(
                chosen,
                options.scale,
                options.runs,
                results,
                dataset=options.dataset,
                only=options.only,
                workers=options.workers,
                say=CONSOLE.print,
            )
        except (Interrupted, KeyboardInterrupt):
            CONSOLE.print("Stopped; everything is saved, and the same command goes on from here.")
            return 130
    CONSOLE.print(Markdown(report.analyse(chosen, results, options.scale)))
    return 0
