"""Encoding only the trajectories that a ranking by return will choose is exact."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from small import TRAJECTORIES, agent_config, make_agent, make_learning_batch

from r2a.agents.objectives import losses
from r2a.config import LearnerConfig


def test_encoding_the_chosen_equals_encoding_all_and_masking_the_others():
    chosen = agent_config(ranking="return")
    # Ranked by attention with room for all, every trajectory is encoded and none is left out by its rank.
    everything = agent_config(ranking="attention", k_traj=TRAJECTORIES)
    batch, key = make_learning_batch(), jax.random.key(0)
    rank = np.argsort(np.argsort(-np.asarray(batch.retrieval.returns), axis=1), axis=1)
    kept = jnp.asarray(rank < chosen.retrieval.k_traj)
    trajectories = batch.retrieval.trajectories
    masked = trajectories._replace(valid=trajectories.valid & kept[:, :, None])
    masked_batch = batch._replace(retrieval=batch.retrieval._replace(trajectories=masked))

    run = jax.jit(partial(losses, config=LearnerConfig()))
    found, expected = (
        run(make_agent(config), make_agent(config, seed=1), seen, key)
        for config, seen in ((chosen, batch), (everything, masked_batch))
    )
    np.testing.assert_allclose(found.priority, expected.priority, rtol=2e-5, atol=1e-6)
    for one, two in zip(found[:2], expected[:2], strict=True):
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_allclose(one[name], two[name], rtol=2e-5, atol=1e-6, err_msg=name)
