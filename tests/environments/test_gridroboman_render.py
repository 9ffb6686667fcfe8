"""The picture of a board."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from r2a.environments.gridroboman.render import GRID, OBJECTS, ROBOT, WALL, WHITE, held_object, render
from r2a.environments.registry import make

RED, GREEN, BLUE = OBJECTS
# Red at the robot and green a step away: each of these is a different situation.
SITUATIONS = {
    "apart": [1, 1, 4, 2, 5, 5, 3, 4, 0, 0, 0],
    "robot on red": [3, 4, 4, 2, 5, 5, 3, 4, 0, 0, 0],
    "red in hand": [3, 4, 4, 2, 5, 5, 3, 4, 1, 0, 0],
    "red on green": [4, 2, 4, 2, 5, 5, 3, 4, 1, -1, 0],
    "green on red": [4, 2, 4, 2, 5, 5, 3, 4, -1, 1, 0],
    "robot on a stack": [4, 2, 4, 2, 5, 5, 4, 2, 1, -1, 0],
    "red in hand over green": [4, 2, 4, 2, 5, 5, 4, 2, 1, 0, 0],
    "blue in hand beside a stack": [4, 2, 4, 2, 5, 5, 5, 5, 1, -1, 1],
    "everything on one cell": [4, 2, 4, 2, 4, 2, 4, 2, 1, -1, 1],
}


def colours(image: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(pixel) for line in image for pixel in np.unique(line, axis=0).tolist()}


def cell_of(image: np.ndarray, x: int, y: int, cell: int) -> np.ndarray:
    return image[(y + 1) * cell : (y + 2) * cell, (x + 1) * cell : (x + 2) * cell]


@pytest.mark.parametrize("cell", [8, 16, 24, 32])
def test_every_situation_looks_different(cell):
    images = [render(observation, cell) for observation in SITUATIONS.values()]
    assert all(image.shape == (9 * cell, 9 * cell, 3) and image.dtype == np.uint8 for image in images)
    for a, b in itertools.combinations(images, 2):
        assert (a != b).any()


@pytest.mark.parametrize("cell", [16, 32])
def test_all_colours_show_even_in_a_pile(cell):
    for observation in SITUATIONS.values():
        assert colours(render(observation, cell)) == {WHITE, GRID, WALL, ROBOT, RED, GREEN, BLUE}
    pile = cell_of(render(SITUATIONS["everything on one cell"], cell), 4, 2, cell)
    assert colours(pile) >= {ROBOT, RED, GREEN, BLUE}


def test_x_is_the_column_and_y_the_row_from_above():
    image = render(SITUATIONS["apart"], 16)
    assert RED in colours(cell_of(image, 1, 1, 16))
    assert GREEN in colours(cell_of(image, 4, 2, 16))
    assert ROBOT in colours(cell_of(image, 3, 4, 16))
    assert colours(image[:16]) == {WALL}
    assert colours(cell_of(image, 6, 6, 16)) == {WHITE, GRID}


def test_who_is_held():
    expected = {"red in hand": 0, "red in hand over green": 0, "blue in hand beside a stack": 2}
    for name, observation in SITUATIONS.items():
        if name != "everything on one cell":  # the observation does not tell
            assert held_object(observation) == expected.get(name), name


def test_a_row_is_drawn_as_it_is_seen():
    env = make("gridroboman", num_envs=2)
    now = env.reset(["lift red"] * 2, [0, 1])
    np.testing.assert_array_equal(env.render(1), render(now.observation[1], 24))
