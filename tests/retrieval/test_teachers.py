"""Trajectories that only are read: the same to read, and nothing is learnt from them."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import agent_config, make_agent, make_retrieval_batch

BATCH = make_retrieval_batch(lengths=(4, 2, 3, 4, 1, 3))
ALL = agent_config(trajectories=6, ranking="attention")
SOME = replace(ALL, retrieval=replace(ALL.retrieval, num_grad_trajectories=2))
TEACHERS = [0, 3]


@jax.jit
def encode(agent, batch):
    return agent.encode(batch)


@pytest.fixture(scope="module")
def agents():
    """The same parameters, taught by all trajectories and by every third."""
    agent = make_agent(ALL)
    return agent, eqx.tree_at(lambda a: jax.tree.leaves(a), make_agent(SOME), jax.tree.leaves(agent))


def test_what_can_be_read_does_not_depend_on_who_teaches(agents):
    (whole, _), (partly, _) = (encode(agent, BATCH) for agent in agents)
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(partly), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_the_auxiliary_losses_are_those_of_the_teachers(agents):
    teachers = jax.tree.map(lambda column: column[jnp.array(TEACHERS)], BATCH)
    for name, loss in encode(agents[1], BATCH)[1].items():
        np.testing.assert_allclose(loss, encode(agents[0], teachers)[1][name], rtol=1e-5)


def test_only_teachers_send_a_gradient_to_what_encoded_them(agents):
    @jax.jit
    def gradient(agent, row):
        return jax.grad(lambda a: jnp.square(a.encode(BATCH)[0].keys[row]).sum())(agent)

    for row in range(6):
        found = gradient(agents[1], row)
        for part in (found.encoder, found.retrieval.summariser):
            moved = any(np.any(leaf != 0) for leaf in jax.tree.leaves(part))
            assert moved == (row in TEACHERS)
        assert np.any(found.retrieval.process.reader.key.weight != 0)  # how keys are made is learnt from all of them
