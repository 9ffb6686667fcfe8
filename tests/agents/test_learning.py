"""A problem that only retrieval can solve: observations say nothing, the trajectories show what is rewarded."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.agents.agent import only_seen
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    EncoderConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
)
from r2a.types import Frames, RetrievalBatch, Sequence, Trajectory

ACTIONS, TRAJECTORIES, LENGTH, TASKS, STATES = 3, 4, 2, 8, 6
UPDATES, QUESTIONS = 300, 300
CHANCE = 1 / ACTIONS
RETRIEVAL = RetrievalConfig(
    slots=1,
    slot_size=16,
    key_size=8,
    trajectories=TRAJECTORIES,
    k_traj=2,
    k_states=2,
    summariser="linear",
    summary_size=16,
    kl_reduction="mean",
    auxiliary=AuxiliaryConfig(bins=5, low=-1.0, high=2.0, discount=0.9),
)
LEARNER = LearnerConfig(learning_rate=3e-3, target_period=50, weights=LossWeights(kl=1e-4))


def show(answer, key):
    """Trajectories of random actions, the answer rewarded; the first one shows it at every step."""
    action = jax.random.randint(key, (TRAJECTORIES, LENGTH), 0, ACTIONS).at[0].set(answer)
    reward = (action == answer).astype(jnp.float32)
    shape = (TRAJECTORIES, LENGTH)
    trajectories = Trajectory(
        observation=jnp.ones((*shape, 1)),
        instruction=jnp.zeros((TRAJECTORIES, 0), jnp.uint8),
        action=action,
        reward=reward,
        discount=jnp.ones(shape),
        valid=jnp.ones(shape, bool),
        is_first=jnp.broadcast_to(jnp.arange(LENGTH) == 0, shape),
        task_id=jnp.full(TRAJECTORIES, answer),
        trajectory_id=jnp.arange(TRAJECTORIES),
    )
    return RetrievalBatch(trajectories, reward.sum(1))


def draw(key):
    """Tasks with an answer each: one-step episodes, and a retrieval batch that shows the answer."""
    answer_key, action_key, show_key = jax.random.split(key, 3)
    answers = jax.random.randint(answer_key, (TASKS,), 0, ACTIONS)
    action = jax.random.randint(action_key, (TASKS, STATES, 1), 0, ACTIONS)
    reward = (action == answers[:, None, None]).astype(jnp.float32)
    two = (TASKS, STATES, 2)
    nothing = Frames(
        jnp.ones((*two, 1)), jnp.zeros((TASKS, STATES, 0)), jnp.full(two, -1), jnp.zeros(two), jnp.ones(two, bool)
    )
    sequences = Sequence(nothing, action, reward, jnp.zeros_like(reward), jnp.ones(reward.shape, bool))
    return LearningBatch(sequences, jax.vmap(show)(answers, jax.random.split(show_key, TASKS)))


@partial(jax.jit, static_argnames="config")
def learn(config, key):
    build_key, learn_key = jax.random.split(key)
    state = start_learning(build_agent(config, 1, ACTIONS, build_key), LEARNER, key)

    def step(state, step_key):
        draw_key, update_key = jax.random.split(step_key)
        return update(state, draw(draw_key), update_key, LEARNER)[0], None

    return jax.lax.scan(step, state, jax.random.split(learn_key, UPDATES))[0].params


@jax.jit
def greedy_answers(agent, shown, key):
    """What the agent does when it reads from batches that show these answers."""

    def one(answer, show_key):
        encoded, _ = agent.encode(show(answer, show_key))
        return agent(agent.initial_state(None), only_seen(jnp.ones(1)), encoded, None).q_values.argmax()

    return jax.vmap(one)(shown, jax.random.split(key, len(shown)))


@pytest.fixture(scope="module")
def questions():
    return jnp.asarray(np.random.default_rng(0).integers(0, ACTIONS, QUESTIONS))


def learned(variant):
    config = AgentConfig(
        EncoderConfig(hidden=(16,)), retrieval=RetrievalConfig(**{**vars(RETRIEVAL), "variant": variant})
    )
    return learn(config, jax.random.key(0))


def test_retrieval_tells_what_nothing_else_does(questions):
    agent = learned("full")
    right = greedy_answers(agent, questions, jax.random.key(1))
    assert np.mean(right == questions) > 0.95
    shuffled = jnp.asarray(np.random.default_rng(1).permutation(questions))
    assert np.mean(greedy_answers(agent, shuffled, jax.random.key(1)) == questions) < CHANCE + 0.12
    wrong = (questions + 1) % ACTIONS
    assert np.mean(greedy_answers(agent, wrong, jax.random.key(1)) == questions) < 0.05


def test_the_plain_agent_can_only_guess(questions):
    answers = greedy_answers(learned("none"), questions, jax.random.key(1))
    assert len(set(np.asarray(answers).tolist())) == 1
    assert np.mean(answers == questions) < CHANCE + 0.12
