"""From what the replay delivers, numpy arrays, to what agents learn from and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from r2a.agents.agent import Agent
from r2a.agents.objective import LearningBatch
from r2a.data.replay import Sampled
from r2a.types import AgentState, Frames, RetrievalBatch, Sequence, Trajectory


class StoredStates(NamedTuple):
    """How an agent's state becomes a vector for the replay, and is had back from it."""

    size: int
    unravel: Callable[[Float[Array, " size"]], AgentState]

    @classmethod
    def of(cls, agent: Agent) -> StoredStates:
        flat, unravel = ravel_pytree(agent.start(None))
        return cls(flat.size, unravel)


def stored_vector(state: AgentState) -> Float[Array, " size"]:
    """An agent's state as the replay keeps it."""
    return ravel_pytree(state)[0]


def sequences_of(sampled: Sampled, burn_in: int, states: StoredStates) -> Sequence:
    """The sequences [n] that were drawn, to learn from."""
    frames = _frames_of(sampled)
    return Sequence(
        frames,
        action=jnp.asarray(sampled.action[:, burn_in:]),
        reward=jnp.asarray(sampled.reward[:, burn_in:]),
        discount=jnp.asarray(sampled.discount[:, burn_in:]),
        valid=jnp.asarray(sampled.valid[:, burn_in:]),
        start=jax.vmap(states.unravel)(jnp.asarray(sampled.state)),
    )


def trajectories_of(sampled: Sampled, states: StoredStates) -> RetrievalBatch:
    """The sequences [N] that were drawn, burn-in and all, to retrieve from.

    A piece's return is the sum of its own rewards.
    """
    count = len(sampled.reward)
    trajectories = Trajectory(
        observation=jnp.asarray(sampled.observation[:, :-1]),
        told=jnp.zeros((count, 0), jnp.uint8),
        action=jnp.asarray(sampled.action),
        reward=jnp.asarray(sampled.reward),
        discount=jnp.asarray(sampled.discount),
        valid=jnp.asarray(sampled.valid),
        is_first=jnp.asarray(sampled.is_first[:, :-1]),
        task_id=jnp.zeros(count, jnp.int32),
        trajectory_id=jnp.asarray(sampled.drawn.ids.indices, jnp.int32),
        memory=jax.vmap(states.unravel)(jnp.asarray(sampled.state)).core,
    )
    returns = jnp.where(trajectories.valid, trajectories.reward, 0.0).sum(1)
    return RetrievalBatch(trajectories, returns)


def learning_batch(learnt: Sampled, read: Sampled | None, burn_in: int, states: StoredStates) -> LearningBatch:
    """What a learner step sees: one task, its sequences, and what is retrieved for them."""

    def one_task(tree):
        return jax.tree.map(lambda leaf: leaf[None], tree)

    return LearningBatch(
        one_task(sequences_of(learnt, burn_in, states)),
        None if read is None else one_task(trajectories_of(read, states)),
        importance=jnp.asarray(learnt.drawn.weight)[None],
    )


def _frames_of(sampled: Sampled) -> Frames:
    first = sampled.is_first

    def shifted(before: Array, during: Array) -> Array:
        return jnp.concatenate([before[:, None], during], axis=1)

    action = shifted(jnp.asarray(sampled.previous_action), jnp.asarray(sampled.action))
    reward = shifted(jnp.asarray(sampled.previous_reward), jnp.asarray(sampled.reward))
    return Frames(
        observation=jnp.asarray(sampled.observation),
        told=jnp.zeros((len(first), 0), jnp.uint8),
        previous_action=jnp.where(first, -1, action),
        previous_reward=jnp.where(first, 0.0, reward),
        is_first=jnp.asarray(first),
    )
