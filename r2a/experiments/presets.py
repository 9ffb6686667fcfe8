"""The experiments by the names of their worlds, and the presets and arms of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2a.config import RunConfig
from r2a.errors import UserError

if TYPE_CHECKING:
    from r2a.experiments.harness import Experiment

EXPERIMENTS = {
    "gridroboman": "r2a.experiments.gridroboman",
    "babyai": "r2a.experiments.babyai",
    "causalworld": "r2a.experiments.causalworld",
    "minatar": "r2a.experiments.minatar",
    "atari": "r2a.experiments.atari",
}
"""The module of every world's EXPERIMENT, imported when it is asked for."""


def experiment(world: str) -> Experiment:
    """The experiment of a world."""
    return import_module(named(EXPERIMENTS, "experiment", world)).EXPERIMENT


def preset(world: str, name: str) -> RunConfig:
    """The settings of that name."""
    return named(experiment(world).presets, "preset", name)


def agents(world: str) -> tuple[str, ...]:
    """The names of the arms of a world; the first is trained unless another is asked for."""
    return tuple(experiment(world).arms)


def arm(config: RunConfig, name: str) -> RunConfig:
    """One of the agents that are compared in the config's world: what sets it apart, and nothing else."""
    world = config.environment
    return named(experiment(world).arms, "agent", name, f" for {world}").of(config)


def named(choices: Mapping[str, Any], what: str, name: str, where: str = "") -> Any:
    """The choice of that name; one that is not there is refused."""
    if name not in choices:
        raise UserError(f"There is no {what} {name!r}{where}; choose one of {', '.join(choices)}.")
    return choices[name]
