"""r2a train: learn from a data set, or while acting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from r2a.commands.train import offline, online
from r2a.experiments.presets import EXPERIMENTS, ONLINE
from r2a.training.online.train import is_online


def main(argv: Sequence[str]) -> int:
    """What is trained, and so the options, are decided by the environment, or by the run that is to go on."""
    environment, preset = named(argv)
    return (online if environment in ONLINE else offline).main(argv, environment, preset)


def named(argv: Sequence[str]) -> tuple[str, str]:
    """The environment and the preset that the command line names: they decide the defaults of all other options."""
    environment, preset = "gridroboman", "laptop"
    for i, argument in enumerate(argv):
        if argument in (*EXPERIMENTS, *ONLINE) and (i == 0 or not argv[i - 1].startswith("--")):
            environment = argument
        option, equals, value = argument.partition("=")
        value = value if equals else argv[i + 1] if i + 1 < len(argv) else ""
        if option == "--preset":
            preset = value
        if option == "--resume" and Path(value).is_dir() and is_online(value):
            environment = online.environment_of(Path(value))
    return environment, preset
