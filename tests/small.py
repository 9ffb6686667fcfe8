"""Agents and batches as small as can be; no two sizes are equal, so that axes cannot be mixed up unnoticed.

Parameters come from numpy: compiling a random generator for every shape would take longer than most tests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch, gradient
from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    DataConfig,
    EncoderConfig,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
)
from r2a.data.retrieval_batch import ResidentData, plan_learning_batch, read_learning_batch
from r2a.types import AgentOutput, Frames, LearnerState, RetrievalBatch, Sequence, Trajectory

TRAJECTORIES, LENGTH, OBSERVATION, ACTIONS = 5, 4, 2, 3
TASKS, STATES = 2, 3
"""Tasks of a learner step, and sequences of each."""


def draw_learning_batch(
    data: ResidentData, config: DataConfig, retrieval: RetrievalConfig, key
) -> tuple[Sequence, RetrievalBatch]:
    """One learner step's batch: planned, and read at once."""
    return read_learning_batch(data, config, retrieval, plan_learning_batch(data, config, retrieval, key))


def agent_config(core: CoreConfig = CoreConfig(), **retrieval) -> AgentConfig:
    """A small agent; keywords change its retrieval."""
    settings = {
        "slots": 3,
        "slot_size": 8,
        "key_size": 5,
        "trajectories": TRAJECTORIES,
        "k_traj": 3,
        "k_states": 4,
        "summary_size": 8,
        "auxiliary": AuxiliaryConfig(bins=7, low=-2.0, high=2.0, discount=0.9),
    }
    return AgentConfig(
        encoder=EncoderConfig(hidden=(7, 6)),
        core=core,
        retrieval=RetrievalConfig(**{**settings, **retrieval}),
        head=HeadConfig(attention_heads=2),
    )


def make_agent(config: AgentConfig, seed: int = 0, scale: float = 0.5) -> Agent:
    """An agent whose every parameter, biases included, is random."""
    generator = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(build_agent, config, OBSERVATION, ACTIONS, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(scale * generator.normal(size=leaf.shape), leaf.dtype), shapes)


def make_retrieval_batch(seed: int = 0, *, lengths: tuple[int, ...] = (4, 2, 3, 4, 1)) -> RetrievalBatch:
    """Trajectories of different lengths; what follows a trajectory's end is as random as the rest of it."""
    generator = np.random.default_rng(seed)
    count = len(lengths)
    shape = (count, LENGTH)
    step = np.arange(LENGTH)
    valid = step < np.array(lengths)[:, None]
    reward = generator.normal(size=shape).astype(np.float32)
    trajectories = Trajectory(
        observation=jnp.asarray(generator.normal(size=(*shape, OBSERVATION)), jnp.float32),
        instruction=jnp.zeros((count, 0), jnp.uint8),
        action=jnp.asarray(generator.integers(0, ACTIONS, shape), jnp.int32),
        reward=jnp.asarray(reward),
        discount=jnp.asarray(generator.random(shape) < 0.8, jnp.float32),
        valid=jnp.asarray(valid),
        # Every other segment starts within its episode.
        is_first=jnp.asarray((step == 0) & (np.arange(count) % 2 == 0)[:, None]),
        task_id=jnp.zeros(count, jnp.int32),
        trajectory_id=jnp.asarray(100 + generator.permutation(count), jnp.int32),
    )
    return RetrievalBatch(trajectories, jnp.asarray((reward * valid).sum(1)))


def make_sequences(seed: int = 0, count: int = STATES, steps: int = 1, burn_in: int = 0) -> Sequence:
    """Unrelated sequences of one task; the last one ends its episode."""
    generator = np.random.default_rng(1000 + seed)
    frames = burn_in + steps + 1
    shape = (count, steps)
    ends = (np.arange(count) == count - 1)[:, None] & (np.arange(steps) == steps - 1)
    return Sequence(
        Frames(
            observation=jnp.asarray(generator.normal(size=(count, frames, OBSERVATION)), jnp.float32),
            instruction=jnp.zeros((count, 0), jnp.uint8),
            previous_action=jnp.asarray(generator.integers(-1, ACTIONS, (count, frames)), jnp.int32),
            previous_reward=jnp.asarray(generator.normal(size=(count, frames)), jnp.float32),
            # Every other sequence begins with its episode.
            is_first=jnp.asarray((np.arange(frames) == burn_in) & (np.arange(count) % 2 == 0)[:, None]),
        ),
        action=jnp.asarray(generator.integers(0, ACTIONS, shape), jnp.int32),
        reward=jnp.asarray(generator.normal(size=shape), jnp.float32),
        discount=jnp.asarray(~ends, jnp.float32),
        valid=jnp.ones(shape, bool),
    )


def make_learning_batch(seed: int = 0, **sequences) -> LearningBatch:
    """What one learner step sees of its tasks; keywords change the sequences."""
    parts = [
        LearningBatch(make_sequences(10 * seed + task, **sequences), make_retrieval_batch(10 * seed + task))
        for task in range(TASKS)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def values_of_states(agent: Agent, observations, encoded, key=None) -> AgentOutput:
    """The outputs of an agent without memory for single states [b]."""
    count = observations.shape[0]
    frames = Frames(observations, jnp.zeros(0, jnp.uint8), jnp.full(count, -1), jnp.zeros(count), jnp.ones(count, bool))
    return agent.unroll(agent.initial_state(None), frames, encoded, key)


def run_updates(agent: Agent, batches: list[LearningBatch]) -> tuple[list[LearnerState], list[dict[str, float]]]:
    """The states before and after each of some updates, and their metrics."""
    config = LearnerConfig(learning_rate=1e-2, target_period=2)
    step = jax.jit(partial(update, config=config))
    states, metrics = [start_learning(agent, config, jax.random.key(0))], []
    for i, batch in enumerate(batches):
        state, values, _ = step(states[-1], batch, jax.random.key(i))
        states.append(state)
        metrics.append({name: float(value) for name, value in values.items()})
    return states, metrics


@jax.jit
def _gradient(agent: Agent, target: Agent, batch: LearningBatch, weights: dict[str, float]):
    config: Any = replace(LearnerConfig(), weights=SimpleNamespace(**weights))
    return gradient(agent, target, batch, jax.random.key(0), config)


def gradient_sizes(
    agent: Agent, target: Agent, batch: LearningBatch, weights: dict[str, float], *, with_rl: bool
) -> dict[str, float]:
    """The largest entry of every parameter's gradient, by the parameter's name; losses without a weight have none.

    Weights are arguments of the compiled program, so that one serves all tests of an agent.
    """
    if not with_rl:
        # Values and rewards that are zero everywhere leave no TD error, and so no gradient of the RL loss.
        agent, target = (
            eqx.tree_at(lambda a: a.head.mlp, a, jax.tree.map(jnp.zeros_like, a.head.mlp)) for a in (agent, target)
        )
        batch = batch._replace(sequences=batch.sequences._replace(reward=jnp.zeros_like(batch.sequences.reward)))
    grads, output = _gradient(agent, target, batch, dict.fromkeys(vars(LossWeights()), 0.0) | weights)
    assert with_rl or float(output.losses["rl"]) == 0.0
    return {name: np.abs(value).max() for name, value in named_arrays(grads).items()}


def named_arrays(module) -> dict[str, np.ndarray]:
    """The parameters of a module as numpy arrays, by the path of their names."""
    leaves = jax.tree_util.tree_flatten_with_path(module)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf, np.float64) for path, leaf in leaves
    }
