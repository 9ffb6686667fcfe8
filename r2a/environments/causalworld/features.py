"""What an agent makes of CausalWorld's numbers: poses, and no speeds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from r2a.networks.encoders import register_features

CLOCK_AND_SPEEDS = (0, *range(10, 19), *range(40, 46), *range(58, 64))
"""Where the observation (`layout.py`) tells the time left and how fast joints and blocks move."""


@register_features("poses")
def pose_features(observation: Shaped[Array, "*b 148"]) -> Float[Array, "*b 126"]:
    """The observation without clock and speeds.

    What the expert does hardly depends on them, but they tell what it has just done: an agent that clones it by them
    goes on as it went, and rests where it came to rest.
    """
    kept = np.setdiff1d(np.arange(observation.shape[-1]), CLOCK_AND_SPEEDS)
    return observation[..., kept].astype(jnp.float32)
