"""The board and its tasks as a pure environment."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Array, Float32, UInt8

from r2a.environments.adapters import FromPure
from r2a.environments.api import EnvSpec
from r2a.environments.gridroboman import dynamics, tasks
from r2a.environments.gridroboman.dynamics import ACTION_NAMES, BOARD_SIZE, EPISODE_LENGTH, Integer, State
from r2a.environments.gridroboman.render import render

LOW, HIGH = np.array([0] * 8 + [-1] * 3, np.int8), np.array([BOARD_SIZE - 1] * 8 + [1] * 3, np.int8)

SPEC = EnvSpec(
    id="gridroboman",
    tasks=tasks.TASK_NAMES,
    observation=Box(LOW, HIGH, dtype=np.int8),  # pyright: ignore[reportArgumentType]
    action=Discrete(len(ACTION_NAMES)),
    max_steps=EPISODE_LENGTH,
    action_names=ACTION_NAMES,
    fps=8.0,
)


class Gridroboman:
    """A `PureEnv`; every step after which the board solves the task earns one."""

    spec = SPEC
    reset = staticmethod(dynamics.reset)
    observe = staticmethod(dynamics.observe)

    def step(self, state: State, action: Integer, task: Integer) -> tuple[State, Float32[Array, ""]]:
        """The next state and the reward of `task` in it."""
        state = dynamics.advance(state, action)
        return state, tasks.reward(state, task)

    def render(self, state: State) -> UInt8[np.ndarray, "h w 3"]:
        """The board as a picture."""
        return render(np.asarray(dynamics.observe(jax.tree.map(jnp.asarray, state))))


GRIDROBOMAN = Gridroboman()


def pure(settings: Any = None) -> Gridroboman:
    """The environment as pure functions."""
    return GRIDROBOMAN


def make(settings: Any, num_envs: int, render: bool = False) -> FromPure:
    """So many boards, stepped from outside of compiled programs."""
    return FromPure(GRIDROBOMAN, num_envs)
