"""h and its inverse."""

import jax
import jax.numpy as jnp
import numpy as np

from r2a.networks.squash import squash, unsquash


def test_by_hand():
    np.testing.assert_allclose(squash(jnp.array([0.0, 3.0, -8.0, 99.0])), [0.0, 1.003, -2.008, 9.099], rtol=1e-6)
    np.testing.assert_allclose(unsquash(jnp.array([0.0, 1.003, -2.008, 9.099])), [0.0, 3.0, -8.0, 99.0], rtol=1e-6)


def test_each_undoes_the_other_over_fifteen_orders_of_magnitude():
    sizes = 10.0 ** np.arange(-8, 8)
    x = jnp.asarray(np.concatenate([-sizes, sizes]), jnp.float32)
    np.testing.assert_allclose(unsquash(squash(x)), x, rtol=1e-5)
    slopes = jax.vmap(jax.grad(squash))(x)
    assert np.all(np.asarray(slopes) > 0)
    np.testing.assert_allclose(jax.vmap(jax.grad(unsquash))(squash(x)), 1 / slopes, rtol=1e-4)
