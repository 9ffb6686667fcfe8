"""Gridroboman as a pycolab game, the engine the paper used: the rules told a second time, as a reference.

They are told in pycolab's own terms. Corners and centre are characters of the backdrop; what lies on top of
what is the order of painting: a block comes to the front when it is lifted, so the front block of a cell is
its top one. The engine is built directly: `pycolab.ascii_art`, which does not run on current numpy, could not
draw a robot that starts on a block anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

try:
    from pycolab import engine, things
    from pycolab.prefab_parts import sprites
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the reference game needs pycolab: pip install 'r2a[dev]'") from error

from r2a.environments.gridroboman.tasks import TASK_NAMES

WALL, CORNER, CENTRE, FLOOR = "#", "k", "c", "."
BOARD = (
    "#########",
    "#kk...kk#",
    "#kk...kk#",
    "#..ccc..#",
    "#..ccc..#",
    "#..ccc..#",
    "#kk...kk#",
    "#kk...kk#",
    "#########",
)
ROBOT, JUDGE = "P", "?"
BLOCKS = {"red": "r", "green": "g", "blue": "b"}
UP, DOWN, LEFT, RIGHT, LIFT, PUT, SKIP = range(7)

Things = Mapping[str, Any]  # sprites and drapes by character, in the order of painting
Rule = Callable[[Things, things.Backdrop], bool]


class Robot(sprites.MazeWalker):
    """Walks, and takes and leaves blocks; `hand` is the character of the block it holds."""

    def __init__(self, corner, position, character):
        super().__init__(corner, position, character, impassable=WALL)
        self.hand: str | None = None

    def update(self, actions, board, layers, backdrop, things, the_plot):
        walk = {UP: self._north, DOWN: self._south, LEFT: self._west, RIGHT: self._east}.get(actions)
        if walk is not None:
            walk(board, the_plot)
            return
        blocks_here = lying_at(things, self.position)
        if actions == LIFT and self.hand is None and blocks_here:
            self.hand = blocks_here[-1]
            front = [character for character in things if character in BLOCKS.values()][-1]
            if front != self.hand:
                the_plot.change_z_order(self.hand, front)
        elif actions == PUT and len(blocks_here) < 2:
            self.hand = None


class Block(things.Sprite):
    """Goes where the robot goes while it is held."""

    def update(self, actions, board, layers, backdrop, things, the_plot):
        if things[ROBOT].hand == self.character:
            self._position = things[ROBOT].position


class Judge(things.Drape):
    """Paints nothing; gives one reward per task, as a vector."""

    def __init__(self, curtain, character, task_names: Sequence[str]):
        super().__init__(curtain, character)
        self._rules = [rule_of(name) for name in task_names]

    def update(self, actions, board, layers, backdrop, things, the_plot):
        the_plot.add_reward(np.array([rule(things, backdrop) for rule in self._rules], np.float32))


class Game:
    """One episode of the pycolab game from a start board given as the 11-vector."""

    def __init__(self, observation: Sequence[int] | np.ndarray, task_names: Sequence[str] = TASK_NAMES):
        *positions, red, green, blue = (int(value) for value in observation)
        if (red, green, blue) != (0, 0, 0):
            raise ValueError("the pycolab game starts with every block on the board: all statuses must be 0")
        cells = [(y + 1, x + 1) for x, y in zip(positions[::2], positions[1::2], strict=True)]
        self._engine = engine.Engine(rows=len(BOARD), cols=len(BOARD[0]), occlusion_in_layers=False)
        art = np.array([[ord(character) for character in row] for row in BOARD], np.uint8)
        self._engine.set_prefilled_backdrop(WALL + CORNER + CENTRE + FLOOR, art, things.Backdrop)
        self._engine.add_sprite(ROBOT, cells[3], Robot)
        for character, cell in zip(BLOCKS.values(), cells[:3], strict=True):
            self._engine.add_sprite(character, cell, Block)
        self._engine.add_drape(JUDGE, Judge, task_names)
        self._engine.set_z_order([*BLOCKS.values(), JUDGE, ROBOT])
        self._engine.its_showtime()

    def play(self, action: int) -> np.ndarray:
        """Do one action; the rewards of the game's tasks after it."""
        _, rewards, _ = self._engine.play(action)
        return np.asarray(rewards)

    def observe(self) -> np.ndarray:
        """The 11-vector of the board."""
        shown = self._engine.things
        places = [shown[character].position for character in (*BLOCKS.values(), ROBOT)]
        statuses = [status_of(shown, character) for character in BLOCKS.values()]
        return np.array([v for place in places for v in (place.col - 1, place.row - 1)] + statuses, np.int8)


def lying_at(things: Things, position) -> list[str]:
    """The blocks that lie on a cell, the lowest first; one in the robot's hand does not lie."""
    hand = things[ROBOT].hand
    return [
        character
        for character, thing in things.items()
        if character in BLOCKS.values() and character != hand and thing.position == position
    ]


def status_of(things: Things, character: str) -> int:
    """+1 in hand or on top of another block, -1 under another block, else 0."""
    if things[ROBOT].hand == character:
        return 1
    pile = lying_at(things, things[character].position)
    if len(pile) == 1:
        return 0
    return 1 if pile[-1] == character else -1


def rule_of(name: str) -> Rule:
    """Read a task's name as a sentence."""
    match name.split():
        case ["touch", x]:
            return lambda things, _: things[ROBOT].hand is None and _steps(things, ROBOT, BLOCKS[x]) == 1
        case ["lift", x]:
            return lambda things, _: things[ROBOT].hand == BLOCKS[x]
        case [x, "touch", y]:
            return lambda things, _: things[ROBOT].hand == BLOCKS[x] and _steps(things, ROBOT, BLOCKS[y]) == 1
        case [x, "to", "corner"]:
            return lambda things, backdrop: _ground(things, backdrop, BLOCKS[x]) == CORNER
        case [x, "to", "center"]:
            return lambda things, backdrop: _ground(things, backdrop, BLOCKS[x]) == CENTRE
        case [x, "close", "to", y]:
            return lambda things, _: max(_apart(things, BLOCKS[x], BLOCKS[y])) <= 1
        case [x, "far", "from", y]:
            return lambda things, _: _steps(things, BLOCKS[x], BLOCKS[y]) > 9
        case [x, "on", y]:
            return lambda things, _: lying_at(things, things[BLOCKS[x]].position) == [BLOCKS[y], BLOCKS[x]]
    raise ValueError(f"no rule for the task {name!r}")


def _apart(things: Things, a: str, b: str) -> tuple[int, int]:
    here, there = things[a].position, things[b].position
    return abs(here.row - there.row), abs(here.col - there.col)


def _steps(things: Things, a: str, b: str) -> int:
    return sum(_apart(things, a, b))


def _ground(things: Things, backdrop: things.Backdrop, character: str) -> str:
    return chr(backdrop.curtain[things[character].position])
