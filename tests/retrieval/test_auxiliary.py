"""What the summaries are asked to predict, by hand. (The losses themselves: test_algorithm1.py.)"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import summaries as by_loop
from small import ACTIONS, agent_config, make_agent, make_retrieval_batch

from r2a.config import AuxiliaryConfig
from r2a.retrieval.auxiliary import returns_to_go, two_hot

SUPPORT = AuxiliaryConfig(bins=5, low=-2.0, high=2.0)


def test_two_hot_by_hand():
    # h(3) = 1.003: between the bins at 1 and 2. Beyond the support, all weight is on its end.
    found = two_hot(jnp.array([3.0, 0.0, -1000.0, 1000.0]), SUPPORT)
    expected = [[0, 0, 0, 0.997, 0.003], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-20, 20, width=32), min_size=4, max_size=4))
def test_two_hot_is_a_distribution_whose_mean_is_the_compressed_value(values):
    target = np.asarray(two_hot(jnp.array(values, jnp.float32), SUPPORT))
    np.testing.assert_allclose(target.sum(-1), 1.0, atol=1e-5)
    assert ((target > 0).sum(-1) <= 2).all()
    clipped = np.clip([by_loop.compress(value) for value in values], SUPPORT.low, SUPPORT.high)
    np.testing.assert_allclose(target @ np.linspace(-2, 2, 5), clipped, atol=1e-5)


def test_returns_to_go_by_hand():
    reward, half = jnp.array([1.0, 2.0, 4.0, 8.0]), jnp.full(4, 0.5)
    everywhere = jnp.ones(4, bool)
    np.testing.assert_allclose(returns_to_go(reward, half, everywhere), [4.0, 6.0, 8.0, 8.0])
    np.testing.assert_allclose(returns_to_go(reward, half, jnp.arange(4) < 3)[:3], [3.0, 4.0, 4.0])
    ended = half.at[1].set(0.0)
    np.testing.assert_allclose(returns_to_go(reward, ended, everywhere), [2.0, 2.0, 8.0, 8.0])


def test_heads_that_know_nothing_lose_the_logarithm_of_the_choices():
    config = agent_config()
    agent = jax.tree.map(jnp.zeros_like, make_agent(config))
    _, losses = agent.encode(make_retrieval_batch())
    bins = config.retrieval.auxiliary.bins
    expected = {"action": np.log(ACTIONS), "value": np.log(bins), "reward": np.log(bins)}
    assert {name: float(loss) for name, loss in losses.items()} == pytest.approx(expected, rel=1e-5)
