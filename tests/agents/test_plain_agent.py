"""RA-X = X + retrieval: X has nothing of retrieval, and RA-X with silent retrieval is X."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import ACTIONS, OBSERVATION, agent_config, make_agent, make_learning_batch, named_arrays, values_of_states

from r2a.agents.agent import parameter_count
from r2a.agents.build import build_agent
from r2a.agents.objectives import losses
from r2a.config import LearnerConfig

PLAIN = agent_config(variant="none")
FREE = {"bottleneck": "identity", "summariser": "linear"}
SILENCED = {
    "full, as printed": {"update": "sum", **FREE},
    "full, gated, ranked by attention": {"ranking": "attention", **FREE},
    "A-1, as printed": {"variant": "agent_query", "update": "sum", **FREE},
}


@jax.jit
def values_and_losses(agent, batch):
    """Q-values of the first task's states, and the named losses of the whole step."""
    first, key = jax.tree.map(lambda column: column[0], batch), jax.random.key(0)
    encoded, _ = agent.encode(first.retrieval)
    q_values = values_of_states(agent, first.sequences.frames.observation[:, 0], encoded, key).q_values
    return q_values, losses(agent, agent, batch, key, LearnerConfig())


def silence(agent, config):
    """Retrieval that reads zeros, and gates that stay shut."""
    agent = eqx.tree_at(lambda a: a.retrieval.process.reader.value.weight, agent, replace_fn=jnp.zeros_like)
    if config.retrieval.update == "gated":
        bias = agent.retrieval.process.agent_update.take_in.from_update.bias
        size = len(bias) // 3
        shut = bias.at[size : 2 * size].set(-1e9)
        agent = eqx.tree_at(lambda a: a.retrieval.process.agent_update.take_in.from_update.bias, agent, shut)
    return agent


def test_the_plain_agent_has_no_retrieval_parameters_and_pays_nothing():
    agent = make_agent(PLAIN)
    assert jax.tree.leaves(agent.retrieval) == []
    assert {name.split(".")[0] for name in named_arrays(agent)} == {"encoder", "head"}
    assert not any(name.startswith("head.attend") for name in named_arrays(agent))
    assert parameter_count(agent) == (2 * 7 + 7) + (7 * 6 + 6) + (6 * 3 + 3)
    _, (named, *_) = values_and_losses(agent, make_learning_batch())
    assert float(named["rl"]) > 0
    assert [float(named[name]) for name in ("kl", "action", "value", "reward")] == [0.0] * 4


def test_the_plain_agent_does_not_look_at_the_retrieval_batch():
    agent, batch = make_agent(PLAIN), make_learning_batch()
    other = batch._replace(retrieval=make_learning_batch(seed=5).retrieval)
    for one, two in zip(*(jax.tree.leaves(values_and_losses(agent, b)) for b in (batch, other)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("changes", SILENCED.values(), ids=SILENCED.keys())
def test_silent_retrieval_gives_the_plain_agents_values_and_loss(changes):
    config, batch = agent_config(**changes), make_learning_batch()
    augmented = make_agent(config)
    plain = eqx.tree_at(lambda a: (a.encoder, a.head.mlp), make_agent(PLAIN), (augmented.encoder, augmented.head.mlp))
    q_values, (named, *_) = values_and_losses(silence(augmented, config), batch)
    plain_q_values, (plain_named, *_) = values_and_losses(plain, batch)
    np.testing.assert_allclose(q_values, plain_q_values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(named["rl"], plain_named["rl"], rtol=1e-5)
    loud, _ = values_and_losses(augmented, batch)
    assert np.abs(loud - plain_q_values).max() > 1e-2


@pytest.mark.parametrize("variant", ["full", "agent_query"])
def test_retrieval_can_start_out_silent(variant):
    """A shut gate and an attention without output: RA-X begins as X, and learns what to let in."""
    config, batch = agent_config(variant=variant, gate_bias=-40.0, **FREE), make_learning_batch()
    config = replace(config, head=replace(config.head, attention_gain=0.0))
    augmented = build_agent(config, OBSERVATION, ACTIONS, jax.random.key(0))
    plain = eqx.tree_at(lambda a: (a.encoder, a.head.mlp), make_agent(PLAIN), (augmented.encoder, augmented.head.mlp))
    np.testing.assert_allclose(
        values_and_losses(augmented, batch)[0], values_and_losses(plain, batch)[0], rtol=1e-5, atol=1e-6
    )
