"""What an evaluation reads from, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from r2a.config import FoundValues, RetrievalConfig, RunConfig
from r2a.types import EncodedBatch

Source = Literal["right", "wrong", "random", "all_tasks"]


class Evaluation(NamedTuple):
    """The score of every episode: task, retrieval batch, episode; and whose data each task gave weight to.

    Gridroboman's score is the episode's return; BabyAI's is 1 where the mission was fulfilled, else 0.
    CausalWorld's is 1 where the task was solved at the end.
    """

    scores: Float[np.ndarray, "tasks R E"]
    fraction: Float[np.ndarray, "tasks R E"] | None = None
    """How much of CausalWorld's goal was covered at the end."""
    weight: Float[np.ndarray, "tasks sources"] | None = None
    """Share of each task's retrieval weight that went to the episodes of each task; None: not recorded."""

    def per_task(self) -> np.ndarray:
        """Mean score of each task."""
        return self.scores.mean((1, 2))

    def mean(self) -> float:
        """Mean score over all tasks."""
        return float(self.scores.mean())


def score_name(config: RunConfig) -> str:
    """What an episode's score is called."""
    return "return" if config.environment == "gridroboman" else "success"


def source_tasks(source: Source, num_tasks: int, batches: int, key: PRNGKeyArray) -> Int[Array, "tasks R"]:
    """Whose data each task reads from in each of its retrieval batches; consumes `key`.

    wrong: another task each time, never the evaluated one; random: any task, as the control is trained with.
    """
    own = jnp.arange(num_tasks)[:, None]
    if source == "right":
        return jnp.broadcast_to(own, (num_tasks, batches))
    low = 1 if source == "wrong" and num_tasks > 1 else 0
    return (own + jax.random.randint(key, (num_tasks, batches), low, num_tasks)) % num_tasks


def sources_to_evaluate(config: RunConfig) -> tuple[Source, ...]:
    """What the agent is evaluated reading from, the one it was trained with first; without retrieval, it is one."""
    if not config.agent.retrieval.reads:
        return ("right",)
    if config.data.retrieve_from == "all_tasks":
        return ("all_tasks",)
    if config.environment != "gridroboman":
        return ("right",) if config.data.retrieve_from == "same_task" else ("random",)
    return ("right", "wrong", "random")


def what_matters(config: RunConfig) -> RunConfig:
    """The config without what playing does not depend on, so that runs share one compiled program."""
    return RunConfig(agent=config.agent, data=config.data, evaluation=config.evaluation)


def corrupt_values(encoded: EncodedBatch | None, how: FoundValues, key: PRNGKeyArray) -> EncodedBatch | None:
    """What can be read, with other values in its place; consumes `key`. Keys stay: only what is found there changes."""
    if encoded is None or how == "as_read":
        return encoded
    values, valid = encoded.values.reshape(-1, encoded.values.shape[-1]), encoded.valid.ravel()
    if how == "mean":
        mean = jnp.where(valid[:, None], values, 0.0).sum(0) / jnp.maximum(valid.sum(), 1)
        return encoded._replace(values=jnp.broadcast_to(mean, encoded.values.shape))
    numbers = jnp.arange(len(valid))
    # Valid states come first in both orders, so that each of them gets the value of another.
    in_order = jnp.argsort(jnp.where(valid, numbers, len(valid) + numbers))
    at_random = jnp.argsort(jnp.where(valid, jax.random.uniform(key, valid.shape), 2.0 + numbers))
    return encoded._replace(values=values.at[in_order].set(values[at_random]).reshape(encoded.values.shape))


def retrieval_at_test(config: RunConfig) -> RetrievalConfig:
    """How a retrieval batch is drawn for an evaluation: nothing is learnt from it, so it can be larger."""
    retrieval = config.agent.retrieval
    return replace(
        retrieval, trajectories=config.evaluation.trajectories or retrieval.trajectories, num_grad_trajectories=0
    )
