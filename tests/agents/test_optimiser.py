"""Adam in one vector is Adam; Muon's steps are orthogonal, of Adam's size, and blind to how strong a direction is."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from r2a.agents.optimiser import MUON_RMS, make_optimiser
from r2a.config import LearnerConfig

PARAMS = {"matrix": jnp.ones((3, 5)), "tall": jnp.ones((6, 2)), "bias": jnp.zeros(4), "number": jnp.zeros(())}


def gradients(step):
    keys = jax.random.split(jax.random.key(step), len(PARAMS))
    return {name: jax.random.normal(k, PARAMS[name].shape) for k, name in zip(keys, PARAMS, strict=True)}


def run(optimiser, steps=3):
    state, updates = optimiser.init(PARAMS), []
    for step in range(steps):
        update, state = optimiser.update(gradients(step), state, PARAMS)
        updates.append(update)
    return updates


def test_adam_is_optax_adam_on_clipped_gradients():
    config = LearnerConfig(learning_rate=1e-2, clip_norm=0.5, adam_epsilon=1e-6)
    ours = run(make_optimiser(config))
    theirs = run(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2, eps=1e-6)))
    for one, two in zip(ours, theirs, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), one, two)


@pytest.mark.parametrize("name", ["matrix", "tall"])
def test_muon_moves_matrices_along_all_directions_of_their_nesterov_momentum(name):
    ours = run(make_optimiser(LearnerConfig(learning_rate=1e-2, optimiser="muon")))
    mean = np.zeros(PARAMS[name].shape)
    for step, update in enumerate(ours):
        gradient = np.asarray(gradients(step)[name])
        mean = 0.95 * mean + 0.05 * gradient
        ahead = 0.95 * mean / (1 - 0.95 ** (step + 2)) + 0.05 * gradient / (1 - 0.95 ** (step + 1))
        u, _, vt = np.linalg.svd(ahead, full_matrices=False)
        scaled = np.asarray(update[name]) / (-1e-2 * MUON_RMS * max(gradient.shape) ** 0.5)
        lengths = np.diag(u.T @ scaled @ vt.T)
        assert np.all((lengths > 0.6) & (lengths < 1.3))
        np.testing.assert_allclose(scaled, u * lengths @ vt, atol=1e-4)


def test_muon_moves_all_else_as_adam_with_nesterov_momentum():
    ours = run(make_optimiser(LearnerConfig(learning_rate=1e-2, optimiser="muon")))
    for one, two in zip(ours, run(optax.nadam(1e-2)), strict=True):
        for name in ("bias", "number"):
            np.testing.assert_allclose(one[name], two[name], rtol=1e-5)


@pytest.mark.parametrize("shape", [(8, 8), (4, 9), (9, 4)])
def test_muon_moves_a_matrix_as_far_in_its_weak_directions_as_in_the_strong_ones(shape):
    u, _, vt = np.linalg.svd(np.asarray(jax.random.normal(jax.random.key(0), shape)), full_matrices=False)
    gradient = jnp.asarray(u * np.geomspace(1.0, 0.05, len(vt)) @ vt, jnp.float32)
    optimiser = make_optimiser(LearnerConfig(learning_rate=1.0, optimiser="muon"))
    step, _ = optimiser.update(gradient, optimiser.init(gradient), gradient)
    result = -np.asarray(step) / (MUON_RMS * max(shape) ** 0.5)
    kept = np.diag(u.T @ result @ vt.T)
    assert kept.min() > 0.6, "a direction twenty times weaker than the strongest moves as far"
    assert kept.max() < 1.3
    np.testing.assert_allclose(result, u * kept @ vt, atol=1e-4)


def test_a_matrix_without_gradient_stays_where_it_is():
    optimiser = make_optimiser(LearnerConfig(optimiser="muon"))
    step, _ = optimiser.update(jax.tree.map(jnp.zeros_like, PARAMS), optimiser.init(PARAMS), PARAMS)
    assert all(np.array_equal(leaf, np.zeros_like(leaf)) for leaf in jax.tree.leaves(step))


def test_the_learning_rate_rises_holds_and_falls():
    """Adam's step on a constant gradient is the learning rate itself."""
    optimiser = make_optimiser(LearnerConfig(learning_rate=1e-2, schedule_steps=40))
    state, rates = optimiser.init(jnp.zeros(1)), []
    for _ in range(50):
        step, state = optimiser.update(jnp.ones(1), state)
        rates.append(-float(step[0]))
    assert rates[:3] == pytest.approx([1e-3, 5.5e-3, 1e-2], rel=1e-4)
    assert rates[2:21] == pytest.approx([1e-2] * 19, rel=1e-4)
    assert rates[30] == pytest.approx(5.5e-3, rel=1e-4)
    assert rates[40:] == pytest.approx([1e-3] * 10, rel=1e-4)
