"""Attention, single-headed as Algorithm 1 writes it and multi-headed where the appendix asks for it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.networks.dense import MLP, LayerNorm, Linear


def masked_softmax(logits: Float[Array, "*b n"], mask: Bool[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Softmax over the last axis among the masked-in entries; all zeros where there are none."""
    # -1e9 rather than -inf: a row without candidates then has finite gradients.
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e9), axis=-1)
    return jnp.where(mask, weights, 0.0)


class Attention(eqx.Module):
    """One head: queries from `x`, keys and values from `y`; also returns the weights."""

    query: Linear
    key: Linear
    value: Linear

    def __init__(self, x_size: int, y_size: int, key_size: int, out_size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        self.query = Linear(x_size, key_size, k1, bias=False)
        self.key = Linear(y_size, key_size, k2, bias=False)
        self.value = Linear(y_size, out_size, k3, bias=False)

    def __call__(
        self, x: Float[Array, "*b n d"], y: Float[Array, "*b m e"]
    ) -> tuple[Float[Array, "*b n o"], Float[Array, "*b n m"]]:
        queries, keys = self.query(x), self.key(y)
        logits = jnp.einsum("...nd,...md->...nm", queries, keys) * queries.shape[-1] ** -0.5
        weights = jax.nn.softmax(logits, axis=-1)
        return weights @ self.value(y), weights


class MultiHeadAttention(eqx.Module):
    """Several heads over the same keys; without biases, so that y = 0 contributes nothing."""

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, x_size: int, y_size: int, out_size: int, heads: int, key: PRNGKeyArray, *, gain: float = 1.0):
        inner = heads * max(1, min(y_size, out_size) // heads)  # what y does not hold cannot be read from it
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.query = Linear(x_size, inner, k1, bias=False)
        self.key = Linear(y_size, inner, k2, bias=False)
        self.value = Linear(y_size, inner, k3, bias=False)
        self.out = Linear(inner, out_size, k4, bias=False, gain=gain)
        self.heads = heads

    def __call__(
        self, x: Float[Array, "*b n d"], y: Float[Array, "*b m e"], mask: Bool[Array, "n m"] | None = None
    ) -> Float[Array, "*b n o"]:
        def split(a: Array) -> Array:
            return a.reshape(*a.shape[:-1], self.heads, -1)

        queries, keys, values = split(self.query(x)), split(self.key(y)), split(self.value(y))
        logits = jnp.einsum("...nhd,...mhd->...hnm", queries, keys) * queries.shape[-1] ** -0.5
        allowed = jnp.ones(logits.shape[-2:], bool) if mask is None else mask
        weights = masked_softmax(logits, jnp.broadcast_to(allowed, logits.shape))
        read = jnp.einsum("...hnm,...mhd->...nhd", weights, values)
        return self.out(read.reshape(*x.shape[:-1], -1))


class TransformerBlock(eqx.Module):
    """Self-attention and a feed-forward layer, each with a residual connection, layer norm first."""

    norm_attention: LayerNorm
    attention: MultiHeadAttention
    norm_feedforward: LayerNorm
    feedforward: MLP

    def __init__(self, size: int, heads: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.norm_attention = LayerNorm(size)
        self.attention = MultiHeadAttention(size, size, size, heads, k1)
        self.norm_feedforward = LayerNorm(size)
        self.feedforward = MLP((size, 2 * size, size), k2)

    def __call__(self, x: Float[Array, "n d"], mask: Bool[Array, "n n"] | None = None) -> Float[Array, "n d"]:
        normed = self.norm_attention(x)
        x = x + self.attention(normed, normed, mask)
        return x + self.feedforward(self.norm_feedforward(x))
