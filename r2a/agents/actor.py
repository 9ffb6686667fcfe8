"""From an agent's output to an action."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


def epsilon_greedy(
    q_values: Float[Array, " A"], epsilon: float | Float[Array, ""], key: PRNGKeyArray
) -> Int[Array, ""]:
    """The best action, or with probability `epsilon` any; consumes `key`."""
    explore_key, action_key = jax.random.split(key)
    random_action = jax.random.randint(action_key, (), 0, q_values.shape[-1])
    explore = jax.random.uniform(explore_key) < epsilon
    return jnp.where(explore, random_action, jnp.argmax(q_values))
