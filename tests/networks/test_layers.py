"""Layers against hand-computed values and against loops over single vectors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import layers
from small import named_arrays

from r2a.config import EncoderConfig, HeadConfig
from r2a.environments.gridroboman.features import position_features
from r2a.networks.attention import Attention, MultiHeadAttention, TransformerBlock, masked_softmax
from r2a.networks.dense import MLP, GatedResidual, LayerNorm, Linear, SumResidual
from r2a.networks.encoders import build_encoder
from r2a.networks.heads import Head
from r2a.networks.recurrent import GRU, GRUCell, LinearRecurrence, tamed

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
KEY = jax.random.key(0)


def random_layer(kind, *sizes, **options):
    """A layer with all of its parameters random, biases and scales included."""
    generator = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(lambda key: kind(*sizes, key, **options), KEY)
    return jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape), jnp.float32), shapes)


def vectors(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def test_gru_cell_equals_the_loop_for_every_state_of_a_batch():
    cell, x, states = random_layer(GRUCell, 3, 4), vectors(3), vectors(5, 4)
    p = named_arrays(cell)
    expected = [layers.gru_cell(p, x, state) for state in states]
    np.testing.assert_allclose(cell(jnp.asarray(x), jnp.asarray(states)), expected, **CLOSE)


def test_rewards_up_to_one_are_left_as_they_are_and_large_ones_made_small():
    small = np.array([0.0, 0.3, -0.7, 1.0, -1.0], np.float32)
    np.testing.assert_array_equal(tamed(jnp.asarray(small)), small)
    np.testing.assert_allclose(tamed(jnp.array([np.e, -100.0, 1000.0])), [2.0, -5.60517, 7.907755], rtol=1e-5)
    assert np.isfinite(jax.vmap(jax.grad(tamed))(jnp.array([0.0, 1.0, -1.0, 5.0]))).all()


def test_gru_cell_without_weights_halves_the_state():
    cell = jax.tree.map(jnp.zeros_like, random_layer(GRUCell, 3, 2))
    np.testing.assert_allclose(cell(jnp.ones(3), jnp.array([4.0, -2.0])), [2.0, -1.0], **CLOSE)


def test_linear_recurrence_by_hand():
    recurrence = eqx.tree_at(
        lambda r: (r.project.weight, r.project.bias),
        random_layer(LinearRecurrence, 1, 1),
        (jnp.array([[0.0, 1.0]]), jnp.zeros(2)),  # a gate of one half, and the input itself
    )
    inputs, valid = jnp.array([[8.0], [100.0], [2.0], [4.0]]), jnp.array([True, False, True, True])
    np.testing.assert_allclose(recurrence(inputs, valid)[:, 0], [4.0, 4.0, 3.0, 3.5], **CLOSE)
    np.testing.assert_allclose(recurrence(inputs, valid, reverse=True)[:, 0], [5.0, 2.0, 2.0, 2.0], **CLOSE)


@pytest.mark.parametrize("kind", [GRU, LinearRecurrence])
def test_a_recurrence_run_backwards_is_the_reversed_recurrence(kind):
    model = random_layer(kind, 3, 4)
    inputs, valid = jnp.asarray(vectors(4, 3)), jnp.array([True, True, False, True])
    np.testing.assert_allclose(model(inputs, valid, reverse=True), model(inputs[::-1], valid[::-1])[::-1], **CLOSE)


def test_layer_norm_by_hand():
    norm = eqx.tree_at(lambda n: (n.scale, n.shift), LayerNorm(2), (jnp.array([1.0, 2.0]), jnp.array([0.0, 10.0])))
    np.testing.assert_allclose(norm(jnp.array([3.0, 7.0])), [-1.0, 12.0], rtol=1e-5)


def test_mlp_by_hand():
    mlp = eqx.tree_at(
        lambda m: tuple(layer.weight for layer in m.layers),
        MLP((1, 2, 1), KEY),
        (jnp.array([[1.0, -1.0]]), jnp.array([[-2.0], [3.0]])),
    )
    np.testing.assert_allclose(mlp(jnp.array([5.0])), [-10.0])
    np.testing.assert_allclose(mlp(jnp.array([-5.0])), [15.0])
    positive = eqx.tree_at(lambda m: m.layers, MLP((1, 2, 1), KEY, activate_last=True), mlp.layers)
    np.testing.assert_allclose(positive(jnp.array([5.0])), [0.0])


@pytest.mark.parametrize("y_size", [3, 4])
@pytest.mark.parametrize("kind", [GatedResidual, SumResidual])
def test_residual_updates_equal_the_loop(kind, y_size):
    update, x, y = random_layer(kind, 4, y_size), vectors(2, 4), vectors(2, y_size)
    expected = [layers.residual(named_arrays(update), *pair) for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(update(jnp.asarray(x), jnp.asarray(y)), expected, **CLOSE)


def test_sum_is_the_plain_sum_where_sizes_agree():
    np.testing.assert_array_equal(SumResidual(2, 2, KEY)(jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0])), [11.0, 22.0])


def test_attention_equals_the_loop():
    attention, x, y = random_layer(Attention, 3, 4, 5, 2), vectors(2, 3), vectors(6, 4)
    read, weights = attention(jnp.asarray(x), jnp.asarray(y))
    expected = [layers.attend(named_arrays(attention), one, list(y)) for one in x]
    np.testing.assert_allclose(read, [value for value, _ in expected], **CLOSE)
    np.testing.assert_allclose(weights, [weight for _, weight in expected], **CLOSE)


def test_heads_and_transformer_block_equal_the_loop():
    x, y = vectors(4, 8), vectors(3, 6)
    mask = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 1]], bool)
    visible = [list(np.flatnonzero(row)) for row in mask]
    attention = random_layer(MultiHeadAttention, 8, 6, 8, 2)
    expected = [
        layers.attend_with_heads(named_arrays(attention), one, [y[j] for j in places], heads=2)
        for one, places in zip(x, visible, strict=True)
    ]
    np.testing.assert_allclose(attention(jnp.asarray(x), jnp.asarray(y), jnp.asarray(mask)), expected, **CLOSE)
    block = random_layer(TransformerBlock, 8, 4)
    before = np.tril(np.ones((4, 4), bool))
    expected = layers.transformer_block(named_arrays(block), list(x), [list(np.flatnonzero(row)) for row in before])
    np.testing.assert_allclose(block(jnp.asarray(x), jnp.asarray(before)), expected, rtol=1e-4, atol=1e-4)


def test_masked_softmax_gives_nothing_to_what_is_masked_and_stays_differentiable():
    mask = jnp.array([[True, False, True], [False, False, False]])
    logits = jnp.array([[0.0, 50.0, 0.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(masked_softmax(logits, mask), [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    assert np.isfinite(jax.grad(lambda x: masked_softmax(x, mask)[:, 0].sum())(logits)).all()


def test_q_head_attends_over_z_and_ignores_zeros():
    head, state, z = random_layer(Head, HeadConfig(attention_heads=2), 6, 8, 3), vectors(6), vectors(2, 8)
    expected = layers.q_values(named_arrays(head), state, z, heads=2)
    np.testing.assert_allclose(head(jnp.asarray(state), jnp.asarray(z)), expected, **CLOSE)
    np.testing.assert_allclose(head(jnp.asarray(state), jnp.zeros((2, 8))), head.mlp(jnp.asarray(state)), rtol=1e-6)


def test_initial_linear_keeps_the_scale_of_its_input():
    layer = Linear(400, 300, KEY)
    spread = np.std(layer(jax.random.normal(jax.random.key(1), (50, 400))))
    assert spread == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(layer.bias, np.zeros(300))


def test_position_features_by_hand():
    encoder = build_encoder(EncoderConfig(features="positions", hidden=(2,)), (13,), KEY)
    assert encoder.mlp.layers[0].weight.shape[0] == 4 * 2 * 7 + 6 * 2 * 13 + 3 * 3 + 2
    board = jnp.array([0, 6, 2, 3, 4, 4, 1, 5, 0, 1, -1, 5, -3], jnp.int8)  # x, y of four things, status, task input
    features = np.asarray(position_features(board))
    coordinates, differences = features[:56].reshape(8, 7), features[56:212].reshape(12, 13)
    np.testing.assert_array_equal(coordinates.argmax(1), [0, 6, 2, 3, 4, 4, 1, 5])
    # Pairs in the order 01 02 03 12 13 23, shifted by 6 so that -6 is place 0.
    np.testing.assert_array_equal(differences.argmax(1) - 6, [-2, 3, -4, 2, -1, 1, -2, -1, 1, -2, 3, -1])
    np.testing.assert_array_equal(features[212:221].reshape(3, 3).argmax(1), [1, 2, 0])
    np.testing.assert_array_equal(features[221:], [5, -3])
    assert features[:221].sum() == 8 + 12 + 3
