"""Linear layers, multi-layer perceptrons, layer normalisation and residual updates.

All act on the last axis and broadcast over any leading ones. By hand, because those of `eqx.nn` take one vector:
mapped over rows and steps they take 1.1 to 2.7 times as long, gradient included (`networks/rows.py` says why).
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.networks.rows import rows_product

NARROW = 16
"""Layers with fewer outputs than a vector unit has lanes take the gradient of their weight as its transpose, whose
rows are long: six times faster for the 7 Q-values of 256 features. The barrier keeps the compiler from undoing it."""


class Linear(eqx.Module):
    """An affine map of the last axis."""

    weight: Float[Array, "d_in d_out"]
    bias: Float[Array, " d_out"] | None

    def __init__(self, d_in: int, d_out: int, key: PRNGKeyArray, *, bias: bool = True, gain: float = 1.0):
        self.weight = gain * d_in**-0.5 * jax.random.normal(key, (d_in, d_out))
        self.bias = jnp.zeros(d_out) if bias else None

    def __call__(self, x: Float[Array, "*b d_in"]) -> Float[Array, "*b d_out"]:
        weight = self.weight
        if weight.shape[1] < NARROW:
            weight = jax.lax.optimization_barrier(weight.T).T
        y = rows_product(x, weight)
        return y if self.bias is None else y + self.bias


class MLP(eqx.Module):
    """Linear layers with ReLU after each but, unless `activate_last`, the last."""

    layers: tuple[Linear, ...]
    activate_last: bool = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], key: PRNGKeyArray, *, activate_last: bool = False):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            Linear(d_in, d_out, k, gain=2**0.5) for d_in, d_out, k in zip(sizes, sizes[1:], keys, strict=False)
        )
        self.activate_last = activate_last

    def __call__(self, x: Float[Array, "*b d_in"]) -> Float[Array, "*b d_out"]:
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.activate_last or i + 1 < len(self.layers):
                x = jax.nn.relu(x)
        return x


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over the last axis, then a learned scale and shift."""

    scale: Float[Array, " d"]
    shift: Float[Array, " d"]

    def __init__(self, size: int, *, scale: float = 1.0):
        self.scale = jnp.full(size, scale, jnp.float32)  # a float of no given type would be compiled for twice
        self.shift = jnp.zeros(size)

    def __call__(self, x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.scale + self.shift


class SumResidual(eqx.Module):
    """x + W y: Algorithm 1 as printed (W only where the sizes of x and y differ)."""

    project: Linear | None

    def __init__(self, x_size: int, y_size: int, key: PRNGKeyArray, gate_bias: float = 0.0):
        del gate_bias
        self.project = None if x_size == y_size else Linear(y_size, x_size, key, bias=False)

    def __call__(self, x: Float[Array, "*b d"], y: Float[Array, "*b e"]) -> Float[Array, "*b d"]:
        return x + (y if self.project is None else self.project(y))


class GatedResidual(eqx.Module):
    """GRU-style gate and layer norm around a residual update (App. implementation details).

    With a negative `gate_bias` x passes nearly unchanged until something is learnt that is worth letting in.
    """

    norm: LayerNorm
    from_update: Linear
    from_state: Linear
    candidate_from_state: Linear

    def __init__(self, x_size: int, y_size: int, key: PRNGKeyArray, gate_bias: float = 0.0):
        k1, k2, k3 = jax.random.split(key, 3)
        self.norm = LayerNorm(y_size)
        from_update = Linear(y_size, 3 * x_size, k1)
        bias = jnp.zeros((3, x_size)).at[1].set(gate_bias).ravel()
        self.from_update = eqx.tree_at(lambda layer: layer.bias, from_update, bias)
        self.from_state = Linear(x_size, 2 * x_size, k2, bias=False)
        self.candidate_from_state = Linear(x_size, x_size, k3, bias=False)

    def __call__(self, x: Float[Array, "*b d"], y: Float[Array, "*b e"]) -> Float[Array, "*b d"]:
        reset_y, gate_y, candidate_y = jnp.split(self.from_update(self.norm(y)), 3, axis=-1)
        reset_x, gate_x = jnp.split(self.from_state(x), 2, axis=-1)
        reset = jax.nn.sigmoid(reset_y + reset_x)
        gate = jax.nn.sigmoid(gate_y + gate_x)
        candidate = jnp.tanh(candidate_y + self.candidate_from_state(reset * x))
        return x + gate * (candidate - x)


RESIDUALS = {"gated": GatedResidual, "sum": SumResidual}
