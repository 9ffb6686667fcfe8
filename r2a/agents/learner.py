"""One update: gradient, optimiser, target network."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.agents.objectives import LearningBatch, Metrics, find_loss, gradient
from r2a.agents.optimiser import make_optimiser
from r2a.config import LearnerConfig
from r2a.types import LearnerState


def start_learning(agent: Agent, config: LearnerConfig, key: PRNGKeyArray) -> LearnerState:
    """The state before the first update; settings that name no loss are refused."""
    find_loss(config.loss)
    # A copy: the two sets of parameters are donated to the first update as separate buffers.
    target = jax.tree.map(jnp.copy, agent)
    optimiser = make_optimiser(config).init(cast(optax.Params, agent))
    return LearnerState(agent, target, optimiser, jnp.zeros((), jnp.int32), key)


def update(
    state: LearnerState, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[LearnerState, Metrics, Float[Array, "M b"]]:
    """One learner step on one batch, and the priority that each of its sequences should have; consumes `key`."""
    grads, output = gradient(state.params, state.target_params, batch, key, config)
    steps, optimiser = make_optimiser(config).update(grads, state.optimiser, state.params)
    params = optax.apply_updates(state.params, steps)
    step = state.step + 1
    target_params = jax.lax.cond(step % config.target_period == 0, lambda: params, lambda: state.target_params)
    names = {"rl": find_loss(config.loss).metric, "kl": "retrieval/kl"}
    metrics = {
        **{names.get(name, f"aux/{name}"): value for name, value in output.losses.items()},
        **output.metrics,
        # Of one vector, as the optimiser clips it: the sum over each array's elements is then not taken twice.
        "rl/gradient_norm": optax.tree.norm(ravel_pytree(grads)[0]),
    }
    return LearnerState(params, target_params, optimiser, step, state.key), metrics, output.priority
