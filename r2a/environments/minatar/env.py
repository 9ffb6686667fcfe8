"""Games of MinAtar, seeded episode by episode."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import require_task
from r2a.environments.minatar import GAMES, MinAtarSettings
from r2a.errors import UserError

PIXELS = 16
"""Side of a cell in a picture."""
NOOP = 0
ACTION_NAMES = ("NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE")
_HEX = "000000 56b4e9 e69f00 808080 009e73 cc79a7 f0e442 d55e00 0072b2 b4783c f0f0f0"
COLOURS = np.array([tuple(bytes.fromhex(colour)) for colour in _HEX.split()], np.uint8)
"""Of the background and of each channel; easy to tell apart for the colour-blind (Okabe and Ito)."""


class MinAtarEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One game of MinAtar.

    The package's own wrapper of the games is not used: it carries the last action over from one episode to the next,
    which makes an episode depend on the one before. The rules, repeated actions among them, are the package's.
    """

    metadata = {"render_modes": ["rgb_array"], "seed_sequences": True}  # noqa: RUF012 (Gymnasium's own declaration)
    render_mode = "rgb_array"

    def __init__(self, config: MinAtarSettings):
        require_task(config.game, GAMES, "MinAtar game")
        self.config = config
        self._game = _rules(config.game)(ramping=config.ramping)
        self._codes = list(range(len(ACTION_NAMES))) if config.all_actions else self._game.minimal_action_set()
        self.action_names = tuple(ACTION_NAMES[code] for code in self._codes)
        self._last = NOOP
        self.observation_space = Box(0, 1, tuple(self._game.state_shape()), cast(Any, np.bool_))
        self.action_space = Discrete(len(self._codes))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; the seed may be a seed sequence."""
        self._game.random = np.random.RandomState(np.random.MT19937(seed))
        self._last = NOOP
        self._game.reset()
        return self.observation(), {}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Do one action, or the one before once more."""
        code = self._codes[action]
        if self._game.random.rand() < self.config.sticky:
            code = self._last
        self._last = code
        reward, over = self._game.act(code)
        return self.observation(), float(reward), bool(over), False, {}

    def observation(self) -> Bool[np.ndarray, "10 10 c"]:
        """Which kinds of things are in which cell."""
        return self._game.state().astype(bool)

    def render(self) -> Any:
        """The board with one colour for each kind of thing; of several in a cell, the last is seen."""
        seen = self.observation()
        colours = COLOURS[(seen * np.arange(1, seen.shape[-1] + 1)).max(axis=-1)]
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


def make(settings: MinAtarSettings, num_envs: int, render: bool = False) -> FromGymnasium:
    """So many boards with the same game."""
    known = {"max_steps": settings.max_steps, "scores": ("score",)}
    return FromGymnasium.of_one_task("minatar", settings.game, lambda task: MinAtarEnv(settings), num_envs, **known)
