"""BabyAI for Gymnasium: `gymnasium.make("r2a/BabyAI-v0", level="GoToLocal")`."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import numpy as np

from r2a.environments.babyai.levels import ACTION_NAMES, level_index
from r2a.environments.babyai.view import VIEW
from r2a.environments.babyai.vocabulary import MISSION_WORDS, WORDS
from r2a.environments.babyai.worlds import Worlds

LARGEST_NUMBER = 10  # of an object's type, minigrid/core/constants.py; colours and states are smaller


class BabyAIEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """One level; every reset draws a new mission, truncated after as many steps as minigrid allows for it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, level: str = "GoToLocal", render_mode: str | None = None):
        self.level = level
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"unknown render mode {render_mode!r}: choose rgb_array or none")
        self.render_mode = render_mode
        self._worlds = Worlds([level_index(level)])
        self._drawn = False
        self.observation_space = gymnasium.spaces.Dict(
            {
                "image": gymnasium.spaces.Box(0, LARGEST_NUMBER, (VIEW, VIEW, 3), np.uint8),
                "direction": gymnasium.spaces.Discrete(4),
                "mission": gymnasium.spaces.Box(0, len(WORDS), (MISSION_WORDS,), np.uint8),
            }
        )
        self.action_space = gymnasium.spaces.Discrete(len(ACTION_NAMES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw a mission from the environment's own random generator; the info tells it in words."""
        super().reset(seed=seed)
        flat, mission = self._worlds.reset([int(self.np_random.integers(2**31))])
        self._mission = mission[0]
        self._drawn = True
        return self._observation(flat), self._info()

    def step(self, action: int | np.integer) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Do one action."""
        self._require_reset()
        flat, reward, terminated, truncated = self._worlds.step([operator.index(action)])
        return self._observation(flat), float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._info()

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rooms as minigrid draws them, if the render mode asks for a picture."""
        self._require_reset()
        if self.render_mode != "rgb_array":
            return None
        world = self._worlds.missions[0]
        return world.get_frame(highlight=True, tile_size=world.tile_size)

    def _require_reset(self) -> None:
        if not self._drawn:
            raise gymnasium.error.ResetNeeded("call reset before the first step or picture")

    def _info(self) -> dict[str, Any]:
        return {"level": self.level, "mission": self._worlds.missions[0].mission}

    def _observation(self, flat: np.ndarray) -> dict[str, Any]:
        return {
            "image": flat[0, :-1].reshape(VIEW, VIEW, 3).copy(),
            "direction": np.int64(flat[0, -1]),
            "mission": self._mission.copy(),
        }
