"""RL losses, one function per equation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from r2a.networks.squash import squash, unsquash
from r2a.types import Action, is_continuous


def value_of(q: Float[Array, "*b A"], action: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Q(s, a) of given actions."""
    # A masked sum instead of indexing: the gradient of an index is a scatter, which a CPU does one by one.
    return jnp.where(jnp.arange(q.shape[-1]) == action[..., None], q, 0.0).sum(-1)


def double_q_error(
    q: Float[Array, "*b A"],
    action: Int[Array, "*b"],
    reward: Float[Array, "*b"],
    discount: Float[Array, "*b"],
    next_q_online: Float[Array, "*b A"],
    next_q_target: Float[Array, "*b A"],
) -> Float[Array, "*b"]:
    """r + gamma Q_target(s', argmax_a Q_online(s', a)) - Q(s, a); only Q(s, a) carries a gradient."""
    bootstrap = value_of(next_q_target, jnp.argmax(next_q_online, axis=-1))
    return jax.lax.stop_gradient(reward + discount * bootstrap) - value_of(q, action)


def action_error(chosen: Action, action: Action) -> Float[Array, " T"]:
    """How far off a choice is: 0 or 1, or the mean distance of a vector's numbers."""
    if is_continuous(action):
        return jnp.abs(chosen - action).mean(-1)
    return (chosen != action).astype(jnp.float32)


def huber(error: Float[Array, "*b"], delta: float) -> Float[Array, "*b"]:
    """Quadratic up to `delta`, linear beyond."""
    size = jnp.abs(error)
    near = jnp.minimum(size, delta)
    return 0.5 * near**2 + delta * (size - near)


def lambda_returns(
    reward: Float[Array, " T"],
    discount: Float[Array, " T"],
    next_value: Float[Array, " T"],
    lambda_: Float[Array, " T"],
) -> Float[Array, " T"]:
    """G_t = r_t + gamma_t ((1 - lambda_t) v_{t+1} + lambda_t G_{t+1}), from the last value backwards."""

    def step(later: Array, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        r, d, v, m = at
        total = r + d * ((1.0 - m) * v + m * later)
        return total, total

    return jax.lax.scan(step, next_value[-1], (reward, discount, next_value, lambda_), reverse=True)[1]


def squashed_q_lambda_error(
    q: Float[Array, "T A"],
    action: Int[Array, " T"],
    reward: Float[Array, " T"],
    discount: Float[Array, " T"],
    next_q_online: Float[Array, "T A"],
    next_q_target: Float[Array, "T A"],
    goes_on: Bool[Array, " T"],
    lambda_: float,
) -> Float[Array, " T"]:
    """h(G_t) - Q(s_t, a_t) with Q(lambda) returns and double Q-learning, along one sequence (Table 3).

    Q-values live on h's scale. Where a sequence does not go on (`goes_on` is false: its steps end, but not in a
    terminal state), the return is that of one step.
    """
    value = unsquash(value_of(next_q_target, jnp.argmax(next_q_online, axis=-1)))
    returns = lambda_returns(reward, discount, value, jnp.where(goes_on, lambda_, 0.0))
    return jax.lax.stop_gradient(squash(returns)) - value_of(q, action)


def sequence_priority(error: Float[Array, " T"], valid: Bool[Array, " T"], peak: float) -> Float[Array, ""]:
    """R2D2's priority of a sequence: `peak` times the largest absolute TD error plus the rest times their mean."""
    size = jnp.where(valid, jnp.abs(error), 0.0)
    return peak * size.max() + (1.0 - peak) * size.sum() / jnp.maximum(valid.sum(), 1)
