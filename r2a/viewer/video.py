"""Pictures of an episode as a moving one."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from r2a.storage import atomic_write_bytes

COLOURS = 64
"""Colours of a film: games have few, and fewer make smaller files."""


def write_gif(
    pictures: Iterable[UInt8[np.ndarray, "h w 3"]], path: Path, *, frames_per_second: float = 15.0, every: int = 1
) -> None:
    """Write every `every`-th picture, and the last one, as a GIF that starts over at its end."""
    kept: list[np.ndarray] = []
    picture, number = None, -1
    for number, picture in enumerate(pictures):
        if number % every == 0:
            kept.append(picture)
    if picture is None:
        raise ValueError("a film needs at least one picture")
    if number % every:
        kept.append(picture)
    # One palette for all, of pictures from all over the film: colours do not flicker, and unchanged parts cost nothing.
    sample = np.concatenate(kept[:: max(1, len(kept) // 8)])
    palette = Image.fromarray(sample).quantize(COLOURS, dither=Image.Dither.NONE)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in kept]
    duration = max(20, round(1000 / frames_per_second))  # milliseconds; browsers slow down anything faster
    film = io.BytesIO()
    images[0].save(film, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0, optimize=True)
    atomic_write_bytes(path, film.getvalue())
