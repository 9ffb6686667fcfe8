"""Every variant of Algorithm 1 equals a plain loop, from observations to Q-values, selection and losses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import algorithm1
from oracles.layers import part
from oracles.summaries import auxiliary_losses
from small import ACTIONS, OBSERVATION, agent_config, make_agent, make_retrieval_batch, named_arrays

from r2a.agents.agent import only_seen

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
STEPS = 2

CASES = {
    "as printed, ranked by return": {"update": "sum"},
    "as printed, ranked by attention": {"update": "sum", "ranking": "attention", "bottleneck": "identity"},
    "gated, ranked by return": {"kl_reduction": "mean", "summariser": "linear"},
    "gated, ranked by attention": {"ranking": "attention", "summariser": "transformer"},
    "transformer of two layers": {"summariser": "transformer", "summary_layers": 2, "bottleneck": "identity"},
    "similar states, ranked by return": {"num_neighbours": 5, "summariser": "linear"},
    "similar states, ranked by attention": {"num_neighbours": 7, "ranking": "attention", "summariser": "linear"},
    "two retrievals per step": {"retrievals_per_step": 2, "ranking": "attention", "summariser": "linear"},
    "slots with periods": {"slot_periods": (1, 3, 2), "ranking": "attention", "summariser": "linear"},
    "periods and retrievals, as printed": {"slot_periods": (2, 1, 2), "retrievals_per_step": 2, "update": "sum"},
    "one trajectory, one state": {"k_traj": 1, "k_states": 1, "ranking": "attention", "summariser": "linear"},
    "everything is read": {"k_traj": 3, "k_states": 12, "summariser": "linear"},
    "all of the best by attention": {"k_states": 0, "ranking": "attention", "summariser": "linear"},
    "all of the best by return": {"k_states": 0, "summariser": "linear"},
    "everything similar is read": {"k_traj": 5, "k_states": 20, "num_neighbours": 20, "ranking": "attention"},
    "A-1, as printed": {"variant": "agent_query", "update": "sum", "summariser": "linear"},
    "A-1, gated": {"variant": "agent_query", "ranking": "attention", "kl_reduction": "mean"},
    "A-1, without bottleneck": {"variant": "agent_query", "bottleneck": "identity", "num_neighbours": 4},
    "A-2, as printed": {"variant": "slots_only", "update": "sum"},
    "A-2, gated": {"variant": "slots_only"},
    "A-2 with a transformer": {"variant": "slots_only", "slot_input": "transformer"},
}


@eqx.filter_jit
def unroll(agent, observations, batch):
    """The agent's outputs at consecutive steps of an episode, and the auxiliary losses."""
    encoded, auxiliary = agent.encode(batch)

    def step(state, observation):
        output = agent(state, only_seen(observation), encoded, None)
        return state._replace(retrieval=output.retrieved.state), output

    outputs = jax.lax.scan(step, agent.initial_state(None), observations)[1]
    ids = None if encoded is None else encoded.trajectory_id
    return outputs, auxiliary, ids


def unroll_by_loop(agent, config, observations, batch):
    p, retrieval = named_arrays(agent), config.retrieval
    first = jax.tree.map(np.asarray, agent.initial_state(None).retrieval)
    state = {"slots": first.slots, "last_read": first.last_read, "age": 0}
    t = jax.tree.map(np.asarray, batch.trajectories)
    columns = {name: getattr(t, name) for name in ("observation", "action", "reward", "discount", "valid", "is_first")}
    columns = {**columns, "return": np.asarray(batch.returns), "id": t.trajectory_id}
    trajectories = [] if retrieval.variant == "slots_only" else algorithm1.encode(p, retrieval, columns)
    outputs = []
    for observation in np.asarray(observations):
        heads = config.head.attention_heads
        s = algorithm1.agent_state(p, None, observation, None, 0.0)
        outputs.append(algorithm1.agent_step(p, retrieval, heads, state, s, trajectories))
        state = outputs[-1]["state"]
    return outputs, trajectories


def states_read(attended, ids, step):
    """For each slot, the weight of every state (trajectory id, step) that was read."""
    return [
        {
            (int(ids[i]), int(j)): float(weight)
            for i, j, weight in zip(*(np.asarray(column)[step, slot] for column in attended[:3]), strict=True)
            if weight > 0
        }
        for slot in range(attended.weight.shape[1])
    ]


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_a_step_equals_the_plain_loop(changes):
    config = agent_config(**changes)
    agent, batch = make_agent(config, seed=1), make_retrieval_batch(seed=2)
    steps = 4 if config.retrieval.slot_periods else STEPS
    observations = np.random.default_rng(3).normal(size=(steps, OBSERVATION)).astype(np.float32)
    outputs, auxiliary, ids = unroll(agent, jnp.asarray(observations), batch)
    expected, trajectories = unroll_by_loop(agent, config, observations, batch)
    for t, by_loop in enumerate(expected):
        retrieved = outputs.retrieved
        found = {
            "q_values": outputs.q_values,
            "s": retrieved.s,
            "u": retrieved.u,
            "z": retrieved.z,
            "kl": retrieved.kl,
            "slot_weight": retrieved.attended.slot_weight,
        }
        for name, value in found.items():
            np.testing.assert_allclose(value[t], np.array(by_loop[name]), **TOLERANCE, err_msg=f"{name} at step {t}")
        np.testing.assert_allclose(retrieved.state.slots[t], np.array(by_loop["state"]["slots"]), **TOLERANCE)
        for found_read, expected_read in zip(states_read(retrieved.attended, ids, t), by_loop["read"], strict=False):
            assert found_read == pytest.approx(expected_read, abs=1e-5)
    if trajectories:
        encoded = trajectories
        if config.retrieval.ranking == "return":  # what is not encoded is not predicted from
            best = sorted(trajectories, key=lambda trajectory: trajectory["return"], reverse=True)
            encoded = best[: config.retrieval.k_traj]
        p = part(named_arrays(agent), "retrieval.auxiliary")
        losses = auxiliary_losses(p, config.retrieval.auxiliary, ACTIONS, encoded)
        assert {name: float(loss) for name, loss in auxiliary.items()} == pytest.approx(losses, abs=1e-5)
