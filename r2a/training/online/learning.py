"""The learner of an online run, and what it and the actors draw from the replay."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objective import LearningBatch
from r2a.config import LearnerConfig, OnlineConfig
from r2a.data.replay import Sampled, SequenceReplay
from r2a.environments.lanes import LanesSpec
from r2a.training.online.batches import StoredStates, learning_batch, trajectories_of
from r2a.types import EncodedBatch, LearnerState, RetrievalBatch

LEARN, READ = range(2)
"""What draws from the replay are for: each has random numbers of its own."""


def observation_shape(config: OnlineConfig, spec: LanesSpec) -> tuple[int, ...]:
    """What an agent sees at a step: one frame, or several."""
    return (config.replay.stack, *spec.observation_shape) if config.replay.stack > 1 else spec.observation_shape


def run_keys(seed: int) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    """Keys for the first parameters, for learning, and for acting."""
    agent_key, run_key, act_key = jax.random.split(jax.random.key(seed), 3)
    return agent_key, run_key, act_key


def initial_state(config: OnlineConfig, spec: LanesSpec) -> LearnerState:
    """The learner state before the first step, a function of the run's seed."""
    agent_key, run_key, _ = run_keys(config.seed)
    agent = build_agent(config.agent, observation_shape(config, spec), spec.num_actions, agent_key)
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
    return agent.prepare(batch)[0]


class Batch(NamedTuple):
    """One draw from the replay: sequences to learn from, and others to retrieve from, if anything is read."""

    learnt: Sampled
    read: Sampled | None


def draw(replay: SequenceReplay, config: OnlineConfig, number: int) -> Batch:
    """What the learner's step of that number sees."""
    generator = _generator(config, LEARN, number)
    if not config.agent.retrieval.needs_batch:
        return Batch(replay.sample(config.batch_size, generator), None)
    first, second = replay.draw_apart(config.batch_size, config.agent.retrieval.trajectories, generator)
    return Batch(replay.gather(first), replay.gather(second))


def draw_to_read(replay: SequenceReplay, config: OnlineConfig, number: int) -> Sampled | None:
    """What actors read in the turn of that number; nothing before there is enough, or where nothing is read."""
    if not config.agent.retrieval.reads:
        return None
    count = config.agent.retrieval.trajectories
    if not replay.ready:
        return replay.blank(count)
    _, drawn = replay.draw_apart(1, count, _generator(config, READ, number))
    return replay.gather(drawn)


def _generator(config: OnlineConfig, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(purpose, number)))


class NotFiniteError(Exception):
    """A learner step had a loss or another figure that is no number."""

    def __init__(self, name: str, value: float, batch: LearningBatch, update: int):
        super().__init__(f"{name} became {value}")
        self.name, self.value, self.batch, self.update = name, value, batch, update

    def __reduce__(self) -> tuple[Any, ...]:
        """It may have to travel from the learner's process."""
        return type(self), (self.name, self.value, self.batch, self.update)


class Learner:
    """The learner's state, step by step."""

    def __init__(self, config: OnlineConfig, spec: LanesSpec):
        self.config = config
        self.state = initial_state(config, spec)
        self.stored_states = StoredStates.of(self.agent)

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        return self.state.params

    def update(self, drawn: Batch) -> tuple[dict[str, float], Float32[np.ndarray, " b"]]:
        """One step: its figures, and new priorities of what was learnt from."""
        batch = learning_batch(drawn.learnt, drawn.read, self.config.replay.burn_in, self.stored_states)
        self.state, metrics, priority = learn(self.state, batch, self.config.learner)
        figures = {name: float(value) for name, value in metrics.items()}
        for name, value in figures.items():
            if not math.isfinite(value):
                raise NotFiniteError(name, value, batch, int(self.state.step) - 1)
        return figures, np.asarray(priority)

    def encode(self, to_read: Sampled | None) -> EncodedBatch | None:
        """What actors hold of what they read."""
        return None if to_read is None else encode(self.agent, trajectories_of(to_read, self.stored_states))
