"""Numbers of which one is drawn with a chance in proportion to it, in a time that hardly depends on how many they are.

Every node has eight children, which lie side by side: a line of a processor's cache. A node is the sum of its
children, computed anew whenever one of them changes, so that it depends on nothing but the leaves: no error
can build up, and leaves that are put back give back all sums, bit for bit.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from r2a.data.replay.compiled import compiled, fetch_bytes

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
        places = np.empty(targets.size, np.int64)
        find_leaves(self.nodes, self.starts, targets.astype(np.float64), places)
        return places

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
def find_child(nodes, first, target):
    """Which of the eight nodes from `first` on `target` falls on, and what is left of it there.

    It is one that is not zero, if any is: where rounding leaves a rest after the last, the last that is not.
    """
    chosen, rest = 0, target
    for child in range(CHILDREN):
        value = nodes[first + child]
        if value > 0.0:
            chosen, rest = child, target
            if target < value:
                break
            target -= value
    return chosen, rest


@compiled
@no_type_check
def find_leaf(nodes, starts, target):
    """The leaf that `target`, from 0 to the sum of all, falls on: one that is not zero, if any is."""
    place = 0
    for level in range(starts.size - 2, -1, -1):
        child, target = find_child(nodes, starts[level] + place * CHILDREN, target)
        place = place * CHILDREN + child
    return place


@compiled
@no_type_check
def set_leaves(nodes, starts, places, values):
    """Change leaves one after the other."""
    for i in range(places.size):
        set_leaf(nodes, starts, places[i], values[i])


@compiled
@no_type_check
def find_leaves(nodes, starts, targets, places):
    """The leaves that the targets fall on; what is left of the targets in `targets`.

    All go down level by level together: while one waits for its next nodes, those of the others are fetched as well.
    """
    places[:] = 0
    for level in range(starts.size - 2, -1, -1):
        for i in range(targets.size):
            child, targets[i] = find_child(nodes, starts[level] + places[i] * CHILDREN, targets[i])
            places[i] = places[i] * CHILDREN + child
            if level > 0:
                fetch_bytes(nodes, (starts[level - 1] + places[i] * CHILDREN) * 8, 64)


@compiled
@no_type_check
def draw_leaves(nodes, starts, uniforms, places, probability):
    """Draw one leaf from each of as many equal parts of the total as there are uniform numbers."""
    total, parts = nodes[starts[-1]], uniforms.size
    for i in range(parts):
        probability[i] = (i + uniforms[i]) / parts * total
    find_leaves(nodes, starts, probability, places)
    for i in range(parts):
        probability[i] = nodes[places[i]] / total
