"""What BabyAI agents see, for many worlds at once: bit for bit minigrid's observation, without its loops.

A world's cells are kept as one number each, in a square with a margin of walls, so that every view lies inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, UInt8

VIEW = 7  # cells to a side; the agent stands in the middle of the last row
MARGIN = VIEW - 1
LARGEST_WORLD = 22  # three rooms of eight cells that share their walls
SIDE = LARGEST_WORLD + 2 * MARGIN
OBSERVATION_SIZE = VIEW * VIEW * 3 + 1

Codes = UInt8[np.ndarray, "B 1156"]
Numbers = Sequence[int] | np.ndarray

# minigrid/core/constants.py: what a cell is (type, colour, state), in one number.
_COLOURS, _STATES = 6, 3
_WALL, _DOOR, _CLOSED = 2, 4, 1


def code_of(kind: int, colour: int, state: int) -> int:
    """The number of a cell that minigrid encodes as these three."""
    return (kind * _COLOURS + colour) * _STATES + state


UNSEEN = code_of(0, 0, 0)
EMPTY = code_of(1, 0, 0)
OUTSIDE = code_of(_WALL, 5, 0)  # beyond the border minigrid shows grey walls

_CHANNELS = np.array(
    [(code // (_COLOURS * _STATES), code // _STATES % _COLOURS, code % _STATES) for code in range(256)], np.uint8
)
_LETS_SEE = ~((_CHANNELS[:, 0] == _WALL) | ((_CHANNELS[:, 0] == _DOOR) & (_CHANNELS[:, 2] >= _CLOSED)))


def _view_offsets() -> np.ndarray:
    """[direction, column, row] -> how far a seen cell lies from the agent's, in the flat square."""
    offsets = np.zeros((4, VIEW, VIEW), np.int64)
    for direction, (ahead_x, ahead_y) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        right_x, right_y = -ahead_y, ahead_x
        for column in range(VIEW):
            for row in range(VIEW):
                ahead, right = VIEW - 1 - row, column - VIEW // 2
                x, y = ahead * ahead_x + right * right_x, ahead * ahead_y + right * right_y
                offsets[direction, column, row] = y * SIDE + x
    return offsets


def _sight_tables() -> tuple[np.ndarray, np.ndarray]:
    """How sight spreads along a row and to the row beyond, by which of its cells are reached and let see.

    Index: cells reached from the row before, then cells that let see, one bit for each of the 7 columns. The first
    table gives all cells that are seen in the row, the second those reached in the next one. The sweeps are those
    of minigrid's `Grid.process_vis`.
    """
    cells = 2**VIEW
    bits = (np.arange(cells)[:, None] >> np.arange(VIEW)) & 1 == 1
    seen = np.repeat(bits[:, None], cells, axis=1)
    lets_see = np.repeat(bits[None], cells, axis=0)
    beyond = np.zeros_like(seen)
    sweeps = [(column, column + 1) for column in range(VIEW - 1)]
    sweeps += [(column, column - 1) for column in range(VIEW - 1, 0, -1)]
    for column, beside in sweeps:
        spreads = seen[..., column] & lets_see[..., column]
        seen[..., beside] |= spreads
        beyond[..., beside] |= spreads
        beyond[..., column] |= spreads
    weights = 1 << np.arange(VIEW)
    return (seen @ weights).astype(np.uint8), (beyond @ weights).astype(np.uint8)


_OFFSETS = _view_offsets()
_SEEN, _BEYOND = _sight_tables()
_COLUMN_BITS = (np.arange(2**VIEW)[:, None] >> np.arange(VIEW)) & 1 == 1
_BIT_WEIGHTS = 1 << np.arange(VIEW, dtype=np.uint8)
_OWN_CELL = (VIEW // 2, VIEW - 1)


class View(NamedTuple):
    """What is seen: observations [B, 148], and which of the 7 x 7 cells (column, row) are in sight."""

    observation: UInt8[np.ndarray, "B 148"]
    in_sight: Bool[np.ndarray, "B 7 7"]


def place(x: int, y: int) -> int:
    """Where the cell (x, y) of a world lies in its flat square."""
    return (y + MARGIN) * SIDE + x + MARGIN


def look(codes: Codes, places: Numbers, directions: Numbers, carried: Numbers) -> View:
    """The view of every world's agent: from where it stands, the way it faces, with what it carries (or EMPTY)."""
    starts = np.arange(0, codes.size, SIDE * SIDE) + places
    cells = codes.reshape(-1)[starts[:, None, None] + _OFFSETS[directions]]  # [B, column, row]
    lets_see = _BIT_WEIGHTS @ _LETS_SEE[cells]  # [B, row], a bit for each column
    in_sight = np.zeros((len(codes), VIEW, VIEW), bool)
    reached = np.full(len(codes), 1 << _OWN_CELL[0], np.uint8)
    for row in range(VIEW - 1, -1, -1):
        in_sight[:, :, row] = _COLUMN_BITS[_SEEN[reached, lets_see[:, row]]]
        reached = _BEYOND[reached, lets_see[:, row]]
    cells[:, *_OWN_CELL] = carried
    cells[~in_sight] = UNSEEN
    observation = np.empty((len(codes), OBSERVATION_SIZE), np.uint8)
    observation[:, :-1] = _CHANNELS[cells].reshape(len(codes), -1)
    observation[:, -1] = directions
    return View(observation, in_sight)


def seen_places(place_of_agent: int, direction: int, in_sight: np.ndarray) -> np.ndarray:
    """The flat places that one agent sees now; some may lie in the margin."""
    return place_of_agent + _OFFSETS[direction][in_sight]
