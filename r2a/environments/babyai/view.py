"""What BabyAI agents see, for many worlds at once: bit for bit minigrid's observation, without its loops.

A world's cells are kept as one number each, in a square with a margin of walls, so that every view lies inside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, UInt8

VIEW = 7  # cells to a side; the agent stands in the middle of the last row
MARGIN = VIEW - 1
LARGEST_WORLD = 22  # three rooms of eight cells that share their walls
SIDE = LARGEST_WORLD + 2 * MARGIN
OBSERVATION_SIZE = VIEW * VIEW * 3 + 1

# minigrid/core/constants.py: what a cell is (type, colour, state), in one number.
_COLOURS, _STATES = 6, 3
_WALL, _DOOR, _CLOSED = 2, 4, 1


def code_of(kind: Any, colour: Any, state: Any) -> Any:
    """The number of a cell that minigrid encodes as these three, or the numbers of many."""
    return (kind * _COLOURS + colour) * _STATES + state


UNSEEN = code_of(0, 0, 0)
EMPTY = code_of(1, 0, 0)
OUTSIDE = code_of(_WALL, 5, 0)  # beyond the border minigrid shows grey walls

_CHANNELS = np.stack(np.unravel_index(np.arange(256), (256, _COLOURS, _STATES)), axis=-1).astype(np.uint8)
_LETS_SEE = ~((_CHANNELS[:, 0] == _WALL) | ((_CHANNELS[:, 0] == _DOOR) & (_CHANNELS[:, 2] >= _CLOSED)))


def _view_offsets() -> Int64[np.ndarray, "4 7 7"]:
    """[direction, column, row] -> how far a seen cell lies from the agent's, in the flat square."""
    ahead = np.array([1, SIDE, -1, -SIDE])[:, None, None]  # to the cell ahead, by direction
    right = np.roll(ahead, -1, axis=0)
    column, row = np.indices((VIEW, VIEW))
    return (VIEW - 1 - row) * ahead + (column - VIEW // 2) * right


OFFSETS = _view_offsets()
_COLUMN_BITS = (np.arange(2**VIEW)[:, None] >> np.arange(VIEW)) & 1 == 1
_BIT_WEIGHTS = 1 << np.arange(VIEW, dtype=np.uint8)
_OWN_CELL = (VIEW // 2, VIEW - 1)


def _sight_tables() -> tuple[np.ndarray, np.ndarray]:
    """How sight spreads along a row and to the row beyond, by which of its cells are reached and let see.

    Index: cells reached from the row before, then cells that let see, one bit for each of the 7 columns. The first
    table gives all cells that are seen in the row, the second those reached in the next one. The sweeps are those
    of minigrid's `Grid.process_vis`.
    """
    cells = len(_COLUMN_BITS)
    seen = np.repeat(_COLUMN_BITS[:, None], cells, axis=1)
    lets_see = np.repeat(_COLUMN_BITS[None], cells, axis=0)
    beyond = np.zeros_like(seen)
    sweeps = [(column, column + 1) for column in range(VIEW - 1)]
    sweeps += [(column, column - 1) for column in range(VIEW - 1, 0, -1)]
    for column, beside in sweeps:
        spreads = seen[..., column] & lets_see[..., column]
        seen[..., beside] |= spreads
        beyond[..., beside] |= spreads
        beyond[..., column] |= spreads
    return seen @ _BIT_WEIGHTS, beyond @ _BIT_WEIGHTS


_SEEN, _BEYOND = _sight_tables()


def place(x: int, y: int) -> int:
    """Where the cell (x, y) of a world lies in its flat square."""
    return (y + MARGIN) * SIDE + x + MARGIN


def look(
    codes: UInt8[np.ndarray, "B 1156"],
    places: Int64[np.ndarray, " B"],
    directions: Int64[np.ndarray, " B"],
    carried: UInt8[np.ndarray, " B"],
) -> tuple[UInt8[np.ndarray, "B 148"], Bool[np.ndarray, "B 7 7"]]:
    """What every agent observes from its place, with what it carries (or EMPTY), and which cells it sees.

    Cells in sight are told by [column, row] of the view.
    """
    starts = np.arange(0, codes.size, SIDE * SIDE) + places
    cells = codes.reshape(-1)[starts[:, None, None] + OFFSETS[directions]]  # [B, column, row]
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
    return observation, in_sight
