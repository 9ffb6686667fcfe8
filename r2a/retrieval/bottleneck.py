"""Step 4 of Algorithm 1: a cost of retrieved information, the KL (Sec. 2.3, App. information theoretic formulation)."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.networks.dense import Linear
from r2a.types import Key


class Gaussian(NamedTuple):
    """A Gaussian with independent dimensions."""

    mean: Float[Array, "*b d"]
    std: Float[Array, "*b d"]


SMALLEST_STD = 1e-3


def gaussian_from(parameters: Float[Array, "*b e"], start_std: float) -> Gaussian:
    """Splits a network's output into mean and standard deviation; zeros give `start_std`."""
    mean, raw = jnp.split(parameters, 2, axis=-1)
    at_zero = math.log(math.expm1(max(start_std - SMALLEST_STD, SMALLEST_STD)))
    return Gaussian(mean, jax.nn.softplus(raw + at_zero) + SMALLEST_STD)


def kl_divergence(p: Gaussian, r: Gaussian) -> Float[Array, "*b d"]:
    """D_KL(p || r) of each dimension."""
    ratio = jnp.square(p.std / r.std)
    return 0.5 * (ratio + jnp.square((p.mean - r.mean) / r.std) - 1.0 - jnp.log(ratio))


class GaussianBottleneck(eqx.Module):
    """z ~ p(Z | g), at the cost of D_KL(p || r) with the learned prior r(Z | m)."""

    posterior: Linear
    prior: Linear
    start_std: float = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        size = config.slot_size
        self.posterior = Linear(size, 2 * size, k1)
        self.prior = Linear(size, 2 * size, k2, gain=0.1)
        # Much noise at the start drowns what sets the retrieved means of two tasks apart.
        self.start_std = config.bottleneck_std

    def __call__(
        self, g: Float[Array, "K d"], m: Float[Array, "K d"], key: Key
    ) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
        """Consumes `key`; without one, z is the mean of p. Also returns the divergence of each dimension."""
        p = gaussian_from(self.posterior(g), self.start_std)
        noise = 0.0 if key is None else p.std * jax.random.normal(key, p.mean.shape)
        return p.mean + noise, kl_divergence(p, gaussian_from(self.prior(m), self.start_std))


class IdentityBottleneck(eqx.Module):
    """ "Without IB": z = g at no cost."""

    def __init__(self, config: RetrievalConfig, key: PRNGKeyArray):
        del config, key

    def __call__(
        self, g: Float[Array, "K d"], m: Float[Array, "K d"], key: Key
    ) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
        del m, key
        return g, jnp.zeros_like(g)


BOTTLENECKS = {"gaussian": GaussianBottleneck, "identity": IdentityBottleneck}
KL_REDUCTIONS = {"sum": jnp.sum, "mean": jnp.mean}
