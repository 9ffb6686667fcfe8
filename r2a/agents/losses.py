"""RL losses, one function per equation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def double_q_error(
    q: Float[Array, "*b A"],
    action: Int[Array, "*b"],
    reward: Float[Array, "*b"],
    discount: Float[Array, "*b"],
    next_q_online: Float[Array, "*b A"],
    next_q_target: Float[Array, "*b A"],
) -> Float[Array, "*b"]:
    """r + gamma Q_target(s', argmax_a Q_online(s', a)) - Q(s, a); only Q(s, a) carries a gradient."""
    # Masked sums instead of indexing: the gradient of an index is a scatter, which a CPU does one by one.
    actions = jnp.arange(q.shape[-1])
    best = jnp.argmax(next_q_online, axis=-1)
    bootstrap = jnp.where(actions == best[..., None], next_q_target, 0.0).sum(-1)
    target = jax.lax.stop_gradient(reward + discount * bootstrap)
    return target - jnp.where(actions == action[..., None], q, 0.0).sum(-1)


def huber(error: Float[Array, "*b"], delta: float) -> Float[Array, "*b"]:
    """Quadratic up to `delta`, linear beyond."""
    size = jnp.abs(error)
    near = jnp.minimum(size, delta)
    return 0.5 * near**2 + delta * (size - near)
