"""From the emulator's screen to what an agent sees."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, UInt8

HEIGHT, WIDTH = 210, 160
SIDE = 84
"""Of the usual picture; half of it, 42, is what a CPU can learn from in hours."""

# 84 of 210 rows: five rows become two, the middle one of the five is shared. 84 of 160 columns: 40 become 21.
ROWS_IN, ROWS_OUT = 5, 2
COLUMNS_IN, COLUMNS_OUT = 40, 21


def _share_of_columns() -> Float32[np.ndarray, "40 21"]:
    """How much of each output column's width comes from each input column."""
    width = COLUMNS_IN / COLUMNS_OUT
    left = np.arange(COLUMNS_IN)[:, None]
    start = width * np.arange(COLUMNS_OUT)[None, :]
    overlap = np.minimum(left + 1, start + width) - np.maximum(left, start)
    return (np.maximum(overlap, 0.0) / width).astype(np.float32)


SHARE_OF_COLUMNS = _share_of_columns()


def shrink(screen: UInt8[np.ndarray, "210 160"], side: int = SIDE) -> UInt8[np.ndarray, "{side} {side}"]:
    """Every pixel is the mean brightness of the area it covers; the picture's side is 84 or 42.

    The usual resampling of Atari agents (OpenCV's INTER_AREA), up to rounding. The exact ratios make it a few sums and
    one small product: half the time of Pillow's.
    """
    rows = screen.astype(np.float32).reshape(HEIGHT // ROWS_IN, ROWS_IN, WIDTH)
    half = 0.5 * rows[:, 2]
    fewer = np.empty((HEIGHT // ROWS_IN, ROWS_OUT, WIDTH), np.float32)
    np.add(rows[:, 0], rows[:, 1], out=fewer[:, 0])
    np.add(rows[:, 3], rows[:, 4], out=fewer[:, 1])
    fewer += half[:, None]
    means = fewer.reshape(-1, COLUMNS_IN) @ SHARE_OF_COLUMNS
    means *= ROWS_OUT / ROWS_IN
    if side != SIDE:
        means = means.reshape(side, SIDE // side, side, SIDE // side).mean((1, 3))
    means += 0.5  # what follows cuts off
    return means.astype(np.uint8).reshape(side, side)
