"""Atari 2600s with one game in them: ale-py's emulator, and the usual ways of playing it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import UInt8

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import require_task
from r2a.environments.atari import AtariSettings
from r2a.environments.atari.scores import GAMES, human_normalised
from r2a.environments.atari.screen import HEIGHT, WIDTH, shrink
from r2a.errors import UserError

try:
    import ale_py
    from ale_py import roms
except ModuleNotFoundError as error:
    raise UserError("Atari needs ale-py: pip install 'r2a[atari]'.") from error

NOOP = 0
ANY_SEED = 1  # the emulator's own random numbers are not used


class AtariEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One game of the Arcade Learning Environment; the score counts rewards as the game gives them.

    ale-py's vector environment is not used: it takes a new seed by loading the game anew, a tenth of a second each
    time, and without a new seed an episode depends on those before it. For the same reason repeated actions are drawn
    here.
    """

    metadata = {"render_modes": ["rgb_array"], "seed_sequences": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, config: AtariSettings, render_mode: str | None = None):
        require_task(config.game, GAMES, "Atari game")
        self.config, self.render_mode = config, render_mode
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", ANY_SEED)
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.loadROM(str(roms.get_rom_path(config.game)))
        actions = self._ale.getLegalActionSet() if config.all_actions else self._ale.getMinimalActionSet()
        self.action_names = tuple(action.name for action in actions)
        self._codes = [int(action.value) for action in actions]
        self._ale.reset_game()
        self._start = self._ale.cloneState(include_rng=True)
        self._frames = np.zeros((2, HEIGHT, WIDTH), np.uint8)
        self._colours = np.zeros((2, HEIGHT, WIDTH, 3), np.uint8) if render_mode is not None else None
        self._random = np.random.default_rng(ANY_SEED)
        self._held = NOOP
        self._lives = 0
        self._score = 0.0
        self.observation_space = Box(0, 255, (config.image_size, config.image_size), np.uint8)
        self.action_space = Discrete(len(actions))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode with 1 to `noops` frames in which nothing is done; the seed may be a seed sequence."""
        self._random = np.random.default_rng(seed)
        self._rewind()
        for _ in range(int(self._random.integers(1, self.config.noops + 1))):
            self._ale.act(NOOP)
            if self._ale.game_over():
                self._rewind()
                self._ale.act(NOOP)
        self._held = NOOP
        self._lives = self._ale.lives()
        self._score = 0.0
        self._capture(0)
        self._capture(1)
        return self.observation(), {"scores": self._scores()}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold the joystick for `frame_skip` frames, or to the end of the game."""
        reward, over, skip = 0, False, self.config.frame_skip
        if skip == 1:
            self._frames[0] = self._frames[1]
        for frame in range(skip):
            if self.config.sticky == 0.0 or self._random.random() >= self.config.sticky:
                self._held = self._codes[action]
            reward += self._ale.act(self._held)
            over = self._ale.game_over()
            if frame == skip - 2:
                self._capture(0)
            if over:
                break
        self._capture(1)
        if over:  # maybe before frame skip - 2: what is in its place is older than this action
            self._capture(0)
        lives = self._ale.lives()
        lost, self._lives = lives < self._lives, lives
        self._score += reward
        ends = over or (lost and self.config.life_ends_episode)
        paid = float(np.sign(reward) if self.config.clip_rewards else reward)
        return self.observation(), paid, over, False, {"scores": self._scores(), "discount": 0.0 if ends else 1.0}

    def observation(self) -> UInt8[np.ndarray, "size size"]:
        """The screen in grey, of the last two frames the brighter."""
        screen = np.maximum(*self._frames) if self.config.pool_frames else self._frames[1]
        return shrink(screen, self.config.image_size)

    def render(self) -> Any:
        """The screen in colour, the brighter of the last two frames: in one alone, what flickers may be missing."""
        return None if self._colours is None else np.maximum(*self._colours)

    def _scores(self) -> tuple[float, float]:
        return self._score, human_normalised(self.config.game, self._score)

    def _rewind(self) -> None:
        """Back to the game's start, whatever was played before.

        Each alone is not enough: after a reset, nine of the games still depend on what was played before; after loading
        the snapshot, two do. After both, none of the 57.
        """
        self._ale.reset_game()
        self._ale.restoreState(self._start)

    def _capture(self, place: int) -> None:
        self._ale.getScreenGrayscale(self._frames[place])
        if self._colours is not None:
            self._ale.getScreenRGB(self._colours[place])


def make(settings: AtariSettings, num_envs: int, render: bool = False) -> FromGymnasium:
    """So many emulators with the same game."""
    known = {"max_steps": settings.max_frames // settings.frame_skip, "scores": ("score", "human_normalised")}
    mode = "rgb_array" if render else None
    return FromGymnasium.of_one_task("atari", settings.game, lambda task: AtariEnv(settings, mode), num_envs, **known)
