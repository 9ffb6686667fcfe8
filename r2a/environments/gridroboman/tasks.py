"""The 30 tasks with the paper's names, in the paper's order (App. "Gridroboman experiment setup")."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from r2a.environments.gridroboman.dynamics import BOARD_SIZE, OBJECT_NAMES, RAISED, UNDER, Integer, State, holding_any

Flag = Bool[Array, ""]

FAR_DISTANCE = 9  # "far" is a sum of distances greater than this
CENTRE_LOW, CENTRE_HIGH = 2, 4
CORNER_WIDTH = 2


def lift(state: State, x: int) -> Flag:
    """The robot holds `x`."""
    return state.held[x]


def touch(state: State, x: int) -> Flag:
    """The robot stands next to `x` and holds nothing."""
    return _beside(state, x) & ~holding_any(state)


def touch_with(state: State, x: int, y: int) -> Flag:
    """The robot holds `x` and stands next to `y`: the paper's "touch Y with X", listed as "X touch Y"."""
    return state.held[x] & _beside(state, y)


def to_corner(state: State, x: int) -> Flag:
    """`x` is in one of the four 2 x 2 corners; it may be held."""
    return _at_edge(state.object_x[x]) & _at_edge(state.object_y[x])


def to_center(state: State, x: int) -> Flag:
    """`x` is in the middle 3 x 3 block; it may be held."""
    return _in_middle(state.object_x[x]) & _in_middle(state.object_y[x])


def close_to(state: State, x: int, y: int) -> Flag:
    """`x` and `y` are at most 1 apart in both directions; one may be held."""
    apart_x, apart_y = _apart(state, x, y)
    return (apart_x <= 1) & (apart_y <= 1)


def far_from(state: State, x: int, y: int) -> Flag:
    """The distances between `x` and `y` in the two directions add up to more than 9; one may be held."""
    apart_x, apart_y = _apart(state, x, y)
    return apart_x + apart_y > FAR_DISTANCE


def on_top(state: State, x: int, y: int) -> Flag:
    """`x` was put down on top of `y`: with three objects there is one stack at most, so the statuses tell."""
    return (state.status[x] == RAISED) & ~state.held[x] & (state.status[y] == UNDER)


class Task(NamedTuple):
    """A family of tasks and the objects it speaks of."""

    family: Callable[..., Flag]
    objects: tuple[int, ...]

    def solved(self, state: State) -> Flag:
        """Whether `state` solves the task."""
        return self.family(state, *self.objects)


FAMILIES: dict[Callable[..., Flag], tuple[str, ...]] = {
    touch: ("touch red", "touch green", "touch blue"),
    lift: ("lift red", "lift green", "lift blue"),
    # The paper's list of "10 tasks" has nine: the tenth, "red touch blue", is shown in its figure.
    touch_with: (
        "red touch green",
        "green touch red",
        "green touch blue",
        "red touch blue",
        "blue touch red",
        "blue touch green",
    ),
    to_corner: ("red to corner", "green to corner", "blue to corner"),
    to_center: ("red to center", "green to center", "blue to center"),
    close_to: ("red close to blue", "red close to green", "blue close to green"),
    far_from: ("red far from blue", "red far from green", "blue far from green"),
    on_top: ("red on blue", "red on green", "green on red", "green on blue", "blue on red", "blue on green"),
}
TASKS = {
    name: Task(family, tuple(OBJECT_NAMES.index(word) for word in name.split() if word in OBJECT_NAMES))
    for family, names in FAMILIES.items()
    for name in names
}
TASK_NAMES = tuple(TASKS)


def reward(state: State, task: Integer) -> Float32[Array, ""]:
    """1 where `state` solves `task`, else 0; `task` may be traced."""
    task = jnp.asarray(task, jnp.int8)
    # Comparing with every task number keeps the whole step in small integers: no gather, no branch.
    solved = jnp.zeros((), bool)
    for number, candidate in enumerate(TASKS.values()):
        solved = solved | ((task == number) & candidate.solved(state))
    return solved.astype(jnp.float32)


def _apart(state: State, x: int, y: int) -> tuple[Array, Array]:
    return jnp.abs(state.object_x[x] - state.object_x[y]), jnp.abs(state.object_y[x] - state.object_y[y])


def _beside(state: State, x: int) -> Flag:
    """The robot is on one of the four neighbours of `x`."""
    apart_x = jnp.abs(state.object_x[x] - state.robot_x)
    apart_y = jnp.abs(state.object_y[x] - state.robot_y)
    return apart_x + apart_y == 1


def _at_edge(coordinate: Array) -> Flag:
    return (coordinate < CORNER_WIDTH) | (coordinate >= BOARD_SIZE - CORNER_WIDTH)


def _in_middle(coordinate: Array) -> Flag:
    return (coordinate >= CENTRE_LOW) & (coordinate <= CENTRE_HIGH)
