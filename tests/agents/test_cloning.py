"""Behaviour cloning, with and without retrieval, as a loss of the same agent."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.agents.agent import only_seen
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch, gradient, losses
from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    EncoderConfig,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
)
from r2a.types import Frames, RetrievalBatch, Sequence, Trajectory

SIZE, TRAJECTORIES, LENGTH, TASKS, STATES = 2, 4, 3, 8, 6
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
CLONER = LearnerConfig(loss="cloning", learning_rate=3e-3, weights=LossWeights(kl=1e-4))


def agent_config(variant="full", num_components=1, core="none"):
    return AgentConfig(
        encoder=EncoderConfig(hidden=(16,)),
        core=CoreConfig(kind=core, size=16),
        retrieval=RetrievalConfig(**{**vars(RETRIEVAL), "variant": variant}),
        head=HeadConfig(hidden=(16,), attention_heads=2, num_components=num_components),
    )


def shown(answer, key):
    """Trajectories in which one vector is done at every step, nearly; what is seen says nothing about it."""
    shape = (TRAJECTORIES, LENGTH)
    return RetrievalBatch(
        Trajectory(
            observation=jnp.ones((*shape, 1)),
            instruction=jnp.zeros((TRAJECTORIES, 0), jnp.uint8),
            action=jnp.clip(answer + 0.02 * jax.random.normal(key, (*shape, SIZE)), -1, 1),
            reward=jnp.zeros(shape),
            discount=jnp.ones(shape),
            valid=jnp.ones(shape, bool),
            is_first=jnp.broadcast_to(jnp.arange(LENGTH) == 0, shape),
            task_id=jnp.zeros(TRAJECTORIES, jnp.int32),
            trajectory_id=jnp.arange(TRAJECTORIES),
        ),
        jnp.zeros(TRAJECTORIES),
    )


def lesson(answer, steps=1):
    """Sequences that are to be imitated."""
    frames = Frames(
        jnp.ones((STATES, steps + 1, 1)),
        jnp.zeros((STATES, 0), jnp.uint8),
        jnp.zeros((STATES, steps + 1, SIZE)),
        jnp.zeros((STATES, steps + 1)),
        jnp.broadcast_to(jnp.arange(steps + 1) == 0, (STATES, steps + 1)),
    )
    ones = jnp.ones((STATES, steps))
    return Sequence(frames, jnp.broadcast_to(answer, (STATES, steps, SIZE)), 0 * ones, ones, ones > 0)


def batch_of(key, steps=1):
    answer_key, show_key = jax.random.split(key)
    answers = jax.random.uniform(answer_key, (TASKS, SIZE), minval=-0.8, maxval=0.8)
    sequences = jax.vmap(partial(lesson, steps=steps))(answers)
    return LearningBatch(sequences, jax.vmap(shown)(answers, jax.random.split(show_key, TASKS)))


def learnt(config, updates=400):
    state = start_learning(build_agent(config, 1, SIZE, jax.random.key(0)), CLONER, jax.random.key(1))

    def one(state, key):
        draw, learn = jax.random.split(key)
        state, metrics, _ = update(state, batch_of(draw), learn, CLONER)
        return state, metrics["bc/action_error"]

    keys = jax.random.split(jax.random.key(2), updates)
    return jax.jit(lambda s: jax.lax.scan(one, s, keys))(state)


def test_what_to_do_can_be_read():
    """Observations are all alike: only what retrieval shows tells which vector is to be imitated."""
    state, errors = learnt(agent_config())
    _, plain_errors = learnt(agent_config("none"))
    assert plain_errors[-50:].mean() > 0.3  # the mean of all answers: 0.4 away
    assert errors[-50:].mean() < 0.15
    answer = jnp.array([0.6, -0.5])

    @jax.jit
    def act(agent, batch):
        return agent(agent.initial_state(None), only_seen(jnp.ones(1)), agent.encode(batch)[0], None)

    output = act(state.params, shown(answer, jax.random.key(9)))
    np.testing.assert_allclose(state.params.head.mode(output.q_values), answer, atol=0.2)


@pytest.mark.parametrize("core", ["none", "gru"])
@pytest.mark.parametrize("num_components", [1, 3])
def test_the_loss_is_the_mean_negative_log_likelihood_of_the_valid_steps(core, num_components):
    config = agent_config("none", num_components, core)
    agent = build_agent(config, 1, SIZE, jax.random.key(0))
    steps = 1 if core == "none" else 3
    batch = batch_of(jax.random.key(3), steps)
    valid = batch.sequences.valid.at[0, 0, -1].set(steps == 1)
    batch = batch._replace(sequences=batch.sequences._replace(valid=valid), retrieval=None)
    act = jax.jit(lambda agent, state, frame: agent(state, frame, None, None))
    likelihood = jax.jit(lambda head, *given: head.log_likelihood(*given))
    total, count = 0.0, 0
    for m in range(TASKS):
        for b in range(STATES):
            sequence = jax.tree.map(lambda a, m=m, b=b: a[m, b], batch.sequences)
            state = agent.initial_state(None)
            for t in range(steps):
                output = act(agent, state, sequence.frames.at(t))
                state = output.state
                if sequence.valid[t]:
                    total -= float(likelihood(agent.head, output.q_values, sequence.action[t]))
                    count += 1
    named = jax.jit(partial(losses, config=CLONER))(agent, agent, batch, jax.random.key(5)).losses
    np.testing.assert_allclose(named["rl"], total / count, rtol=1e-4)


def test_cloning_moves_the_process_and_needs_no_target():
    agent = build_agent(agent_config(), 1, SIZE, jax.random.key(0))
    batch = batch_of(jax.random.key(1))
    broken = jax.tree.map(lambda a: a * jnp.nan, agent)
    grads, outcome = jax.jit(partial(gradient, config=CLONER))(agent, broken, batch, jax.random.key(2))
    assert all(np.isfinite(value) for value in outcome.losses.values())
    assert all(np.abs(leaf).sum() > 0 for leaf in jax.tree.leaves(grads.retrieval.process.reader))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_the_summaries_are_taught_the_vectors_that_were_done():
    agent = build_agent(agent_config(), 1, SIZE, jax.random.key(0))
    trajectories = shown(jnp.array([0.5, -0.5]), jax.random.key(0)).trajectories
    states = jax.jit(jax.vmap(lambda t: agent.states_along(t)))(trajectories)
    summaries = jax.jit(jax.vmap(lambda t, s: agent.retrieval.summariser(t, s)))(trajectories, states)
    heads = agent.retrieval.auxiliary
    expected = 0.0
    for linear, summary in ((heads.from_past, summaries.past), (heads.from_future, summaries.future)):
        guess = np.asarray(linear(summary))[..., :SIZE]
        expected += 0.5 * np.mean(0.5 * np.square((guess - np.asarray(trajectories.action)) / 0.1).sum(-1))
    np.testing.assert_allclose(heads.losses(trajectories, summaries)["action"], expected, rtol=1e-4)


def test_discrete_actions_can_be_cloned_too():
    config = agent_config("none", num_components=0)
    agent = build_agent(config, 1, 3, jax.random.key(0))
    batch = batch_of(jax.random.key(1))
    action = jnp.ones((TASKS, STATES, 1), jnp.int32)
    frames = batch.sequences.frames._replace(previous_action=jnp.full((TASKS, STATES, 2), -1))
    batch = LearningBatch(batch.sequences._replace(action=action, frames=frames), None)
    state = start_learning(agent, CLONER, jax.random.key(1))
    for number in range(60):
        state, metrics, _ = jax.jit(update, static_argnums=3)(state, batch, jax.random.key(number), CLONER)
    assert metrics["bc/action_error"] == 0
    assert metrics["bc/loss"] < 0.1
