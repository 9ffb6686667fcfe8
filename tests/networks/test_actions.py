"""Continuous actions: the distribution over them, against scipy and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from r2a.config import HeadConfig
from r2a.networks.actions import WIDEST, Mixture, as_features
from r2a.networks.heads import Head
from r2a.networks.recurrent import StepEmbedding, previous_steps
from r2a.types import none_where


def random_mixture(num_components, size, batch=(), seed=0):
    numbers = jax.random.normal(jax.random.key(seed), (*batch, Mixture.numbers(num_components, size)))
    return Mixture.of(2.0 * numbers, num_components, 0.01)


@pytest.mark.parametrize("num_components", [1, 3])
def test_the_likelihood_is_that_of_normal_distributions_cut_off_at_the_bounds(num_components):
    mixture = random_mixture(num_components, 2)
    action = np.array([0.3, -0.8])
    expected = 0.0
    for c in range(num_components):
        density = 1.0
        for a, mean, std in zip(action, np.asarray(mixture.mean)[c], np.asarray(mixture.std)[c], strict=True):
            density *= stats.truncnorm.pdf(a, (-1 - mean) / std, (1 - mean) / std, loc=mean, scale=std)
        expected += np.exp(float(mixture.log_weight[c])) * density
    np.testing.assert_allclose(mixture.log_likelihood(jnp.asarray(action)), np.log(expected), rtol=1e-4)


def test_it_is_a_density_on_the_bounded_interval():
    grid = jnp.linspace(-1, 1, 20_001)
    for seed in range(5):
        mixture = random_mixture(2, 1, seed=seed)
        density = np.exp(jax.vmap(mixture.log_likelihood)(grid[:, None]))
        np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, rtol=2e-3)


def test_whatever_the_network_says_the_action_is_within_bounds_and_the_width_too():
    for scale in (0.0, 1.0, 1e4):
        numbers = scale * jax.random.normal(jax.random.key(0), (7, Mixture.numbers(3, 4)))
        mixture = Mixture.of(numbers, 3, 0.05)
        assert mixture.mode().shape == (7, 4)
        assert np.abs(mixture.mode()).max() <= 1
        assert np.all((mixture.std >= 0.05 * 0.999) & (mixture.std <= WIDEST * 1.001))
        gradient = jax.grad(lambda n: Mixture.of(n, 3, 0.05).log_likelihood(jnp.full((7, 4), 0.999)).sum())(numbers)
        assert np.isfinite(gradient).all()


def test_the_mode_is_the_middle_of_the_likeliest_component():
    mixture = Mixture(jnp.log(jnp.array([0.4, 0.6])), jnp.array([[0.1, 0.2], [-0.3, 0.4]]), jnp.full((2, 2), 0.1))
    np.testing.assert_allclose(mixture.mode(), [-0.3, 0.4], rtol=1e-6)


def test_a_head_without_components_takes_its_numbers_for_logits():
    head = Head(HeadConfig(), 6, 0, 3, jax.random.key(0))
    outputs = jnp.array([[1.0, 2.0, -1.0]])
    np.testing.assert_allclose(
        head.log_likelihood(outputs, jnp.array([1])), [2.0 - np.log(np.exp([1.0, 2.0, -1.0]).sum())], rtol=1e-6
    )
    assert head.mode(outputs).tolist() == [1]


def test_previous_actions_are_vectors_too_and_none_is_zero():
    action = jnp.arange(1.0, 9.0).reshape(4, 2) / 10
    first = jnp.array([True, False, True, False])
    before, reward = previous_steps(action, jnp.array([1.0, 2.0, 3.0, 4.0]), first)
    np.testing.assert_allclose(before, [[0, 0], [0.1, 0.2], [0, 0], [0.5, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(reward, [0, 1, 0, 3])
    numbers, _ = previous_steps(jnp.array([5, 6, 7, 8]), jnp.zeros(4), first)
    assert numbers.tolist() == [-1, 5, -1, 7]


def test_an_embedding_takes_in_either_kind():
    embed = StepEmbedding(3, 4, 5, jax.random.key(0))
    state, reward = jnp.ones((2, 3)), jnp.zeros(2)
    one_hot = jax.nn.one_hot(jnp.array([2, 0]), 4)
    np.testing.assert_allclose(embed(state, jnp.array([2, 0]), reward), embed(state, one_hot, reward), rtol=1e-6)
    nothing = none_where(jnp.array([True, True]), jnp.array([2, 0]))
    np.testing.assert_array_equal(as_features(nothing, 4), np.zeros((2, 4)))
