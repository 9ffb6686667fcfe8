"""Gridroboman for Gymnasium: `gymnasium.make("r2a/Gridroboman-v0", task="lift red")`."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int8

from r2a.environments.gridroboman import dynamics, tasks
from r2a.environments.gridroboman.render import render

CELL_PIXELS = 24


# A board crosses the border of the compiled code as one small array, the observation and who is held:
# calls with a State of 14 separate numbers take several times as long.
Packed = Int8[Array | np.ndarray, " 14"]


def _pack(state: dynamics.State) -> Array:
    return jnp.concatenate([dynamics.observe(state), jnp.stack(state.held).astype(jnp.int8)])


def _unpack(packed: Packed) -> dynamics.State:
    red_x, red_y, green_x, green_y, blue_x, blue_y, robot_x, robot_y, *statuses_and_held = packed
    red, green, blue, *held = statuses_and_held
    return dynamics.State(
        object_x=(red_x, green_x, blue_x),
        object_y=(red_y, green_y, blue_y),
        status=(red, green, blue),
        held=(held[0] != 0, held[1] != 0, held[2] != 0),
        robot_x=robot_x,
        robot_y=robot_y,
    )


@jax.jit
def _reset(seed: Array) -> Packed:
    return _pack(dynamics.reset(jax.random.key(seed)))


@jax.jit
def _step(packed: Packed, action_and_task: Array) -> Array:
    """The next board with its reward as one number more."""
    action, task = action_and_task
    state = dynamics.advance(_unpack(packed), action)
    return jnp.append(_pack(state), tasks.reward(state, task).astype(jnp.int8))


class GridrobomanEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One board with one task; an episode is truncated after 50 steps and never terminates."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, task: str = tasks.TASK_NAMES[0], render_mode: str | None = None):
        self.task = task
        self._task_index = tasks.task_index(task)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"unknown render mode {render_mode!r}: choose rgb_array or none")
        self.render_mode = render_mode
        low = np.array([0] * 8 + [-1] * 3, np.int8)
        high = np.array([dynamics.BOARD_SIZE - 1] * 8 + [1] * 3, np.int8)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.int8)
        self.action_space = gymnasium.spaces.Discrete(len(dynamics.ACTION_NAMES))
        self._packed: np.ndarray | None = None
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a start board from the environment's own random generator."""
        super().reset(seed=seed)
        self._packed = np.asarray(_reset(self.np_random.integers(2**32, dtype=np.uint32)))
        self._elapsed = 0
        return self._observation(), {"task": self.task}

    def step(self, action: int | np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Do one action; the reward is 1 where the board after it solves the task."""
        last_action = len(dynamics.ACTION_NAMES) - 1
        if not 0 <= operator.index(action) <= last_action:
            raise ValueError(f"unknown action {action}: choose a number from 0 to {last_action}")
        stepped = np.asarray(_step(self._board(), np.array([action, self._task_index], np.int8)))
        self._packed, reward = stepped[:-1], stepped[-1]
        self._elapsed += 1
        truncated = self._elapsed >= dynamics.EPISODE_LENGTH
        return self._observation(), float(reward), False, truncated, {"task": self.task}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The board as an image, if the render mode asks for one."""
        return render(self._observation(), CELL_PIXELS) if self.render_mode == "rgb_array" else None

    def _board(self) -> np.ndarray:
        if self._packed is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step or picture")
        return self._packed

    def _observation(self) -> np.ndarray:
        return self._board()[: dynamics.OBSERVATION_SIZE].copy()
