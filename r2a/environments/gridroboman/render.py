"""A board as a picture, drawn from the 11-vector alone (App. "Gridroboman environment", the figure); and in reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Int, UInt8

from r2a.environments.gridroboman.dynamics import ACTION_NAMES, BOARD_SIZE, EPISODE_LENGTH, OBJECT_NAMES, RAISED, UNDER

WHITE = (255, 255, 255)
GRID = (208, 208, 208)
WALL = (148, 148, 148)
ROBOT = (20, 20, 20)
OBJECTS = ((222, 45, 38), (49, 163, 84), (49, 110, 210))  # red, green, blue

# The side of each layer in a cell, from the bottom up, as a share of the cell: what lies below keeps a rim.
LAYERS = (0.86, 0.62, 0.38)
HELD = 0.5  # the side of a held object as a share of the robot that holds it

STORY = (
    "A robot (black) moves on a small board and can lift and put down three coloured blocks. One network steers it, "
    "for {tasks} tasks such as \u201clift red\u201d."
)
REWARD = f"Every one of the {EPISODE_LENGTH} steps of an episode that ends with the task solved earns one point."

AnyObservation = Int[Array, " 11"] | Int[np.ndarray, " 11"] | Sequence[int]
Image = UInt8[np.ndarray, "height width 3"]


def render(observation: AnyObservation, cell: int = 24) -> Image:
    """Draw a board with `cell` pixels per cell, the wall ring included; stacks and held objects nest."""
    values = np.asarray(observation).astype(int)
    positions, status = values[:8].reshape(4, 2), values[8:]
    objects, robot = positions[:3], positions[3]
    held = held_object(values)
    image = _empty_board(cell)

    lying = [i for i in range(len(OBJECT_NAMES)) if i != held]
    below_first = sorted(lying, key=lambda i: status[i] != UNDER)
    for i in below_first:
        layer = 1 if status[i] == RAISED else 0
        _square(image, objects[i], LAYERS[layer], OBJECTS[i], cell)
    under_robot = sum(bool((objects[i] == robot).all()) for i in lying)
    _square(image, robot, LAYERS[under_robot], ROBOT, cell)
    if held is not None:
        _square(image, robot, LAYERS[under_robot] * HELD, OBJECTS[held], cell)
    return image


def held_object(observation: AnyObservation) -> int | None:
    """Which object the robot holds, as far as the observation tells.

    On a stack with an object in hand two objects at the robot have status +1: the first of them is taken.
    """
    values = np.asarray(observation).astype(int)
    positions, status = values[:8].reshape(4, 2), values[8:]
    stacks, raised = (status == UNDER).sum(), (status == RAISED).sum()
    if raised == stacks:
        return None
    at_robot = (positions[:3] == positions[3]).all(axis=1)
    return int(np.flatnonzero((status == RAISED) & at_robot)[0])


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


def _empty_board(cell: int) -> Image:
    side = (BOARD_SIZE + 2) * cell
    image = np.full((side, side, 3), WALL, np.uint8)
    # One more pixel than the cells need closes the last grid line.
    board = image[cell : side - cell + 1, cell : side - cell + 1]
    board[:] = WHITE
    board[::cell] = GRID
    board[:, ::cell] = GRID
    return image


def _square(image: Image, place: np.ndarray, share: float, colour: tuple[int, int, int], cell: int) -> None:
    """Fill a centred square; the cell's own pixels begin after its grid line."""
    inside = cell - 1
    inset = round((inside - share * inside) / 2)
    left, top = (int(place[0]) + 1) * cell + 1, (int(place[1]) + 1) * cell + 1
    image[top + inset : top + inside - inset, left + inset : left + inside - inset] = colour


def _css(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
