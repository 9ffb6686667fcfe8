"""r2a evaluate: act with a trained agent, reading from where you like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from r2a.commands.evaluate import offline, online
from r2a.training.metrics import CONFIG, read_run_config
from r2a.training.online.train import is_online


def main(argv: Sequence[str]) -> int:
    """What is evaluated, and so the options, are decided by the run."""
    if argv and not argv[0].startswith("-"):
        read_run_config(argv[0])  # no such run: said before its options are looked at, which depend on it
    runs = [Path(argument) for argument in argv if (Path(argument) / CONFIG).is_file()]
    return (online if runs and is_online(runs[0]) else offline).main(argv)
