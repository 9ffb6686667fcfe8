"""A mapped product is the product of the rows, and so is its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.networks.rows import rows_product

X = jax.random.normal(jax.random.key(0), (2, 3, 4, 5))
WEIGHT = jax.random.normal(jax.random.key(1), (5, 6))


def mapped(levels):
    product = rows_product
    for _ in range(levels):
        product = jax.vmap(product, in_axes=(0, None))
    return product


def loss(product, x, weight):
    return jnp.sin(product(x, weight)).sum()


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_value_and_gradients_are_those_of_the_plain_product(levels):
    np.testing.assert_allclose(mapped(levels)(X, WEIGHT), X @ WEIGHT, rtol=1e-5, atol=1e-5)
    found = jax.grad(lambda x, w: loss(mapped(levels), x, w), (0, 1))(X, WEIGHT)
    wanted = jax.grad(lambda x, w: loss(jnp.matmul, x, w), (0, 1))(X, WEIGHT)
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_a_map_over_another_axis_or_over_the_weights():
    last = jax.vmap(rows_product, in_axes=(2, None))(X, WEIGHT)
    np.testing.assert_allclose(last, jnp.moveaxis(X @ WEIGHT, 2, 0), rtol=1e-5, atol=1e-5)
    weights = jnp.stack([WEIGHT, 2 * WEIGHT])
    both = jax.vmap(rows_product)(X, weights)
    np.testing.assert_allclose(both, jnp.stack([X[0] @ WEIGHT, 2 * X[1] @ WEIGHT]), rtol=1e-5, atol=1e-5)
    seeds = jax.vmap(rows_product, in_axes=(None, 0))(X, weights)
    np.testing.assert_allclose(seeds, jnp.stack([X @ WEIGHT, 2 * X @ WEIGHT]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("through_a_scan", [False, True])
def test_every_product_of_a_mapped_gradient_contracts_one_axis(through_a_scan):
    def product(x, weight):
        if through_a_scan:
            return jax.lax.scan(lambda carry, row: (carry, rows_product(row, weight)), 0.0, x)[1]
        return rows_product(x, weight)

    def total(x, weight):
        return loss(jax.vmap(jax.vmap(product, in_axes=(0, None)), in_axes=(0, None)), x, weight)

    text = jax.jit(jax.grad(total, (0, 1))).lower(X, WEIGHT).as_text()
    axes = [line.split("contracting_dims = ")[1].split("]")[0] for line in text.splitlines() if "dot_general" in line]
    assert len(axes) >= 2
    assert not any("," in entry for entry in axes), axes


def test_it_runs_outside_jit():
    np.testing.assert_allclose(rows_product(X[0, 0, 0], WEIGHT), X[0, 0, 0] @ WEIGHT, rtol=1e-5, atol=1e-6)
