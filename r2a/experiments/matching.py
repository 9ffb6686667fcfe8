"""A plain agent with as many parameters as the one that reads: the control for capacity."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax

from r2a.agents.agent import parameter_count
from r2a.agents.build import build_agent
from r2a.config import AgentConfig, RunConfig, override
from r2a.environments.registry import load_features


@cache
def agent_size(
    environment: str, config: AgentConfig, observation_shape: int | tuple[int, ...], action_size: int
) -> int:
    """How many parameters an agent has that sees observations of one size or shape."""
    load_features(environment)
    agent = jax.eval_shape(lambda: build_agent(config, observation_shape, action_size, jax.random.key(0)))
    return parameter_count(agent)


def widen_to_match(plain: RunConfig, full: RunConfig, size_of: Callable[[RunConfig], int]) -> RunConfig:
    """The plain agent with all layers widened by one factor, to the parameter count nearest to the full agent's."""
    wanted, narrow = size_of(full), plain.agent.encoder.hidden[-1]

    def widened(width: int) -> RunConfig:
        layers = {"agent.encoder.hidden": plain.agent.encoder.hidden, "agent.head.hidden": plain.agent.head.hidden}
        wider = {name: tuple(round(width / narrow * size) for size in sizes) for name, sizes in layers.items()}
        return override(plain, wider)

    low, high = narrow, 16 * narrow
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size_of(widened(middle)) <= wanted else (low, middle)
    return min((widened(low), widened(high)), key=lambda config: abs(size_of(config) - wanted))
