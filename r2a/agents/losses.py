"""RL losses, one function per equation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from r2a.networks.squash import squash, unsquash
from r2a.types import Action, is_continuous

Along = Float[Array, "*b"]
"""A number for every step."""
Values = Float[Array, "*b A"]
Actions = Int[Array, "*b"]


def value_of(q: Values, action: Actions) -> Along:
    """Q(s, a) of given actions."""
    # A masked sum instead of indexing: the gradient of an index is a scatter, which a CPU does one by one.
    return jnp.where(jnp.arange(q.shape[-1]) == action[..., None], q, 0.0).sum(-1)


def double_q_value(online: Values, target: Values) -> Along:
    """Q_target(s, argmax_a Q_online(s, a)), without a gradient."""
    return jax.lax.stop_gradient(value_of(target, jnp.argmax(online, axis=-1)))


def one_step_error(q: Values, action: Actions, reward: Along, discount: Along, next_value: Along) -> Along:
    """r + gamma V(s') - Q(s, a); only Q(s, a) carries a gradient."""
    return jax.lax.stop_gradient(reward + discount * next_value) - value_of(q, action)


def action_error(chosen: Action, action: Action) -> Float[Array, " T"]:
    """How far off a choice is: 0 or 1, or the mean distance of a vector's numbers."""
    if is_continuous(action):
        return jnp.abs(chosen - action).mean(-1)
    return (chosen != action).astype(jnp.float32)


def huber(error: Along, delta: float) -> Along:
    """Quadratic up to `delta`, linear beyond."""
    size = jnp.abs(error)
    near = jnp.minimum(size, delta)
    return 0.5 * near**2 + delta * (size - near)


def lambda_returns(reward: Along, discount: Along, next_value: Along, lambda_: Along) -> Along:
    """G_t = r_t + gamma_t ((1 - lambda_t) v_{t+1} + lambda_t G_{t+1}), from the last value backwards."""

    def step(later: Array, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        r, d, v, m = at
        total = r + d * ((1.0 - m) * v + m * later)
        return total, total

    return jax.lax.scan(step, next_value[-1], (reward, discount, next_value, lambda_), reverse=True)[1]


def squashed_q_lambda_error(
    q: Values, action: Actions, reward: Along, discount: Along, next_value: Along, lambda_: Along
) -> Along:
    """h(G_t) - Q(s_t, a_t) with Q(lambda) returns, along one sequence (Table 3); values are on h's scale."""
    returns = lambda_returns(reward, discount, unsquash(next_value), lambda_)
    return jax.lax.stop_gradient(squash(returns)) - value_of(q, action)


def sequence_priority(error: Float[Array, " T"], valid: Bool[Array, " T"], peak: float) -> Float[Array, ""]:
    """R2D2's priority of a sequence: `peak` times the largest absolute TD error plus the rest times their mean."""
    size = jnp.where(valid, jnp.abs(error), 0.0)
    return peak * size.max() + (1.0 - peak) * size.sum() / jnp.maximum(valid.sum(), 1)
