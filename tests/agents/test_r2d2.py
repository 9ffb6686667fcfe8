"""R2D2's loss: stored states, returns over many steps, importance and priorities."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import agent_config, make_agent, make_learning_batch, make_retrieval_batch

from r2a.agents.losses import double_q_value, sequence_priority, squashed_q_lambda_error
from r2a.agents.objectives import LossInput, gradient, losses, squashed_q_lambda, values
from r2a.config import CoreConfig, LearnerConfig

MEMORY = CoreConfig(kind="gru", size=9)
READS = agent_config(MEMORY, ranking="attention", summariser="linear")
R2D2 = LearnerConfig(loss="squashed_q_lambda", discount=0.9, lambda_=0.8, huber_delta=1e6)


@jax.jit
def encode(agent, batch):
    return agent.encode(batch)[0]


@jax.jit
def unroll(agent, state, frames, memory):
    return agent.unroll(state, frames, memory, None)


values = jax.jit(values)


@jax.jit
def error_of(agent, target, sequence, memory, target_memory, key=None):
    key = jax.random.key(0) if key is None else key
    return squashed_q_lambda(LossInput(agent, target, sequence, memory, target_memory, key, R2D2)).error


def one_sequence(**shape):
    """A sequence, two agents, and the retrieval batch as each of them reads it."""
    agent, target = make_agent(READS), make_agent(READS, seed=1)
    sequence = jax.tree.map(lambda column: column[0, 1], make_learning_batch(**shape).sequences)
    encoded = [encode(network, make_retrieval_batch()) for network in (agent, target)]
    return agent, target, sequence, encoded


def test_a_stored_state_continues_where_acting_was():
    """Values along the last steps, from the state that acting had there, are those of the whole."""
    agent, _, sequence, (encoded, _) = one_sequence(steps=6)
    start = agent.initial_state(None)
    whole = unroll(agent, start, sequence.frames, encoded)
    before = unroll(agent, start, sequence.frames.at(slice(3)), encoded)
    rest, _ = values(agent, before.state, sequence.frames.at(slice(3, None)), encoded, None)
    np.testing.assert_allclose(rest.q_values, whole.q_values[3:-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("burn_in", [0, 2])
def test_both_networks_learn_from_the_stored_state_on(burn_in):
    agent, target, sequence, encoded = one_sequence(steps=4, burn_in=burn_in)
    stored = jax.tree.map(lambda leaf: leaf + 1, agent.initial_state(None))
    error = error_of(agent, target, sequence._replace(initial_state=stored), *encoded)
    _, read_key = jax.random.split(jax.random.key(0))
    state, frames = stored, sequence.frames
    if burn_in:
        state = unroll(agent, state, frames.at(slice(burn_in)), encoded[0]).state
    own, next_q = values(agent, state, frames.at(slice(burn_in, None)), encoded[0], read_key)
    later = values(target, stored, frames, encoded[1], None)[1][burn_in:]
    known = (sequence.action, sequence.reward, R2D2.discount * sequence.discount, double_q_value(next_q, later))
    expected = squashed_q_lambda_error(own.q_values, *known, jnp.full(4, R2D2.lambda_))
    np.testing.assert_allclose(error, expected, rtol=1e-4, atol=1e-5)
    fresh = error_of(agent, target, sequence, *encoded)
    assert np.abs(np.asarray(fresh - error)).max() > 1e-3


def test_a_truncated_sequence_bootstraps_from_its_last_frame():
    """What lies after the last valid step does not matter, however large it is."""
    agent, target, sequence, encoded = one_sequence(steps=5)
    valid = jnp.arange(5) < 3
    cut = sequence._replace(valid=valid)
    changed = cut._replace(reward=jnp.where(valid, cut.reward, 100.0))
    one, two, whole = (error_of(agent, target, s, *encoded)[:3] for s in (cut, changed, sequence))
    np.testing.assert_array_equal(one, two)
    assert np.abs(np.asarray(whole - one)).max() > 1e-4


def test_importance_weighs_the_rl_loss_of_each_sequence():
    agent, target, batch = make_agent(READS), make_agent(READS, seed=1), make_learning_batch(steps=3)
    run = jax.jit(partial(losses, config=R2D2))
    count = batch.sequences.action.shape[:2]
    weights = jnp.asarray(np.random.default_rng(0).uniform(0.1, 1.0, count), jnp.float32)
    alone = []
    for place in np.ndindex(count):
        only = jnp.zeros(count).at[place].set(1.0)
        alone.append(float(run(agent, target, batch._replace(importance=only), jax.random.key(0)).losses["rl"]))
    weighed = run(agent, target, batch._replace(importance=weights), jax.random.key(0))
    np.testing.assert_allclose(weighed.losses["rl"], np.dot(alone, np.ravel(weights)), rtol=1e-5)
    plain = run(agent, target, batch, jax.random.key(0))
    np.testing.assert_allclose(plain.losses["rl"], sum(alone), rtol=1e-5)
    for name in ("kl", "action", "value", "reward"):
        assert float(weighed.losses[name]) == float(plain.losses[name])


def test_priorities_are_those_of_the_errors_and_carry_no_gradient():
    agent, target, batch = make_agent(READS), make_agent(READS, seed=1), make_learning_batch(steps=3)
    _, outcome = jax.jit(partial(gradient, config=R2D2))(agent, target, batch, jax.random.key(0))
    assert outcome.priority.shape == batch.sequences.action.shape[:2]
    of_tasks = jax.jit(jax.vmap(lambda a, b: a.encode(b)[0], in_axes=(None, 0)))
    encoded, target_encoded = (of_tasks(network, batch.retrieval) for network in (agent, target))
    keys = jax.random.split(jax.random.key(0), batch.sequences.action.shape[:2])
    task, place = 1, 2
    pick = partial(jax.tree.map, lambda column: column[task])
    sequence = jax.tree.map(lambda column: column[task, place], batch.sequences)
    error = error_of(agent, target, sequence, pick(encoded), pick(target_encoded), keys[task, place])
    expected = sequence_priority(error, sequence.valid, R2D2.max_priority_weight)
    np.testing.assert_allclose(outcome.priority[task, place], expected, rtol=1e-4)
