"""From observations to vectors."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from r2a.config import EncoderConfig
from r2a.networks.dense import MLP

BOARD_SIZE = 7
"""Side of the board whose coordinates the `positions` features read."""
ENTITIES, STATUSES = 4, 3
"""The layout they read: x and y of four things (the last one the robot), then three status numbers."""
BOARD_NUMBERS = 2 * ENTITIES + STATUSES


def raw_features(observation: Shaped[Array, "*b n"]) -> Float[Array, "*b n"]:
    """The observation's own numbers."""
    return observation.astype(jnp.float32)


def position_features(observation: Shaped[Array, "*b n"]) -> Float[Array, "*b m"]:
    """One-hot coordinates, one-hot differences of each pair of things, one-hot status; further entries as they are."""
    numbers = observation[..., :BOARD_NUMBERS].astype(jnp.int32)
    xy = numbers[..., : 2 * ENTITIES].reshape(*numbers.shape[:-1], ENTITIES, 2)
    first, second = jnp.triu_indices(ENTITIES, k=1)
    differences = xy[..., first, :] - xy[..., second, :] + (BOARD_SIZE - 1)
    status = numbers[..., 2 * ENTITIES :] + 1

    def one_hot(values: Array, size: int) -> Array:
        hot = jax.nn.one_hot(values, size, dtype=jnp.float32)
        return hot.reshape(*numbers.shape[:-1], -1)

    rest = observation[..., BOARD_NUMBERS:].astype(jnp.float32)
    parts = [one_hot(xy, BOARD_SIZE), one_hot(differences, 2 * BOARD_SIZE - 1), one_hot(status, 3), rest]
    return jnp.concatenate(parts, axis=-1)


FEATURES = {"raw": raw_features, "positions": position_features}


class VectorEncoder(eqx.Module):
    """f_enc for observations that are a vector of numbers: features, then an MLP with ReLU throughout."""

    mlp: MLP
    features: str = eqx.field(static=True)

    def __init__(self, config: EncoderConfig, observation_size: int, key: PRNGKeyArray):
        feature_size = jax.eval_shape(
            FEATURES[config.features], jax.ShapeDtypeStruct((observation_size,), jnp.float32)
        ).shape[0]
        self.mlp = MLP((feature_size, *config.hidden), key, activate_last=True)
        self.features = config.features

    def __call__(self, observation: Shaped[Array, "*b n"]) -> Float[Array, "*b d"]:
        return self.mlp(FEATURES[self.features](observation))
