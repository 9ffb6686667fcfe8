"""Act in the environment, on all tasks at once, reading from the right, a wrong, a random or all tasks' data."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData
from r2a.training.evaluate import gridroboman
from r2a.training.evaluate.sources import (
    Evaluation,
    Source,
    score_name,
    source_tasks,
    sources_to_evaluate,
    what_matters,
)

__all__ = [
    "Evaluation",
    "Source",
    "evaluate",
    "require_world",
    "score_name",
    "source_tasks",
    "sources_to_evaluate",
    "what_matters",
]


def require_world(environment: str) -> None:
    """Refuse an environment whose packages are missing, in a sentence that says how to install them."""
    if environment == "causalworld":
        import r2a.environments.causalworld.gym
    elif environment == "babyai":
        import r2a.training.evaluate.babyai  # noqa: F401


def evaluate(
    agent: Agent,
    data: ResidentData,
    config: RunConfig,
    task_names: Sequence[str],
    source: Source,
    key: PRNGKeyArray,
) -> Evaluation:
    """Play every task with `evaluation.episodes` episodes for each of several retrieval batches; consumes `key`."""
    if config.environment == "gridroboman":
        return gridroboman.evaluate(agent, data, config, source, key)
    if config.environment == "causalworld":
        from r2a.training.evaluate import causalworld  # needs pybullet and causal_world

        return causalworld.evaluate(agent, data, config, task_names, source, key)
    from r2a.training.evaluate import babyai  # needs minigrid

    return babyai.evaluate(agent, data, config, task_names, source, key)
