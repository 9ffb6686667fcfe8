"""Optimisers: Adam, and Muon, whose steps are equally long in every direction of a weight matrix.

A gradient's singular values say how strongly the data excite each direction; Adam follows the strong ones first, and
what tells two similar tasks apart is weak. Orthogonal steps learn all directions at one speed.
"""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from r2a.config import LearnerConfig

MUON_RMS = 0.2
"""Root mean square of an orthogonalised step, over the learning rate: that of Adam's steps in practice."""
NEWTON_SCHULZ = ((3.4445, -4.775, 2.0315),) * 5
"""Of each iteration of the quintic that pushes all singular values towards one (Jordan et al., "Muon", 2024). As many
as there are, because optax writes iterations of one set out, and dozens of matrices then compile for a minute."""


def make_optimiser(config: LearnerConfig) -> optax.GradientTransformation:
    """From gradients to steps: clip by their global norm, then Adam or Muon at the scheduled learning rate."""
    rate = learning_rate(config)
    clip = clip_by_norm(config.clip_norm)
    if config.optimiser == "adam":
        adam = optax.scale_by_adam(eps=config.adam_epsilon)
        return in_one_vector(optax.chain(clip, adam, optax.scale_by_learning_rate(rate)))
    muon = optax.contrib.muon(rate, NEWTON_SCHULZ, eps=config.adam_epsilon, consistent_rms=MUON_RMS)
    return optax.chain(clip, muon)


def learning_rate(config: LearnerConfig) -> float | optax.Schedule:
    """Constant; or, with `schedule_steps`, rising at the start, then held, then falling."""
    peak, steps = config.learning_rate, config.schedule_steps
    if not steps:
        return peak
    # Muon's first steps are as long as all others, but follow the gradients of a network that knows nothing yet.
    rise = optax.linear_schedule(0.1 * peak, peak, steps // 20)
    fall = optax.linear_schedule(peak, 0.1 * peak, steps - steps // 2)
    return optax.join_schedules([rise, optax.constant_schedule(peak), fall], [steps // 20, steps // 2])


def clip_by_norm(largest: float) -> optax.GradientTransformation:
    """Gradients of a longer global norm are scaled down to it: one factor, where optax selects between two arrays."""

    def update(updates: Any, params: Any = None) -> Any:
        del params
        factor = jnp.minimum(1.0, largest / jnp.maximum(optax.tree.norm(updates), 1e-12))
        return jax.tree.map(lambda g: factor * g, updates)

    return optax.stateless(update)


def in_one_vector(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """`inner` on all parameters as one vector: a few operations, instead of as many for each of their arrays."""

    def init(params: PyTree) -> PyTree:
        return inner.init(ravel_pytree(params)[0])

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        flat, as_tree = ravel_pytree(updates)
        steps, state = inner.update(flat, state)
        return as_tree(cast(Array, steps)), state

    return optax.GradientTransformation(init, update)
