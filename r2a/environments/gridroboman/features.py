"""What an agent makes of gridroboman's board: one-hot positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from r2a.environments.gridroboman.dynamics import BOARD_SIZE, OBSERVATION_SIZE
from r2a.networks.encoders import register_features

ENTITIES = 4
"""An observation has x and y of four things (the last one the robot), then three status numbers."""


@register_features("positions")
def position_features(observation: Shaped[Array, "*b n"]) -> Float[Array, "*b m"]:
    """One-hot coordinates, one-hot differences of each pair of things, one-hot status; further entries as they are."""
    numbers = observation[..., :OBSERVATION_SIZE].astype(jnp.int32)
    xy = numbers[..., : 2 * ENTITIES].reshape(*numbers.shape[:-1], ENTITIES, 2)
    first, second = jnp.triu_indices(ENTITIES, k=1)
    differences = xy[..., first, :] - xy[..., second, :] + (BOARD_SIZE - 1)
    status = numbers[..., 2 * ENTITIES :] + 1

    def one_hot(values: Array, size: int) -> Array:
        hot = jax.nn.one_hot(values, size, dtype=jnp.float32)
        return hot.reshape(*numbers.shape[:-1], -1)

    rest = observation[..., OBSERVATION_SIZE:].astype(jnp.float32)
    parts = [one_hot(xy, BOARD_SIZE), one_hot(differences, 2 * BOARD_SIZE - 1), one_hot(status, 3), rest]
    return jnp.concatenate(parts, axis=-1)
