"""From observations to vectors, by `encoder.features`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from r2a.config import EncoderConfig, require
from r2a.networks.dense import MLP
from r2a.networks.pixels import Features, Images, ResNet47, Strided, as_images


class Encoder(eqx.Module):
    """f_enc: from observations with any leading axes, and an instruction that holds for all of them, to vectors."""

    def encode_instruction(self, instruction: Shaped[Array, " w"]) -> Shaped[Array, " h"]:
        """The instruction as it is needed, once for all observations; left as it is by those who need none."""
        return instruction

    @abstractmethod
    def __call__(self, observation: Shaped[Array, "..."], instruction: Shaped[Array, " h"]) -> Float[Array, "..."]:
        """The last axis is as long as the last of `encoder.hidden`."""


MakeEncoder = TypeVar("MakeEncoder", bound=Callable[[EncoderConfig, tuple[int, ...], PRNGKeyArray], Encoder])
VectorFeatures = Callable[[Shaped[Array, "*b n"]], Float[Array, "*b m"]]

ENCODERS: dict[str, Callable[[EncoderConfig, tuple[int, ...], PRNGKeyArray], Encoder]] = {}
"""What makes an encoder from its settings and an observation's shape. What one world alone needs is in its folder."""


def register_encoder(name: str) -> Callable[[MakeEncoder], MakeEncoder]:
    """Let `encoder.features` name what is decorated: an encoder, or what makes one."""

    def register(make: MakeEncoder) -> MakeEncoder:
        ENCODERS[name] = make
        return make

    return register


def register_features(name: str) -> Callable[[VectorFeatures], VectorFeatures]:
    """Let `encoder.features` name an encoder of vectors that begins with the decorated function."""

    def register(features: VectorFeatures) -> VectorFeatures:
        ENCODERS[name] = partial(VectorEncoder, features=features)
        return features

    return register


def build_encoder(config: EncoderConfig, observation_shape: tuple[int, ...], key: PRNGKeyArray) -> Encoder:
    """A new encoder with random parameters; consumes `key`."""
    names = f"it must be one of {', '.join(sorted(ENCODERS))}"
    require(config.features in ENCODERS, "encoder.features", config.features, names)
    return ENCODERS[config.features](config, observation_shape, key)


def raw_features(observation: Shaped[Array, "*b n"]) -> Float[Array, "*b n"]:
    """The observation's own numbers."""
    return observation.astype(jnp.float32)


@register_encoder("raw")
class VectorEncoder(Encoder):
    """Of observations that are a vector of numbers: features, then an MLP with ReLU throughout."""

    mlp: MLP
    features: VectorFeatures = eqx.field(static=True)

    def __init__(
        self,
        config: EncoderConfig,
        observation_shape: tuple[int, ...],
        key: PRNGKeyArray,
        features: VectorFeatures = raw_features,
    ):
        rule = f"that is for vectors, and observations have shape {observation_shape}"
        require(len(observation_shape) == 1, "encoder.features", config.features, rule)
        seen = jax.eval_shape(features, jax.ShapeDtypeStruct(observation_shape, jnp.float32))
        self.mlp = MLP((seen.shape[0], *config.hidden), key, activate_last=True)
        self.features = features

    def __call__(self, observation: Shaped[Array, "*b n"], instruction: Shaped[Array, " w"]) -> Float[Array, "*b d"]:
        del instruction
        return self.mlp(self.features(observation))


class PixelEncoder(Encoder):
    """Of observations that are pictures: convolutions, then dense layers with ReLU throughout."""

    torso: Callable[[Images], Features]
    mlp: MLP
    frames_first: bool = eqx.field(static=True)
    axes: int = eqx.field(static=True)

    def __init__(
        self,
        config: EncoderConfig,
        observation_shape: tuple[int, ...],
        key: PRNGKeyArray,
        torso: Callable[[int, PRNGKeyArray], Callable[[Images], Features]],
        frames_first: bool = True,
    ):
        rule = f"observations of shape {observation_shape} are no pictures"
        require(len(observation_shape) in (3, 4), "encoder.features", config.features, rule)
        torso_key, mlp_key = jax.random.split(key)
        self.frames_first, self.axes = frames_first, len(observation_shape)
        example = jax.ShapeDtypeStruct((1, *observation_shape), jnp.uint8)
        images = jax.eval_shape(partial(as_images, frames_first=frames_first), example)
        self.torso = torso(images.shape[-1], torso_key)
        seen = jax.eval_shape(self.torso, images)
        self.mlp = MLP((math.prod(seen.shape), *config.hidden), mlp_key, activate_last=True)

    def __call__(self, observation: Shaped[Array, "..."], instruction: Shaped[Array, " w"]) -> Float[Array, "..."]:
        del instruction
        leading, shape = observation.shape[: -self.axes], observation.shape[-self.axes :]
        features = self.torso(as_images(observation.reshape(-1, *shape), self.frames_first))
        return self.mlp(features.reshape(*leading, -1))


register_encoder("resnet47")(partial(PixelEncoder, torso=ResNet47))
register_encoder("strided")(partial(PixelEncoder, torso=Strided))
register_encoder("strided_half")(partial(PixelEncoder, torso=partial(Strided, stride=2)))
