"""Numbers of which one is drawn with a chance in proportion to it, in a time that grows with the root of their count.

A sum is computed anew from its leaves whenever one of them changes, so that it depends on nothing but these: no error
can build up, and leaves that are put back give back all sums, bit for bit.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


class SumTree:
    """Leaves, none negative, in rows, and the sum of each row."""

    def __init__(self, leaves: int):
        # Looking at all sums takes about as long as looking at 64 rows, and so many leaves are usually drawn together.
        self.width = max(8, int((leaves / 64) ** 0.5))
        self.rows = np.zeros((-(-leaves // self.width), self.width))
        self.sums = np.zeros(len(self.rows))
        self.values = self.rows.reshape(-1)[:leaves]  # to be changed by `set` only

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self.sums.sum())

    def set(self, places: Int[np.ndarray, " n"], values: Float[np.ndarray, " n"] | float) -> None:
        """Give the leaves at these places new values; where a place is named twice, the later value stays."""
        self.values[places] = values
        rows = places // self.width
        self.sums[rows] = self.rows.take(rows, axis=0).sum(axis=1)

    def find(self, targets: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """For each target from 0 to `total`, which is not 0, the first leaf up to which all sum up to more; no zero."""
        edges = np.zeros(len(self.sums) + 1)
        np.add.accumulate(self.sums, out=edges[1:])
        # Where rounding leaves a rest after the last leaf that is not zero, the target falls on that one.
        targets = np.minimum(targets, np.nextafter(edges[-1], 0.0))
        rows = edges.searchsorted(targets, "right") - 1
        inside = self.rows.take(rows, axis=0).cumsum(axis=1)
        rest = np.minimum(targets - edges[rows], np.nextafter(inside[:, -1], 0.0))
        return rows * self.width + (inside > rest[:, None]).argmax(axis=1)

    def take(self, uniform: float) -> int | None:
        """Draw one leaf by a uniform number from 0 up to 1, and set it to zero; None, if all are."""
        edges = self.sums.cumsum()
        if edges[-1] == 0.0:
            return None
        target = min(uniform * edges[-1], np.nextafter(edges[-1], 0.0))
        row = int(edges.searchsorted(target, "right"))
        leaves, inside = self.rows[row], self.rows[row].cumsum()
        rest = min(target - (edges[row - 1] if row else 0.0), np.nextafter(inside[-1], 0.0))
        column = int(inside.searchsorted(rest, "right"))
        leaves[column] = 0.0
        self.sums[row] = leaves.sum()
        return row * self.width + column
