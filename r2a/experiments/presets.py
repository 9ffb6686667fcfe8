"""The experiments by the names of their worlds, and the presets and arms of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from r2a.config import RunConfig
from r2a.environments.registry import WORLDS
from r2a.errors import UserError

if TYPE_CHECKING:
    from r2a.experiments.harness import Experiment

EXPERIMENTS = {name: f"r2a.experiments.{name}" for name in WORLDS}
"""The module of every world's EXPERIMENT, imported when it is asked for."""
DEMO = next(iter(EXPERIMENTS))
"""The world of `r2a demo`: its experiment has a preset of that name."""


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
