"""A scripted expert for all thirty tasks, its noisy episodes, and the returns of constant policies."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int8, Shaped

from r2a.environments.gridroboman.dynamics import (
    ACTION_NAMES,
    EPISODE_LENGTH,
    SKIP,
    State,
    advance,
    observe,
    reset,
)
from r2a.environments.gridroboman.plan import Goal, goal_of, steps_to_solve
from r2a.environments.gridroboman.tasks import reward, solved_tasks
from r2a.environments.interface import Integer, PRNGKey

NUM_ACTIONS = len(ACTION_NAMES)


class Episodes(NamedTuple):
    """Whole episodes: one observation more than actions, so that every step has a next observation."""

    observation: Int8[Array, "E 51 11"]
    action: Int8[Array, "E 50"]
    reward: Float32[Array, "E 50"]


def expert_action(state: State, task: Integer) -> Int8[Array, ""]:
    """The action after which the fewest steps are left to solve `task`; skip once it is solved."""
    return _descend(state, goal_of(task))


def _descend(state: State, goal: Goal) -> Int8[Array, ""]:
    following = jax.vmap(advance, in_axes=(None, 0))(state, jnp.arange(NUM_ACTIONS, dtype=jnp.int8))
    steps = jax.vmap(steps_to_solve, in_axes=(0, None))(following, goal)
    # Skip wins ties: then nothing is gained by acting.
    return jnp.where(steps.min() < steps[SKIP], jnp.argmin(steps), SKIP).astype(jnp.int8)


@jax.jit
def rollout(key: PRNGKey, tasks: Int[Array, " E"], epsilon: Shaped[Array, " E"]) -> Episodes:
    """One episode per entry of `tasks`, each step at random with that episode's `epsilon`; consumes `key`."""
    reset_key, noise_key = jax.random.split(key)
    num_episodes = tasks.shape[0]
    states = jax.vmap(reset)(jax.random.split(reset_key, num_episodes))
    goals = jax.vmap(goal_of)(tasks)

    def step(states: State, step_key: PRNGKey):
        bits = jax.random.bits(step_key, (num_episodes,), jnp.uint32)
        # The upper half of the bits decides whether to act at random, the lower half how.
        explore = (bits >> 16).astype(jnp.float32) < epsilon * 2.0**16
        random_action = (((bits & 0xFFFF) * NUM_ACTIONS) >> 16).astype(jnp.int8)
        action = jnp.where(explore, random_action, jax.vmap(_descend)(states, goals))
        following = jax.vmap(advance)(states, action)
        return following, (jax.vmap(observe)(states), action, jax.vmap(reward)(following, tasks))

    last, (observations, actions, rewards) = jax.lax.scan(step, states, jax.random.split(noise_key, EPISODE_LENGTH))
    observations = jnp.concatenate([observations, jax.vmap(observe)(last)[None]])
    return Episodes(*(jnp.swapaxes(column, 0, 1) for column in (observations, actions, rewards)))


def ceilings_and_floors(
    num_tasks: int, key: PRNGKey, episodes: int = 500
) -> tuple[Float32[np.ndarray, " tasks"], Float32[np.ndarray, " tasks"]]:
    """Mean return of the expert on each of the first tasks, and of the constant action that is best for all of them.

    Consumes `key`.
    """
    expert_key, constant_key = jax.random.split(key)
    tasks = jnp.repeat(jnp.arange(num_tasks), episodes)
    expert = rollout(expert_key, tasks, jnp.zeros(len(tasks))).reward.sum(1)
    constant = np.asarray(constant_policy_returns(constant_key))[:num_tasks]
    return np.asarray(expert).reshape(num_tasks, episodes).mean(1), constant[:, constant.mean(0).argmax()]


def constant_policy_returns(key: PRNGKey, num_starts: int = 4096) -> Float32[Array, "30 7"]:
    """Mean return of every constant action on every task, over random starts; consumes `key`.

    The floor for a set of tasks is the best single column of its rows' mean.
    """
    return _constant_policy_returns(jax.random.split(key, num_starts))


@jax.jit
def _constant_policy_returns(keys: Shaped[Array, " S ..."]) -> Float32[Array, "30 7"]:
    def one_action(action: Int8[Array, ""]) -> Float32[Array, " 30"]:
        def step(states: State, _):
            states = jax.vmap(advance, in_axes=(0, None))(states, action)
            return states, jax.vmap(solved_tasks)(states).mean(0, dtype=jnp.float32)

        _, solved = jax.lax.scan(step, jax.vmap(reset)(keys), None, EPISODE_LENGTH)
        return solved.sum(0)

    return jax.lax.map(one_action, jnp.arange(NUM_ACTIONS, dtype=jnp.int8)).T
