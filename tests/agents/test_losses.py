"""RL losses and action choice, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from r2a.agents.actor import epsilon_greedy
from r2a.agents.losses import double_q_error, huber

Q = jnp.array([1.0, 2.0, 3.0])
ONLINE, TARGET = jnp.array([0.0, 5.0, 1.0]), jnp.array([10.0, 20.0, 30.0])


def test_double_q_error_by_hand():
    # The online network prefers action 1, the target network values it: 0.5 + 0.9 x 20 - 2.
    error = double_q_error(Q, jnp.array(1), jnp.array(0.5), jnp.array(0.9), ONLINE, TARGET)
    np.testing.assert_allclose(error, 16.5, rtol=1e-6)
    ended = double_q_error(Q, jnp.array(2), jnp.array(0.5), jnp.array(0.0), ONLINE, TARGET)
    np.testing.assert_allclose(ended, -2.5, rtol=1e-6)


def test_only_the_value_of_the_action_taken_has_a_gradient():
    gradients = jax.grad(double_q_error, argnums=(0, 4, 5))(
        Q, jnp.array(1), jnp.array(0.5), jnp.array(0.9), ONLINE, TARGET
    )
    for gradient, expected in zip(gradients, ([0.0, -1.0, 0.0], [0.0] * 3, [0.0] * 3), strict=True):
        np.testing.assert_array_equal(gradient, expected)


def test_huber_by_hand():
    errors = jnp.array([0.0, 0.5, 1.0, -3.0])
    np.testing.assert_allclose(huber(errors, 1.0), [0.0, 0.125, 0.5, 2.5])
    np.testing.assert_allclose(huber(errors, 2.0), [0.0, 0.125, 0.5, 4.0])
    slopes = jax.vmap(jax.grad(lambda error: huber(error, 1.0)))(errors)
    np.testing.assert_allclose(slopes, [0.0, 0.5, 1.0, -1.0])


def test_epsilon_greedy_is_greedy_or_uniform():
    keys = jax.random.split(jax.random.key(0), 3000)
    choose = jax.jit(jax.vmap(lambda epsilon, key: epsilon_greedy(Q, epsilon, key), in_axes=(None, 0)))
    assert set(np.asarray(choose(0.0, keys))) == {2}
    shares = np.bincount(np.asarray(choose(1.0, keys))) / len(keys)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)
    shares = np.bincount(np.asarray(choose(0.3, keys))) / len(keys)
    np.testing.assert_allclose(shares, [0.1, 0.1, 0.8], atol=0.03)
