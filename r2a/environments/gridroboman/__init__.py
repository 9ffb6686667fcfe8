"""Gridroboman: a 7 x 7 board, a robot, three objects and thirty tasks (App. "Gridroboman environment")."""

from __future__ import annotations

from jaxtyping import Array, Float32

from r2a.environments.gridroboman import dynamics, tasks
from r2a.environments.gridroboman.dynamics import (
    ACTION_NAMES,
    EPISODE_LENGTH,
    OBSERVATION_SIZE,
    Observation,
    State,
)
from r2a.environments.gridroboman.tasks import TASK_NAMES, task_index
from r2a.environments.interface import EnvironmentSpec, Integer, PRNGKey

__all__ = [
    "ACTION_NAMES",
    "GRIDROBOMAN",
    "GYMNASIUM_ID",
    "SPEC",
    "TASK_NAMES",
    "Gridroboman",
    "State",
    "task_index",
]

SPEC = EnvironmentSpec(
    name="gridroboman",
    observation_shape=(OBSERVATION_SIZE,),
    num_actions=len(ACTION_NAMES),
    episode_length=EPISODE_LENGTH,
    task_names=TASK_NAMES,
)


class Gridroboman:
    """The environment interface over the board's pure functions."""

    spec = SPEC

    def reset(self, key: PRNGKey) -> State:
        """Draw a start state; consumes `key`."""
        return dynamics.reset(key)

    def observe(self, state: State) -> Observation:
        """The 11-vector of `state`."""
        return dynamics.observe(state)

    def step(self, state: State, action: Integer, task: Integer) -> tuple[State, Float32[Array, ""]]:
        """The next state and the reward of `task` in it."""
        state = dynamics.advance(state, action)
        return state, tasks.reward(state, task)


GRIDROBOMAN = Gridroboman()

GYMNASIUM_ID = "r2a/Gridroboman-v0"
