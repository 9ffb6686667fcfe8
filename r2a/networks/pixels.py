"""Convolutions of pictures."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

Images = Float[Array, "n h w c"]
"""Pictures as the layers here take them: one batch axis, channels last."""
Features = Float[Array, "n i j d"]
"""What becomes of them where sizes change."""


class Convolution(eqx.Module):
    """A convolution of a batch of pictures.

    XLA's own: sums of matrix products over shifted pictures took two to three times as long on a CPU, the order of the
    axes made no difference. Under `vmap` it stays one convolution, of a larger batch. Not `eqx.nn.Conv2d`, for channels
    come last, as environments show them; nor `eqx.nn.GroupNorm` below.
    """

    weight: Float[Array, "k k c_in c_out"]
    bias: Float[Array, " c_out"]
    stride: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)

    def __init__(
        self,
        c_in: int,
        c_out: int,
        kernel: int,
        key: PRNGKeyArray,
        *,
        stride: int = 1,
        padding: str = "SAME",
        gain: float = 2**0.5,
    ):
        scale = gain * (kernel * kernel * c_in) ** -0.5
        self.weight = scale * jax.random.normal(key, (kernel, kernel, c_in, c_out))
        self.bias = jnp.zeros(c_out)
        self.stride, self.padding = stride, padding

    def __call__(self, images: Images) -> Features:
        return self.without_bias(images) + self.bias

    def without_bias(self, images: Images) -> Features:
        """Its linear part."""
        strides = (self.stride, self.stride)
        axes = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(images, self.weight, strides, self.padding, dimension_numbers=axes)


class GroupNorm(eqx.Module):
    """Zero mean and unit variance over a picture and a group of its channels, then a learned scale and shift."""

    scale: Float[Array, " c"]
    shift: Float[Array, " c"]
    group_size: int = eqx.field(static=True)

    def __init__(self, channels: int, group_size: int):
        self.scale, self.shift = jnp.ones(channels), jnp.zeros(channels)
        self.group_size = group_size

    def __call__(self, images: Images) -> Images:
        grouped = images.reshape(*images.shape[:-1], -1, self.group_size)
        centred = grouped - grouped.mean((1, 2, 4), keepdims=True)
        variance = jnp.square(centred).mean((1, 2, 4), keepdims=True)
        return (centred * jax.lax.rsqrt(variance + 1e-5)).reshape(images.shape) * self.scale + self.shift


class ResidualBlock(eqx.Module):
    """A residual block: 1 x 1, 3 x 3 and 1 x 1 convolutions, each with ReLU before it."""

    layers: tuple[Convolution, Convolution, Convolution]

    def __init__(self, channels: int, inner: int, key: PRNGKeyArray):
        first, second, third = jax.random.split(key, 3)
        self.layers = (
            Convolution(channels, inner, 1, first),
            Convolution(inner, inner, 3, second),
            Convolution(inner, channels, 1, third, gain=1.0),
        )

    def __call__(self, images: Images) -> Images:
        update = images
        for layer in self.layers:
            update = layer(jax.nn.relu(update))
        return images + update


class Group(eqx.Module):
    """A convolution that halves the picture, residual blocks, group norm."""

    halve: Convolution
    blocks: tuple[ResidualBlock, ...]
    norm: GroupNorm

    def __init__(self, c_in: int, channels: int, inner: int, blocks: int, key: PRNGKeyArray):
        keys = jax.random.split(key, blocks + 1)
        self.halve = Convolution(c_in, channels, 3, keys[0], stride=2)
        self.blocks = tuple(ResidualBlock(channels, inner, block_key) for block_key in keys[1:])
        self.norm = GroupNorm(channels, GROUP_SIZE)

    def __call__(self, images: Images) -> Features:
        images = self.halve(images)
        for block in self.blocks:
            images = block(images)
        return jax.nn.relu(self.norm(images))


GROUPS = ((2, 64, 16), (4, 128, 32), (6, 256, 64), (2, 512, 128))  # App. visual encoder
"""Blocks of each group, channels of their last convolutions, channels of the others."""
GROUP_SIZE = 8  # App. visual encoder
"""Channels that are normalised together."""


class ResNet47(eqx.Module):
    """The paper's visual encoder but for its last layer, which is dense (App. visual encoder).

    Four groups of a halving convolution and 2, 4, 6 and 2 blocks of three make 46 layers.
    """

    groups: tuple[Group, ...]

    def __init__(self, channels: int, key: PRNGKeyArray):
        groups = []
        for (blocks, outer, inner), group_key in zip(GROUPS, jax.random.split(key, len(GROUPS)), strict=True):
            groups.append(Group(channels, outer, inner, blocks, group_key))
            channels = outer
        self.groups = tuple(groups)

    def __call__(self, images: Images) -> Features:
        for group in self.groups:
            images = group(images)
        return images


class Strided(eqx.Module):
    """Two convolutions that skip pixels instead of pooling them: what a CPU can learn with (DQN, Mnih et al. 2013).

    The first takes twice its stride: 8 x 8 pixels of 84 x 84, or half as many of 42 x 42.
    """

    layers: tuple[Convolution, Convolution]

    def __init__(self, channels: int, key: PRNGKeyArray, stride: int = 4):
        first, second = jax.random.split(key)
        self.layers = (
            Convolution(channels, 16, 2 * stride, first, stride=stride, padding="VALID"),
            Convolution(16, 32, 4, second, stride=2, padding="VALID"),
        )

    def __call__(self, images: Images) -> Features:
        for layer in self.layers:
            images = jax.nn.relu(layer(images))
        return images


def as_images(observation: Shaped[Array, "n ..."], frames_first: bool) -> Images:
    """Channels last, and bytes as numbers from 0 to 1; the colours of several pictures are channels side by side.

    With `frames_first` they are a stack of grey frames, [frames h w], or pictures, [pictures h w colours]; otherwise
    [h w channels].
    """
    if observation.ndim == 5:
        observation = jnp.moveaxis(observation, 1, 3).reshape(len(observation), *observation.shape[2:4], -1)
    elif frames_first:
        observation = jnp.moveaxis(observation, 1, -1)
    numbers = observation.astype(jnp.float32)
    return numbers / 255.0 if observation.dtype == jnp.uint8 else numbers
