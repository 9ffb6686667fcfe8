"""What the report needs to draw boards, and to say what is seen on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2a.environments.gridroboman.dynamics import ACTION_NAMES, BOARD_SIZE, EPISODE_LENGTH
from r2a.environments.gridroboman.render import GRID, HELD, LAYERS, OBJECTS, ROBOT, WALL, WHITE, held_object

STORY = (
    "A robot (black) moves on a small board and can lift and put down three coloured blocks. One network steers it, "
    "for {tasks} tasks such as \u201clift red\u201d."
)
REWARD = f"Every one of the {EPISODE_LENGTH} steps of an episode that ends with the task solved earns one point."


def look() -> dict[str, Any]:
    """How a board is drawn: the numbers of render.py, so that there is one look."""
    return {
        "size": BOARD_SIZE,
        "layers": LAYERS,
        "held": HELD,
        "white": _css(WHITE),
        "grid": _css(GRID),
        "wall": _css(WALL),
        "robot": _css(ROBOT),
        "objects": [_css(colour) for colour in OBJECTS],
        "actions": ACTION_NAMES,
        "steps": EPISODE_LENGTH,
    }


def board_data(observation: np.ndarray) -> list[int]:
    """The 11-vector and, as a twelfth number, the held object (-1: none)."""
    held = held_object(observation)
    return [*(int(value) for value in observation), -1 if held is None else held]


def _css(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
