"""A process that does one run of a sweep."""

from __future__ import annotations

import sys
from typing import Any

from r2a.experiments.babyai import sweep as babyai
from r2a.experiments.causalworld import sweep as causalworld
from r2a.experiments.games import sweep as games
from r2a.experiments.gridroboman import sweep as gridroboman
from r2a.experiments.sweep import Experiment, work

SWEEPS: dict[str, Experiment[Any]] = {
    "gridroboman": gridroboman.EXPERIMENT,
    "babyai": babyai.EXPERIMENT,
    "causalworld": causalworld.EXPERIMENT,
    "minatar": games.MINATAR,
    "atari": games.ATARI,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    sys.exit(work(SWEEPS[name], *arguments))
