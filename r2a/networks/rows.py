"""Matrix products that stay one product when they are mapped over."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

rows_product_p = Primitive("rows_product")


def rows_product(x: Float[Array, "*b d_in"], weight: Float[Array, "d_in d_out"]) -> Float[Array, "*b d_out"]:
    """x @ weight with all leading axes of x, those that `vmap` adds among them, as the rows of one matrix.

    Left to itself, vmap makes a product over several axes of it. The compiler then transposes a copy of the incoming
    gradient for every weight; with one axis of rows it multiplies at once.
    """
    return rows_product_p.bind(x, weight)


def _product(x: Array, weight: Array) -> Array:
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])


def _batched(arguments: tuple[Array, Array], axes: tuple[Any, Any]) -> tuple[Array, int]:
    (x, weight), (x_axis, weight_axis) = arguments, axes
    if weight_axis is not None:  # a map over parameters: as many products
        return jax.vmap(_product, in_axes=axes)(x, weight), 0
    return rows_product(jnp.moveaxis(x, x_axis, 0), weight), 0


def _gradient_of_x(ct: Array, x: Any, weight: Array) -> Array:
    return rows_product(ct, weight.T)


def _gradient_of_weight(ct: Array, x: Array, weight: Any) -> Array:
    return x.reshape(-1, x.shape[-1]).T @ ct.reshape(-1, ct.shape[-1])


rows_product_p.def_impl(jax.jit(_product))
rows_product_p.def_abstract_eval(lambda x, weight: x.update(shape=(*x.shape[:-1], weight.shape[1])))
mlir.register_lowering(rows_product_p, mlir.lower_fun(_product, multiple_results=False))
batching.primitive_batchers[rows_product_p] = _batched
ad.defbilinear(rows_product_p, _gradient_of_x, _gradient_of_weight)
