"""One update: gradient, Adam, target network."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.agents.objective import LearningBatch, Metrics, gradient
from r2a.config import LearnerConfig
from r2a.types import LearnerState


def make_optimiser(config: LearnerConfig) -> optax.GradientTransformation:
    """Adam on gradients clipped by their global norm, all parameters in one vector.

    One vector takes a few operations; a tree of parameters takes as many for each of its leaves.
    """
    rate = config.learning_rate
    if config.decay_steps:
        half = config.decay_steps // 2
        rate = optax.linear_schedule(rate, 0.1 * rate, config.decay_steps - half, transition_begin=half)
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(rate, eps=config.adam_epsilon))


def start_learning(agent: Agent, config: LearnerConfig, key: PRNGKeyArray) -> LearnerState:
    """The state before the first update."""
    # A copy: the two sets of parameters are donated to the first update as separate buffers.
    target = jax.tree.map(jnp.copy, agent)
    optimiser = make_optimiser(config).init(ravel_pytree(agent)[0])
    return LearnerState(agent, target, optimiser, jnp.zeros((), jnp.int32), key)


def update(
    state: LearnerState, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[LearnerState, Metrics]:
    """One learner step on one batch; consumes `key`."""
    grads, losses, metrics = gradient(state.params, state.target_params, batch, key, config)
    flat_grads, _ = ravel_pytree(grads)
    flat_params, as_agent = ravel_pytree(state.params)
    steps, optimiser = make_optimiser(config).update(flat_grads, state.optimiser)
    params = as_agent(cast(Array, optax.apply_updates(flat_params, steps)))
    step = state.step + 1
    target_params = jax.lax.cond(step % config.target_period == 0, lambda: params, lambda: state.target_params)
    names = {"rl": "rl/loss", "kl": "retrieval/kl"}
    named = {names.get(name, f"aux/{name}"): value for name, value in losses.items()}
    return LearnerState(params, target_params, optimiser, step, state.key), {
        **named,
        **metrics,
        "rl/gradient_norm": optax.tree.norm(flat_grads),
    }
