"""h(x), which brings returns of any size to one scale (App. Atari, Table 3; MuZero's and R2D2's)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

SLOPE = 1e-3
"""epsilon of h."""


def squash(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, written so that nothing cancels where x is small."""
    return x / (jnp.sqrt(jnp.abs(x) + 1.0) + 1.0) + SLOPE * x


def unsquash(y: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """The inverse of h."""
    # With r = sqrt(|x| + 1): epsilon r^2 + r = |y| + 1 + epsilon, and |x| = (r - 1) (r + 1).
    root = jnp.sqrt(1.0 + 4.0 * SLOPE * (jnp.abs(y) + 1.0 + SLOPE))
    beyond = 2.0 * y / (1.0 + 2.0 * SLOPE + root)  # sign(y) (r - 1)
    return beyond * (jnp.abs(beyond) + 2.0)
