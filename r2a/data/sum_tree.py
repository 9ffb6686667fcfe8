"""Numbers of which one is drawn with a chance in proportion to it, in a time that hardly depends on how many they are.

Every node has eight children, which lie side by side: a line of a processor's cache. A node is the sum of its
children, computed anew whenever one of them changes, so that it depends on nothing but the leaves: no error
can build up, and leaves that are put back give back all sums, bit for bit.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from r2a.data.compiled import compiled

CHILDREN = 8


class SumTree:
    """Leaves, none negative, and the sums above them.

    `nodes` has the levels from the leaves to the root one after the other, each filled up with zeros to a multiple of
    eight; level i begins at `starts[i]`.
    """

    def __init__(self, leaves: int):
        self.leaves = leaves
        counts = [leaves]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // CHILDREN))
        padded = [-(-count // CHILDREN) * CHILDREN for count in counts]
        self.starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
        self.nodes = np.zeros(sum(padded), np.float64)

    @property
    def values(self) -> Float[np.ndarray, " leaves"]:
        """The leaves; to be changed by `set` only."""
        return self.nodes[: self.leaves]

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self.nodes[self.starts[-1]])

    def set(self, places: Int[np.ndarray, " n"], values: Float[np.ndarray, " n"]) -> None:
        """Give the leaves at these places new values; where a place is named twice, the later value stays."""
        set_leaves(self.nodes, self.starts, places.astype(np.int64), values.astype(np.float64))

    def find(self, targets: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """For each target from 0 to `total` the first leaf up to which the leaves sum up to more; never a zero."""
        return find_leaves(self.nodes, self.starts, targets.astype(np.float64))

    def restore(self, values: Float[np.ndarray, " leaves"]) -> None:
        """Give all leaves new values."""
        self.set(np.arange(self.leaves), values)


@compiled
@no_type_check
def set_leaf(nodes, starts, place, value):
    """Change one leaf, and the sums above it."""
    nodes[place] = value
    for level in range(1, starts.size):
        place //= CHILDREN
        first = starts[level - 1] + place * CHILDREN
        total = 0.0
        for child in range(first, first + CHILDREN):
            total += nodes[child]
        nodes[starts[level] + place] = total


@compiled
@no_type_check
def find_leaf(nodes, starts, target):
    """The leaf that `target`, from 0 to the sum of all, falls on: one that is not zero, if any is."""
    place = 0
    for level in range(starts.size - 2, -1, -1):
        first = place * CHILDREN
        for child in range(first, first + CHILDREN):
            value = nodes[starts[level] + child]
            if value > 0.0:
                place = child
                if target < value:
                    break
                # Rounding may leave a rest after the last child: then the last that is not zero is taken.
                target -= value
    return place


@compiled
@no_type_check
def set_leaves(nodes, starts, places, values):
    """Change leaves one after the other."""
    for i in range(places.size):
        set_leaf(nodes, starts, places[i], values[i])


@compiled
@no_type_check
def find_leaves(nodes, starts, targets):
    """The leaves that the targets fall on."""
    places = np.empty(targets.size, np.int64)
    for i in range(targets.size):
        places[i] = find_leaf(nodes, starts, targets[i])
    return places


@compiled
@no_type_check
def draw_leaves(nodes, starts, uniforms, places, probability):
    """Draw one leaf from each of as many equal parts of the total as there are uniform numbers."""
    total, parts = nodes[starts[-1]], uniforms.size
    for i in range(parts):
        places[i] = find_leaf(nodes, starts, (i + uniforms[i]) / parts * total)
        probability[i] = nodes[places[i]] / total
