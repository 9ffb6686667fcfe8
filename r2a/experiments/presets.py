"""Named settings, and the agents that are compared with each other, of every environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from r2a.config import OnlineConfig, RunConfig
from r2a.errors import UserError
from r2a.experiments.babyai import presets as babyai
from r2a.experiments.causalworld import presets as causalworld
from r2a.experiments.games import presets as games
from r2a.experiments.gridroboman import presets as gridroboman

EXPERIMENTS = {"gridroboman": gridroboman, "babyai": babyai, "causalworld": causalworld}
ONLINE = tuple(games.PRESETS)


def preset(environment: str, name: str) -> RunConfig:
    """The settings of that name, to learn from a data set."""
    return _named(EXPERIMENTS[environment].PRESETS, name)


def online_preset(environment: str, name: str) -> OnlineConfig:
    """The settings of that name, to learn while acting."""
    return _named(games.PRESETS[environment], name)


def arm(config: RunConfig, name: str) -> RunConfig:
    """One of the agents that are compared in the config's environment: what sets it apart, and nothing else."""
    experiment = EXPERIMENTS[config.environment]
    _require_agent(config.environment, name, experiment.ARMS)
    return experiment.arm(config, name)


def online_arm(config: OnlineConfig, name: str) -> OnlineConfig:
    """The same, of the agents that learn while acting."""
    _require_agent(config.environment, name, games.ARMS)
    return games.arm(config, name)


def _named(presets: Mapping[str, Any], name: str) -> Any:
    if name not in presets:
        raise UserError(f"There is no preset {name!r}; choose one of {', '.join(presets)}.")
    return presets[name]


def _require_agent(environment: str, name: str, agents: Iterable[str]) -> None:
    if name not in agents:
        raise UserError(f"There is no agent {name!r} for {environment}; choose one of {', '.join(agents)}.")
