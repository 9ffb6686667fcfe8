"""Optimisers: Adam, and Muon, whose steps are equally long in every direction of a weight matrix."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from r2a.config import LearnerConfig

MUON_MOMENTUM = 0.95
MUON_RMS = 0.2
"""Root mean square of an orthogonalised step, over the learning rate: that of Adam's steps in practice."""
NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
"""Coefficients of the quintic that pushes all singular values towards one (Jordan et al., "Muon", 2024)."""
NEWTON_SCHULZ_STEPS = 5


def make_optimiser(config: LearnerConfig) -> optax.GradientTransformation:
    """From gradients to steps: clip by their global norm, then Adam or Muon at the scheduled learning rate."""
    rate = learning_rate(config)
    clip, adam = clip_by_norm(config.clip_norm), optax.scale_by_adam(eps=config.adam_epsilon)
    if config.optimiser == "adam":
        return in_one_vector(optax.chain(clip, adam, optax.scale_by_learning_rate(rate)))
    return optax.chain(clip, muon(in_one_vector(adam)), optax.scale_by_learning_rate(rate))


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


class MuonState(NamedTuple):
    """The running mean of each matrix's gradient, and the state of what moves all other parameters."""

    momentum: list[Float[Array, "m n"]]
    rest: PyTree


def muon(rest: optax.GradientTransformation) -> optax.GradientTransformation:
    """Matrices step along the orthogonal matrix nearest to their (Nesterov) momentum, all else as `rest` says.

    A gradient's singular values say how strongly the data excite each direction; Adam follows the strong ones first,
    and what tells two similar tasks apart is weak. Orthogonal steps learn all directions at one speed.
    """

    def init(params: PyTree) -> MuonState:
        matrices, others = _matrices_and_others(params)
        return MuonState([jnp.zeros_like(m) for m in matrices], rest.init(others))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        matrices, others = _matrices_and_others(updates)
        keep = MUON_MOMENTUM
        momentum = [keep * m + (1 - keep) * g for m, g in zip(state.momentum, matrices, strict=True)]
        ahead = [keep * m + (1 - keep) * g for m, g in zip(momentum, matrices, strict=True)]
        turned = [MUON_RMS * max(a.shape) ** 0.5 * orthogonalise(a) for a in ahead]
        steps, rest_state = rest.update(others, state.rest)
        return _together(updates, turned, cast(list[Array], steps)), MuonState(momentum, rest_state)

    return optax.GradientTransformation(init, update)


def orthogonalise(matrix: Float[Array, "m n"]) -> Float[Array, "m n"]:
    """U V^T of the singular value decomposition U S V^T, nearly: singular values end up between 0.7 and 1.2."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalise(matrix.T).T
    a, b, c = NEWTON_SCHULZ

    def step(_: Any, x: Array) -> Array:
        square = x @ x.T
        return a * x + (b * square + c * square @ square) @ x

    # A loop, because a network has dozens of matrices, and written out five times each they compile for a minute.
    x = matrix * jax.lax.rsqrt(jnp.square(matrix).sum() + 1e-24)
    return jax.lax.fori_loop(0, NEWTON_SCHULZ_STEPS, step, x)


def _is_matrix(leaf: Array) -> bool:
    return leaf.ndim == 2


def _matrices_and_others(tree: PyTree) -> tuple[list[Array], list[Array]]:
    leaves = jax.tree.leaves(tree)
    return [leaf for leaf in leaves if _is_matrix(leaf)], [leaf for leaf in leaves if not _is_matrix(leaf)]


def _together(like: PyTree, matrices: list[Array], others: list[Array]) -> PyTree:
    """The tree that `_matrices_and_others` took apart."""
    leaves, structure = jax.tree.flatten(like)
    left, right = iter(matrices), iter(others)
    return jax.tree.unflatten(structure, [next(left if _is_matrix(leaf) else right) for leaf in leaves])
