"""Named settings, and the agents that are compared with each other, of every environment."""

from __future__ import annotations

from r2a.config import RunConfig
from r2a.errors import UserError
from r2a.experiments.babyai import presets as babyai
from r2a.experiments.gridroboman import presets as gridroboman

EXPERIMENTS = {"gridroboman": gridroboman, "babyai": babyai}


def preset(environment: str, name: str) -> RunConfig:
    """The settings of that name."""
    presets = EXPERIMENTS[environment].PRESETS
    if name not in presets:
        raise UserError(f"There is no preset {name!r}; choose one of {', '.join(presets)}.")
    return presets[name]


def arm(config: RunConfig, name: str) -> RunConfig:
    """One of the agents that are compared in the config's environment: what sets it apart, and nothing else."""
    experiment = EXPERIMENTS[config.environment]
    if name not in experiment.ARMS:
        raise UserError(
            f"There is no agent {name!r} for {config.environment}; choose one of {', '.join(experiment.ARMS)}."
        )
    return experiment.arm(config, name)
