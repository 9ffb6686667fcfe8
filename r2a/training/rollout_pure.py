"""The one loop that steps environments inside of compiled programs (from outside: rollout.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from r2a.environments.api import PureEnv
from r2a.types import Action


class PureView(NamedTuple):
    """What a policy is given, [B] rows: what is seen, and what was done and got just before; experts see the state."""

    observation: Shaped[Array, "B ..."]
    previous_action: Action
    previous_reward: Float[Array, " B"]
    is_first: Bool[Array, " B"]
    state: Any
    task: Int[Array, " B"]


PurePolicy = Callable[[Any, PureView, PRNGKeyArray], tuple[Any, Action, Any]]
"""From what it carries, what is given and a key, which it consumes: what it carries on, actions, and more to keep."""


class PureEpisodes(NamedTuple):
    """Whole episodes, time first: one observation more than actions; what else the policy said of every step."""

    observation: Shaped[Array, "T+1 B ..."]
    action: Shaped[Array, "T B"]
    reward: Float[Array, "T B"]
    extras: Any


def rollout_pure(
    env: PureEnv[Any],
    policy: PurePolicy,
    carry: Any,
    tasks: Int[Array, " B"],
    reset_keys: Key[Array, " B"],
    key: PRNGKeyArray,
) -> PureEpisodes:
    """One episode in each of B rows; consumes both kinds of keys."""
    states = jax.vmap(env.reset)(reset_keys)
    count = tasks.shape[0]

    def step(carried: Any, step_key: PRNGKeyArray) -> tuple[Any, Any]:
        states, carry, action, reward, is_first = carried
        observation = jax.vmap(env.observe)(states)
        view = PureView(observation, action, reward, is_first, states, tasks)
        carry, action, extras = policy(carry, view, step_key)
        states, reward = jax.vmap(env.step)(states, action, tasks)
        following = (states, carry, action.astype(jnp.int32), reward, jnp.zeros(count, bool))
        return following, (observation, action, reward, extras)

    nothing = jnp.full(count, -1), jnp.zeros(count), jnp.ones(count, bool)
    (last, *_), (observation, action, reward, extras) = jax.lax.scan(
        step, (states, carry, *nothing), jax.random.split(key, env.spec.max_steps)
    )
    observation = jnp.concatenate([observation, jax.vmap(env.observe)(last)[None]])
    return PureEpisodes(observation, action, reward, extras)
