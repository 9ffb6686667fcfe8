"""Encoding only the trajectories that a ranking by return will choose is exact."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import TRAJECTORIES, agent_config, make_agent, make_learning_batch

from r2a.agents.agent import outputs_of_states
from r2a.agents.objective import losses
from r2a.config import LearnerConfig


@pytest.mark.parametrize("summariser", ["gru", "linear"])
def test_encoding_the_chosen_equals_encoding_all_and_masking_the_others(summariser):
    chosen = agent_config(ranking="return", summariser=summariser)
    # Ranked by attention with room for all, every trajectory is encoded and none is left out by its rank.
    everything = agent_config(ranking="attention", k_traj=TRAJECTORIES, summariser=summariser)
    batch, key = make_learning_batch(), jax.random.key(0)
    rank = np.argsort(np.argsort(-np.asarray(batch.retrieval.returns), axis=1), axis=1)
    kept = jnp.asarray(rank < chosen.retrieval.k_traj)
    trajectories = batch.retrieval.trajectories
    masked = trajectories._replace(valid=trajectories.valid & kept[:, :, None])
    masked_batch = batch._replace(retrieval=batch.retrieval._replace(trajectories=masked))

    def run(config, batch):
        @jax.jit
        def values(agent, target, batch):
            first = jax.tree.map(lambda column: column[0], batch)
            encoded, _ = agent.prepare(first.retrieval)
            outputs = outputs_of_states(agent, first.transitions.observation, encoded, key)
            return outputs.q_values, partial(losses, config=LearnerConfig())(agent, target, batch, key)

        return values(make_agent(config), make_agent(config, seed=1), batch)

    for one, two in zip(
        jax.tree.leaves(run(chosen, batch)), jax.tree.leaves(run(everything, masked_batch)), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=2e-5, atol=1e-6)
