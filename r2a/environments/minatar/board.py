"""One game of MinAtar, seeded episode by episode."""

from __future__ import annotations

import logging
from importlib import import_module

import numpy as np
from jaxtyping import Bool, UInt8

from r2a.config import MinAtarConfig
from r2a.environments.games import Outcome
from r2a.environments.lanes import require_game
from r2a.environments.minatar import GAMES
from r2a.errors import UserError

SIDE = 10
PIXELS = 16
"""Side of a cell in a picture."""
NOOP = 0
ACTION_NAMES = ("NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE")
COLOURS = np.array(
    [
        (0, 0, 0),
        (86, 180, 233),
        (230, 159, 0),
        (128, 128, 128),
        (0, 158, 115),
        (204, 121, 167),
        (240, 228, 66),
        (213, 94, 0),
        (0, 114, 178),
        (180, 120, 60),
        (240, 240, 240),
    ],
    np.uint8,
)
"""Of the background and of each channel; easy to tell apart for the colour-blind (Okabe and Ito)."""


class Board:
    """A `Game` of MinAtar.

    The package's own wrapper of the games is not used: it carries the last action over from one episode to the next,
    which makes an episode depend on the one before. The rules, repeated actions among them, are the package's.
    """

    def __init__(self, config: MinAtarConfig):
        require_game(config.game, GAMES, "minatar.game")
        self.config = config
        self._game = _rules(config.game)(ramping=config.ramping)
        self._codes = list(range(len(ACTION_NAMES))) if config.all_actions else self._game.minimal_action_set()
        self.action_names = tuple(ACTION_NAMES[code] for code in self._codes)
        self._last = NOOP

    @property
    def channels(self) -> int:
        """Kinds of things there are in this game."""
        return self._game.state_shape()[2]

    def begin(self, seed: np.random.SeedSequence) -> None:
        """Start an episode."""
        self._game.random = np.random.RandomState(np.random.MT19937(seed))
        self._last = NOOP
        self._game.reset()

    def act(self, action: int) -> Outcome:
        """Do one action, or the one before once more."""
        code = self._codes[action]
        if self._game.random.rand() < self.config.sticky:
            code = self._last
        self._last = code
        reward, over = self._game.act(code)
        return Outcome(float(reward), bool(over), life_lost=False)

    def observation(self) -> Bool[np.ndarray, "10 10 c"]:
        """Which kinds of things are in which cell."""
        return self._game.state().astype(bool)

    def picture(self) -> UInt8[np.ndarray, "160 160 3"]:
        """The board with one colour for each kind of thing; of several in a cell, the last is seen."""
        kinds = self.observation() * np.arange(1, self.channels + 1)
        colours = COLOURS[kinds.max(axis=-1)]
        return colours.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)


def _rules(game: str) -> type:
    """The package's class of a game; its warning about drawing, which is done here without it, is left out."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return import_module(f"minatar.environments.{game}").Env
    except ModuleNotFoundError as error:
        raise UserError("MinAtar is missing: pip install 'r2a[minatar]'.") from error
    finally:
        logging.disable(before)
