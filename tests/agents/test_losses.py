"""RL losses and action choice, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax

from r2a.agents.actor import epsilon_greedy
from r2a.agents.losses import (
    double_q_value,
    huber,
    lambda_returns,
    one_step_error,
    sequence_priority,
    squashed_q_lambda_error,
)
from r2a.networks.squash import squash, unsquash

Q = jnp.array([1.0, 2.0, 3.0])
ONLINE, TARGET = jnp.array([0.0, 5.0, 1.0]), jnp.array([10.0, 20.0, 30.0])


def test_double_q_error_by_hand():
    # The online network prefers action 1, the target network values it: 0.5 + 0.9 x 20 - 2.
    value = double_q_value(ONLINE, TARGET)
    error = one_step_error(Q, jnp.array(1), jnp.array(0.5), jnp.array(0.9), value)
    np.testing.assert_allclose(error, 16.5, rtol=1e-6)
    ended = one_step_error(Q, jnp.array(2), jnp.array(0.5), jnp.array(0.0), value)
    np.testing.assert_allclose(ended, -2.5, rtol=1e-6)


def test_only_the_value_of_the_action_taken_has_a_gradient():
    def error(q, online, target):
        return one_step_error(q, jnp.array(1), jnp.array(0.5), jnp.array(0.9), double_q_value(online, target))

    gradients = jax.grad(error, argnums=(0, 1, 2))(Q, ONLINE, TARGET)
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


def test_lambda_returns_by_hand():
    # Backwards: 2 + 0.5 x 8 = 6; 1 + 0.5 (0.5 x 4 + 0.5 x 6) = 3.5; then an episode's end: 10.
    returns = lambda_returns(
        jnp.array([10.0, 1.0, 2.0]), jnp.array([0.0, 0.5, 0.5]), jnp.array([7.0, 4.0, 8.0]), jnp.full(3, 0.5)
    )
    np.testing.assert_allclose(returns, [10.0, 3.5, 6.0], rtol=1e-6)


def random_sequence(steps=12, actions=4):
    rng = np.random.default_rng(0)
    q, online, target = (jnp.asarray(3 * rng.normal(size=(steps, actions)), jnp.float32) for _ in range(3))
    action = jnp.asarray(rng.integers(0, actions, steps))
    reward = jnp.asarray(5 * rng.normal(size=steps), jnp.float32)
    discount = jnp.asarray(np.where(rng.random(steps) < 0.2, 0.0, 0.997), jnp.float32)
    return q, action, reward, discount, online, target


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_squashed_q_lambda_equals_rlax_where_both_networks_agree(lambda_):
    q, action, reward, discount, _, target = random_sequence()
    value = double_q_value(target, target)
    ours = squashed_q_lambda_error(q, action, reward, discount, value, jnp.full(len(q), lambda_))
    theirs = rlax.transformed_q_lambda(
        q, action, reward, discount, target, lambda_, tx_pair=rlax.SIGNED_HYPERBOLIC_PAIR
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_squashed_q_lambda_by_a_loop_with_double_q_and_a_sequence_that_ends_early():
    q, action, reward, discount, online, target = random_sequence()
    goes_on = np.ones(len(q), bool)
    goes_on[7] = False
    lambdas = jnp.where(goes_on, 0.8, 0.0)
    errors = squashed_q_lambda_error(q, action, reward, discount, double_q_value(online, target), lambdas)
    values = [float(unsquash(target[t, int(jnp.argmax(online[t]))])) for t in range(len(q))]
    later = values[-1]
    for t in reversed(range(len(q))):
        lambda_ = 0.8 if goes_on[t] else 0.0
        later = float(reward[t] + discount[t] * ((1 - lambda_) * values[t] + lambda_ * later))
        np.testing.assert_allclose(errors[t], float(squash(jnp.float32(later)) - q[t, action[t]]), rtol=1e-4, atol=1e-5)


def test_only_the_values_of_actions_taken_have_a_gradient_in_q_lambda():
    q, action, reward, discount, online, target = random_sequence()

    def total(q, online, target):
        value = double_q_value(online, target)
        return squashed_q_lambda_error(q, action, reward, discount, value, jnp.full(len(q), 0.8)).sum()

    of_q, of_online, of_target = jax.grad(total, argnums=(0, 1, 2))(q, online, target)
    np.testing.assert_array_equal(of_q, -jax.nn.one_hot(action, q.shape[1]))
    np.testing.assert_array_equal(of_online, 0.0)
    np.testing.assert_array_equal(of_target, 0.0)


def test_a_sequence_priority_mixes_peak_and_mean_of_its_valid_steps():
    error, valid = jnp.array([1.0, -3.0, 100.0, 2.0]), jnp.array([True, True, False, True])
    np.testing.assert_allclose(sequence_priority(error, valid, 0.9), 0.9 * 3.0 + 0.1 * 2.0, rtol=1e-6)
    assert sequence_priority(error, jnp.zeros(4, bool), 0.9) == 0.0
