"""Reading something else than what is there: the control that shows what reading is worth."""

import jax
import numpy as np
import pytest
from small import agent_config, make_agent, make_retrieval_batch

from r2a.training.evaluate import corrupt_values


@pytest.fixture(scope="module")
def encoded():
    return make_agent(agent_config()).encode(make_retrieval_batch())[0]


def test_as_read_nothing_changes(encoded):
    assert corrupt_values(encoded, "as_read", jax.random.key(0)) is encoded
    assert corrupt_values(None, "shuffled", jax.random.key(0)) is None


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_values_are_those_of_other_states_that_exist(encoded, seed):
    other = corrupt_values(encoded, "shuffled", jax.random.key(seed))
    valid = np.asarray(encoded.valid)
    before, after = np.asarray(encoded.values), np.asarray(other.values)
    assert not np.array_equal(before[valid], after[valid])
    np.testing.assert_array_equal(np.sort(before[valid], axis=0), np.sort(after[valid], axis=0))
    np.testing.assert_array_equal(before[~valid], after[~valid])
    np.testing.assert_array_equal(encoded.keys, other.keys)


def test_the_mean_is_that_of_the_states_that_exist(encoded):
    other = corrupt_values(encoded, "mean", jax.random.key(0))
    mean = np.asarray(encoded.values)[np.asarray(encoded.valid)].mean(0)
    np.testing.assert_allclose(other.values, np.broadcast_to(mean, other.values.shape), rtol=1e-5, atol=1e-6)
