"""Actions as networks take them in, and the distribution over continuous ones that behaviour cloning learns."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from r2a.types import Action, is_continuous

WIDEST = 1.0
"""Largest standard deviation of a component."""


def as_features(action: Action, size: int) -> Float[Array, "*b {size}"]:
    """Actions as a network takes them in: a one-hot of `size`, or the vectors as they are. No action is all zeros."""
    # A gather's gradient would be a slow scatter; action -1, none, is an all-zero one-hot.
    return action if is_continuous(action) else jax.nn.one_hot(action, size)


class Mixture(NamedTuple):
    """Normal distributions cut off at -1 and 1 in every dimension, one of which is drawn; so each is within bounds."""

    log_weight: Float[Array, "*b C"]
    mean: Float[Array, "*b C a"]
    std: Float[Array, "*b C a"]

    @staticmethod
    def numbers(num_components: int, size: int) -> int:
        """How many numbers describe one over vectors of that size."""
        return num_components * (1 + 2 * size)

    @classmethod
    def of(cls, numbers: Float[Array, "*b n"], num_components: int, min_std: float) -> Mixture:
        """The distribution that a network's unbounded numbers stand for.

        Without a `min_std` standard deviation, few exact repeats in the data would outweigh all.
        """
        parts = numbers.reshape(*numbers.shape[:-1], num_components, -1)
        size = (parts.shape[-1] - 1) // 2
        share = jax.nn.sigmoid(parts[..., 1 + size :])
        return cls(
            jax.nn.log_softmax(parts[..., 0]),
            jnp.tanh(parts[..., 1 : 1 + size]),
            min_std * (WIDEST / min_std) ** share,
        )

    def log_likelihood(self, action: Float[Array, "*b a"]) -> Float[Array, "*b"]:
        """Of vectors within bounds."""
        distance = (action[..., None, :] - self.mean) / self.std
        # The share of a normal distribution that lies within the bounds; at least about a half, as its mean does.
        inside = jax.scipy.stats.norm.cdf((1 - self.mean) / self.std) - jax.scipy.stats.norm.cdf(
            (-1 - self.mean) / self.std
        )
        density = -0.5 * (distance**2 + jnp.log(2 * jnp.pi)) - jnp.log(self.std) - jnp.log(inside)
        return jax.nn.logsumexp(self.log_weight + density.sum(-1), axis=-1)

    def mode(self) -> Float[Array, "*b a"]:
        """The middle of the likeliest component: what a greedy agent does."""
        likeliest = jax.nn.one_hot(jnp.argmax(self.log_weight, axis=-1), self.log_weight.shape[-1])
        return (likeliest[..., None] * self.mean).sum(-2)
