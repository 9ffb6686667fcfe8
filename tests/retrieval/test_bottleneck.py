"""Step 4: the KL by hand, and z as a sample of p(Z | g)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.config import RetrievalConfig
from r2a.retrieval.bottleneck import Gaussian, GaussianBottleneck, IdentityBottleneck, gaussian_from, kl_divergence

KEY = jax.random.key(0)
CONFIG = RetrievalConfig(slot_size=2)


def test_divergence_by_hand():
    p = Gaussian(jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 1.0, 2.0]))
    r = Gaussian(jnp.array([0.0, 0.0, 0.0]), jnp.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(kl_divergence(p, r), [0.0, 0.5, 1.5 - np.log(2.0)], atol=1e-6)
    wide = Gaussian(jnp.array([3.0]), jnp.array([2.0]))
    np.testing.assert_allclose(kl_divergence(Gaussian(jnp.array([1.0]), jnp.array([2.0])), wide), [0.5], atol=1e-6)


@pytest.mark.parametrize("start", [0.03, 0.3, 2.0])
def test_zeros_are_a_gaussian_of_the_configured_width(start):
    mean, std = gaussian_from(jnp.zeros(4), start)
    np.testing.assert_array_equal(mean, [0.0, 0.0])
    np.testing.assert_allclose(std, [start, start], rtol=1e-5)


def test_z_is_drawn_from_the_posterior_and_its_mean_without_a_key():
    bottleneck = GaussianBottleneck(CONFIG, KEY)
    g, m = jnp.array([[1.0, -2.0]]), jnp.array([[0.5, 0.5]])
    mean, divergence = bottleneck(g, m, None)
    drawn, divergences = jax.vmap(lambda key: bottleneck(g, m, key))(jax.random.split(KEY, 4000))
    p = gaussian_from(bottleneck.posterior(g), 0.3)
    np.testing.assert_allclose(mean, p.mean, rtol=1e-6)
    np.testing.assert_allclose(drawn.mean(0), p.mean, atol=0.08)
    np.testing.assert_allclose(drawn.std(0), p.std, rtol=0.05)
    np.testing.assert_allclose(
        divergences, jnp.broadcast_to(divergence, divergences.shape), rtol=1e-5
    )  # it depends on p and r only
    np.testing.assert_allclose(divergence, kl_divergence(p, gaussian_from(bottleneck.prior(m), 0.3)), rtol=1e-6)


def test_without_bottleneck_z_is_g_and_free():
    g = jnp.array([[1.0, -2.0]])
    z, divergence = IdentityBottleneck(CONFIG, KEY)(g, g, KEY)
    np.testing.assert_array_equal(z, g)
    np.testing.assert_array_equal(divergence, [[0.0, 0.0]])
