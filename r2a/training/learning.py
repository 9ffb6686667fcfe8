"""The learner of an online run, and what it and the actors draw from the replay."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Float32, Key

from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import LearnerConfig, RunConfig
from r2a.data.replay import Sampled, SequenceReplay
from r2a.environments.api import EnvSpec
from r2a.environments.registry import load_features
from r2a.types import AgentState, EncodedBatch, Frames, LearnerState, RetrievalBatch, Sequence, Trajectory

LEARN, READ = range(2)
"""What draws from the replay are for: each has random numbers of its own."""


def run_keys(seed: int) -> Key[Array, "3"]:
    """Keys for the first parameters, for learning, and for acting."""
    return jax.random.split(jax.random.key(seed), 3)


def initial_state(config: RunConfig, spec: EnvSpec) -> LearnerState:
    """The learner state before the first step, a function of the run's seed."""
    load_features(config.environment)
    agent_key, run_key, _ = run_keys(config.seed)
    stack = (config.replay.stack,) if config.replay.stack > 1 else ()  # at a step an agent sees one frame, or several
    agent = build_agent(config.agent, (*stack, *spec.observation.shape), spec.action_size, agent_key)
    return start_learning(agent, config.learner, run_key)


@partial(jax.jit, static_argnames="config", donate_argnames="state")
def learn(
    state: LearnerState, batch: LearningBatch, config: LearnerConfig
) -> tuple[LearnerState, dict[str, Float[Array, ""]], Float[Array, " b"]]:
    """One learner step; its randomness is a function of the run's key and the step's number."""
    state, metrics, priority = update(state, batch, jax.random.fold_in(state.key, state.step), config)
    return state, metrics, priority[0]


@jax.jit
def encode(agent: Agent, batch: RetrievalBatch) -> EncodedBatch | None:
    """A retrieval batch as actors hold it."""
    return agent.encode(batch)[0]


def draw(replay: SequenceReplay, config: RunConfig, number: int) -> tuple[Sampled, Sampled | None]:
    """What the learner's step of that number learns from; and others to retrieve from, if anything is read."""
    generator = _generator(config, LEARN, number)
    if not config.agent.retrieval.needs_batch:
        return replay.sample(config.from_replay.batch_size, generator), None
    first, second = replay.draw_apart(config.from_replay.batch_size, config.agent.retrieval.trajectories, generator)
    return replay.gather(first), replay.gather(second)


def draw_to_read(replay: SequenceReplay, config: RunConfig, number: int) -> Sampled | None:
    """What actors read in the turn of that number; nothing before there is enough, or where nothing is read."""
    if not config.agent.retrieval.reads:
        return None
    count = config.agent.retrieval.trajectories
    if not replay.ready:
        return replay.blank(count)
    _, drawn = replay.draw_apart(1, count, _generator(config, READ, number))
    return replay.gather(drawn)


def _generator(config: RunConfig, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(purpose, number)))


@dataclass(eq=False)
class NotFiniteError(Exception):
    """A learner step had a loss or another metric that is no number; it may travel from the learner's process."""

    name: str
    value: float
    batch: LearningBatch
    update: int

    def __str__(self) -> str:
        return f"{self.name} became {self.value}"


class Learner:
    """The learner's state, step by step."""

    def __init__(self, config: RunConfig, spec: EnvSpec):
        self.config = config
        self.state = initial_state(config, spec)
        self.stored_states = StoredStates.of(self.agent)

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        return self.state.params

    def update(self, learnt: Sampled, read: Sampled | None) -> tuple[dict[str, float], Float32[np.ndarray, " b"]]:
        """One step: its metrics, and new priorities of what was learnt from."""
        batch = learning_batch(learnt, read, self.config.replay.burn_in, self.stored_states)
        self.state, metrics, priority = learn(self.state, batch, self.config.learner)
        values = {name: float(value) for name, value in metrics.items()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise NotFiniteError(name, value, batch, int(self.state.step) - 1)
        return values, np.asarray(priority)

    def encode(self, to_read: Sampled | None) -> EncodedBatch | None:
        """What actors hold of what they read."""
        return None if to_read is None else encode(self.agent, trajectories_of(to_read, self.stored_states))


class StoredStates(NamedTuple):
    """How an agent's state becomes a vector for the replay, and is had back from it."""

    size: int
    unravel: Callable[[Float[Array, " size"]], AgentState]

    @classmethod
    def of(cls, agent: Agent) -> StoredStates:
        flat, unravel = ravel_pytree(agent.initial_state(None))
        return cls(flat.size, unravel)


def sequences_of(sampled: Sampled, burn_in: int, states: StoredStates) -> Sequence:
    """The sequences [n] that were drawn, to learn from."""

    def shifted(before: np.ndarray, during: np.ndarray) -> Array:
        return jnp.concatenate([jnp.asarray(before)[:, None], jnp.asarray(during)], axis=1)

    first = sampled.is_first
    action = shifted(sampled.previous_action, sampled.action)
    reward = shifted(sampled.previous_reward, sampled.reward)
    frames = Frames(
        observation=jnp.asarray(sampled.observation),
        instruction=jnp.zeros((len(first), 0), jnp.uint8),
        previous_action=jnp.where(first, -1, action),
        previous_reward=jnp.where(first, 0.0, reward),
        is_first=jnp.asarray(first),
    )
    return Sequence(
        frames,
        action=jnp.asarray(sampled.action[:, burn_in:]),
        reward=jnp.asarray(sampled.reward[:, burn_in:]),
        discount=jnp.asarray(sampled.discount[:, burn_in:]),
        valid=jnp.asarray(sampled.valid[:, burn_in:]),
        initial_state=jax.vmap(states.unravel)(jnp.asarray(sampled.state)),
    )


def trajectories_of(sampled: Sampled, states: StoredStates) -> RetrievalBatch:
    """The sequences [N] that were drawn, burn-in and all, to retrieve from; their returns are of their own rewards."""
    count = len(sampled.reward)
    trajectories = Trajectory(
        observation=jnp.asarray(sampled.observation[:, :-1]),
        instruction=jnp.zeros((count, 0), jnp.uint8),
        action=jnp.asarray(sampled.action),
        reward=jnp.asarray(sampled.reward),
        discount=jnp.asarray(sampled.discount),
        valid=jnp.asarray(sampled.valid),
        is_first=jnp.asarray(sampled.is_first[:, :-1]),
        task_id=jnp.zeros(count, jnp.int32),
        trajectory_id=jnp.asarray(sampled.drawn.ids.indices, jnp.int32),
        core=jax.vmap(states.unravel)(jnp.asarray(sampled.state)).core,
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
