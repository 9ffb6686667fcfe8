"""Step 4 of Algorithm 1: a price on retrieved information (Sec. 2.3, App. information theoretic formulation)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.networks.dense import Linear


class Gaussian(NamedTuple):
    """A Gaussian with independent dimensions."""

    mean: Float[Array, "*b d"]
    std: Float[Array, "*b d"]


def gaussian_from(parameters: Float[Array, "*b e"]) -> Gaussian:
    """Splits a network's output into mean and standard deviation; zeros give a standard deviation of 0.3."""
    mean, raw = jnp.split(parameters, 2, axis=-1)
    # Much more noise at the start would drown what sets the retrieved means of two tasks apart.
    return Gaussian(mean, jax.nn.softplus(raw - 1.0502) + 1e-3)


def kl_divergence(p: Gaussian, r: Gaussian) -> Float[Array, "*b d"]:
    """D_KL(p || r) of each dimension."""
    ratio = jnp.square(p.std / r.std)
    return 0.5 * (ratio + jnp.square((p.mean - r.mean) / r.std) - 1.0 - jnp.log(ratio))


class GaussianBottleneck(eqx.Module):
    """z ~ p(Z | g), paid for by D_KL(p || r) with the learned prior r(Z | m)."""

    posterior: Linear
    prior: Linear

    def __init__(self, size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.posterior = Linear(size, 2 * size, k1)
        self.prior = Linear(size, 2 * size, k2, gain=0.1)

    def __call__(
        self, g: Float[Array, "K d"], m: Float[Array, "K d"], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
        """Consumes `key`; without one, z is the mean of p. Also returns the divergence of each dimension."""
        p = gaussian_from(self.posterior(g))
        noise = 0.0 if key is None else p.std * jax.random.normal(key, p.mean.shape)
        return p.mean + noise, kl_divergence(p, gaussian_from(self.prior(m)))


class IdentityBottleneck(eqx.Module):
    """ "Without IB": z = g at no price."""

    def __init__(self, size: int, key: PRNGKeyArray):
        del size, key

    def __call__(
        self, g: Float[Array, "K d"], m: Float[Array, "K d"], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
        del m, key
        return g, jnp.zeros_like(g)


BOTTLENECKS = {"gaussian": GaussianBottleneck, "identity": IdentityBottleneck}
KL_REDUCTIONS = {"sum": jnp.sum, "mean": jnp.mean}
