"""What an agent makes of MinAtar's board: a convolution."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from r2a.networks.encoders import PixelEncoder, register_encoder
from r2a.networks.pixels import Convolution, Features, Images


class BoardConvolution(eqx.Module):
    """One 3 x 3 convolution with 16 channels (MinAtar, Young and Tian 2019).

    A row of the result is one matrix product of three rows of the board. The matrix is mostly zeros, yet with six or
    seven channels the product takes 0.6 of XLA's convolution's time on a CPU, and with four as much.
    """

    layer: Convolution

    def __init__(self, channels: int, key: PRNGKeyArray):
        self.layer = Convolution(channels, 16, 3, key, padding="VALID")

    def __call__(self, images: Images) -> Features:
        number, height, width, channels = images.shape
        kernel, size = self.layer.weight.shape[0], width * channels
        # What the convolution makes of each single pixel of three rows.
        pixels = jnp.eye(kernel * size).reshape(-1, kernel, width, channels)
        from_rows = self.layer.without_bias(pixels)
        board = images.reshape(number, height, size)
        rows = [board[:, first : height - kernel + 1 + first] for first in range(kernel)]
        product = jnp.concatenate(rows, axis=-1) @ from_rows.reshape(kernel * size, -1)
        return jax.nn.relu(product.reshape(number, height - kernel + 1, *from_rows.shape[2:]) + self.layer.bias)


register_encoder("minatar")(partial(PixelEncoder, torso=BoardConvolution, frames_first=False))
