"""The encoder of BabyAI's views and missions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.layers import gru_cell, linear, part
from small import named_arrays

from r2a.config import EncoderConfig
from r2a.environments.babyai import BabyAISettings
from r2a.environments.babyai.env import BabyAI
from r2a.environments.babyai.features import CELLS, VOCABULARY, InstructedEncoder
from r2a.environments.babyai.levels import LEVEL_NAMES
from r2a.environments.babyai.vocabulary import MISSION_WORDS, WORDS, tokenise

CONFIG = EncoderConfig(features="babyai", hidden=(6, 5), cell_size=4, word_size=3)


@pytest.fixture(scope="module")
def encoder():
    generator = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: InstructedEncoder(CONFIG, (148,), jax.random.key(0)))
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * generator.normal(size=leaf.shape), leaf.dtype), shapes)


def a_view(seed=0):
    generator = np.random.default_rng(seed)
    cells = np.array(CELLS)[generator.integers(0, len(CELLS), 49)]
    return np.append(cells.ravel(), generator.integers(4)).astype(np.uint8)


def by_loop(p, view, mission):
    """The same, one word and one cell at a time."""
    heard = np.zeros(CONFIG.word_size)
    for word in mission:
        if word:
            heard = gru_cell(part(p, "reader.cell"), p["words"][word], heard)
    flat = []
    for cell in view[:147].reshape(49, 3):
        x = sum(p["symbols.weight"][start + number] for start, number in zip((0, 11, 17), cell, strict=True))
        x = x + p["symbols.bias"]
        for layer in range(2):
            if layer:
                x = linear(part(p, "cells"), x)
            scale, shift = np.split(linear(part(p, f"films.{layer}"), heard), 2)
            x = np.maximum(x * (1 + scale) + shift, 0.0)
        flat.extend(x)
    x = np.maximum(linear(part(p, "view"), np.array(flat)) + p["direction"][view[147]], 0.0)
    return np.maximum(linear(part(p, "mlp.layers.0"), x), 0.0)


def test_it_equals_a_plain_loop(encoder):
    view, mission = a_view(), tokenise("put the red ball next to the blue box")
    found = encoder(jnp.asarray(view), encoder.encode_instruction(jnp.asarray(mission)))
    np.testing.assert_allclose(found, by_loop(named_arrays(encoder), view, mission), rtol=1e-4, atol=1e-5)


def test_a_sequence_is_encoded_like_its_steps(encoder):
    views = jnp.asarray(np.stack([a_view(seed) for seed in range(3)]))
    heard = encoder.encode_instruction(jnp.asarray(tokenise("open a door")))
    together = encoder(views, heard)
    for i, view in enumerate(views):
        np.testing.assert_allclose(together[i], encoder(view, heard), rtol=1e-5, atol=1e-6)


def test_words_and_their_order_matter_and_padding_does_not(encoder):
    one, other = tokenise("go to the red ball"), tokenise("go to the ball red")
    first, second, cut = (encoder.encode_instruction(jnp.asarray(words)) for words in (one, other, one[:9]))
    assert np.abs(first - second).max() > 1e-4
    np.testing.assert_array_equal(first, cut)


def test_the_vocabulary_fits():
    assert len(WORDS) < VOCABULARY
    assert MISSION_WORDS > 40


def test_every_cell_that_the_levels_show_is_known():
    """Views of all 40 levels, along random walks that pick things up, drop them and open doors."""
    env, generator, seen = BabyAI(BabyAISettings(), len(LEVEL_NAMES)), np.random.default_rng(0), set()
    for seed in range(2):
        observation = env.reset(LEVEL_NAMES, range(100 * seed, 100 * seed + len(LEVEL_NAMES))).observation
        for _ in range(60):
            cells = observation[:, :147].reshape(-1, 3)
            seen |= set(map(tuple, np.unique(cells, axis=0).tolist()))
            observation = env.step(generator.integers(0, 6, len(LEVEL_NAMES))).observation
    assert seen <= set(CELLS)
    assert len(seen) > 30
