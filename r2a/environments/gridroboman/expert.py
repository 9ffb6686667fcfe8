"""An optimal policy for all thirty tasks, and what the best constant action earns on them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from r2a.environments.gridroboman.dynamics import ACTION_NAMES, SKIP, Integer, PRNGKey, State, advance
from r2a.environments.gridroboman.plan import goal_of, steps_to_solve

NUM_ACTIONS = len(ACTION_NAMES)


def expert_action(state: State, task: Integer) -> Int8[Array, ""]:
    """The action after which the fewest steps are left to solve `task`; skip once it is solved."""
    following = jax.vmap(advance, in_axes=(None, 0))(state, jnp.arange(NUM_ACTIONS, dtype=jnp.int8))
    steps = jax.vmap(steps_to_solve, in_axes=(0, None))(following, goal_of(task))
    # Skip wins ties: then nothing is gained by acting.
    return jnp.where(steps.min() < steps[SKIP], jnp.argmin(steps), SKIP).astype(jnp.int8)


def act(noise: Float[Array, " B"], view: Any, key: PRNGKey) -> tuple[Float[Array, " B"], Int8[Array, " B"], tuple[()]]:
    """The expert as a policy: what it carries is the share of random actions in each row; consumes `key`."""
    bits = jax.random.bits(key, noise.shape, jnp.uint32)
    # The upper half of the bits decides whether to act at random, the lower half how.
    explore = (bits >> 16).astype(jnp.float32) < noise * 2.0**16
    random_action = (((bits & 0xFFFF) * NUM_ACTIONS) >> 16).astype(jnp.int8)
    advice = jax.vmap(expert_action)(view.state, view.task)
    return noise, jnp.where(explore, random_action, advice), ()
