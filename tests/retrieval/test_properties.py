"""What holds for every retrieval batch, whichever way trajectories are ranked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import algorithm1
from oracles.layers import linear, mlp, part, softmax
from small import (
    LENGTH,
    OBSERVATION,
    TRAJECTORIES,
    agent_config,
    make_agent,
    make_retrieval_batch,
    make_sequences,
    named_arrays,
    values_of_states,
)

from r2a.agents.agent import only_seen

EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True)
LENGTHS = st.tuples(*[st.integers(1, LENGTH)] * TRAJECTORIES)
SEEDS = st.integers(0, 2**16)
RANKINGS = ("attention", "return")
CONFIGS = {
    "attention": agent_config(ranking="attention", summariser="linear"),
    "return": agent_config(ranking="return", summariser="linear"),
}
AGENTS = {ranking: make_agent(config) for ranking, config in CONFIGS.items()}


@eqx.filter_jit
def read(agent, batch, observations):
    """Outputs for several states, the auxiliary losses, and the ids of the trajectories that selections point to."""
    encoded, auxiliary = agent.encode(batch)
    return values_of_states(agent, observations, encoded), auxiliary, encoded.trajectory_id


def read_small(ranking, batch):
    outputs, auxiliary, ids = read(AGENTS[ranking], batch, make_sequences().frames.observation[:, 0])
    return jax.tree.map(np.asarray, outputs), auxiliary, np.asarray(ids)


def assert_same_outcome(one, two):
    for name in ("s", "u", "z", "kl"):
        np.testing.assert_allclose(getattr(one[0].retrieved, name), getattr(two[0].retrieved, name), atol=2e-5)
    np.testing.assert_allclose(one[0].q_values, two[0].q_values, atol=2e-5)
    for name, loss in one[1].items():
        np.testing.assert_allclose(loss, two[1][name], rtol=1e-5)
    assert states_read(one) == states_read(two)


def states_read(outcome):
    """The set of states (observation, slot, trajectory id, step) with a weight."""
    outputs, _, ids = outcome
    attended = outputs.retrieved.attended
    there = np.argwhere(attended.weight > 1e-6)
    return {(int(b), int(k), int(ids[attended.trajectory[b, k, s]]), int(attended.step[b, k, s])) for b, k, s in there}


@pytest.mark.parametrize("ranking", RANKINGS)
@EXAMPLES
@given(seed=SEEDS, lengths=LENGTHS, order=st.permutations(range(TRAJECTORIES)))
def test_permuting_the_trajectories_changes_nothing(ranking, seed, lengths, order):
    batch = make_retrieval_batch(seed, lengths=lengths)
    permuted = jax.tree.map(lambda column: column[jnp.array(order)], batch)
    assert_same_outcome(read_small(ranking, batch), read_small(ranking, permuted))


@pytest.mark.parametrize("ranking", RANKINGS)
@EXAMPLES
@given(seed=SEEDS, lengths=LENGTHS)
@example(seed=0, lengths=(1,) * TRAJECTORIES)  # fewer states than are asked for
def test_what_is_selected(ranking, seed, lengths):
    config, batch = CONFIGS[ranking].retrieval, make_retrieval_batch(seed, lengths=lengths)
    outcome = read_small(ranking, batch)
    attended = outcome[0].retrieved.attended
    np.testing.assert_allclose(attended.weight.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(attended.slot_weight.sum(-1), 1.0, atol=1e-5)
    ids = [int(identity) for identity in batch.trajectories.trajectory_id]
    best = {ids[i] for i in np.argsort(-np.asarray(batch.returns))[: config.k_traj]}
    trajectories_of = {}
    for observation, slot, identity, step in states_read(outcome):
        assert step < lengths[ids.index(identity)], "padding was read"
        assert ranking == "attention" or identity in best
        trajectories_of.setdefault((observation, slot), set()).add(identity)
    assert all(len(trajectories) <= config.k_traj for trajectories in trajectories_of.values())
    for places in np.stack([attended.trajectory, attended.step], -1).reshape(-1, config.k_states, 2):
        assert len({tuple(place) for place in places}) == config.k_states, "a state was read twice"


@pytest.mark.parametrize("ranking", RANKINGS)
@EXAMPLES
@given(seed=SEEDS, lengths=LENGTHS)
def test_the_content_of_padding_does_not_matter(ranking, seed, lengths):
    batch = make_retrieval_batch(seed, lengths=lengths)
    other = make_retrieval_batch(seed + 1, lengths=lengths).trajectories
    t = batch.trajectories

    def replace_padding(column, replacement):
        valid = t.valid.reshape(t.valid.shape + (1,) * (column.ndim - 2))
        return jnp.where(valid, column, replacement)

    garbled = t._replace(
        observation=replace_padding(t.observation, 100 * other.observation),
        action=replace_padding(t.action, other.action),
        reward=replace_padding(t.reward, 100 * other.reward),
        discount=replace_padding(t.discount, 1 - t.discount),
        is_first=replace_padding(t.is_first, ~t.is_first),
    )
    assert_same_outcome(read_small(ranking, batch), read_small(ranking, batch._replace(trajectories=garbled)))


def test_choosing_everything_is_plain_attention():
    everything = {"k_traj": TRAJECTORIES, "k_states": TRAJECTORIES * LENGTH}
    config = agent_config(
        variant="agent_query", bottleneck="identity", ranking="attention", summariser="linear", **everything
    )
    agent, batch = make_agent(config), make_retrieval_batch()
    observations = np.random.default_rng(0).normal(size=(3, OBSERVATION)).astype(np.float32)
    outputs, _, _ = read(agent, batch, jnp.asarray(observations))
    p, t = named_arrays(agent), jax.tree.map(np.asarray, batch.trajectories)
    columns = {**t._asdict(), "return": np.asarray(batch.returns), "id": t.trajectory_id}
    states = [
        (trajectory["past"][j], trajectory["future"][j])
        for trajectory in algorithm1.encode(p, config.retrieval, columns)
        for j in range(LENGTH)
        if trajectory["valid"][j]
    ]
    process = part(p, "retrieval.process")
    for observation, z in zip(observations, np.asarray(outputs.retrieved.z), strict=True):
        q = algorithm1.query(process, mlp(part(p, "encoder.mlp"), observation, activate_last=True))
        keys = [linear(part(process, "reader.key"), past) for past, _ in states]
        alpha = softmax([q @ key / np.sqrt(config.retrieval.key_size) for key in keys])
        values = [linear(part(process, "reader.value"), future) for _, future in states]
        np.testing.assert_allclose(z[0], np.array(alpha) @ np.array(values), rtol=1e-5, atol=1e-5)


def test_the_slots_ask_different_things():
    outputs, _, _ = read_small("attention", make_retrieval_batch())
    z = outputs.retrieved.z
    assert np.abs(z[:, 0] - z[:, 1]).max() > 1e-3


def test_a_slot_that_sleeps_keeps_what_it_has_and_pays_nothing():
    agent = make_agent(agent_config(slot_periods=(1, 2, 2), ranking="attention", summariser="linear"))
    encoded, _ = jax.jit(lambda a, b: a.encode(b))(agent, make_retrieval_batch())
    step = jax.jit(lambda a, state, observation: a(state, only_seen(observation), encoded, None))
    first = step(agent, agent.initial_state(None), jnp.ones(OBSERVATION)).retrieved
    second = step(agent, agent.initial_state(None)._replace(retrieval=first.state), -jnp.ones(OBSERVATION)).retrieved
    np.testing.assert_array_equal(second.state.slots[1:], first.state.slots[1:])
    np.testing.assert_array_equal(second.z[1:], first.z[1:])
    np.testing.assert_array_equal(second.kl[1:], [0.0, 0.0])
    np.testing.assert_array_equal(second.attended.weight[1:], np.zeros_like(first.attended.weight[1:]))
    assert (np.abs(second.state.slots[0] - first.state.slots[0])).max() > 1e-3
    assert float(second.kl[0]) > 0
