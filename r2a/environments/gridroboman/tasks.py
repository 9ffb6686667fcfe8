"""The 30 tasks with the paper's names, in the paper's order (App. "Gridroboman experiment setup")."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from r2a.environments.gridroboman.dynamics import BOARD_SIZE, RAISED, UNDER, State, holding_any
from r2a.environments.interface import Integer

RED, GREEN, BLUE = range(3)
Flag = Bool[Array, ""]
Solved = Bool[Array, "30"]
Predicate = Callable[[State], Flag]

FAR_DISTANCE = 9  # "far" is a sum of distances greater than this
CENTRE_LOW, CENTRE_HIGH = 2, 4
CORNER_WIDTH = 2


def lift(x: int) -> Predicate:
    """The robot holds `x`."""
    return lambda state: state.held[x]


def touch(x: int) -> Predicate:
    """The robot stands next to `x` and holds nothing."""
    return lambda state: _beside(state, x) & ~holding_any(state)


def touch_with(x: int, y: int) -> Predicate:
    """The robot holds `x` and stands next to `y`: the paper's "touch Y with X", listed as "X touch Y"."""
    return lambda state: state.held[x] & _beside(state, y)


def to_corner(x: int) -> Predicate:
    """`x` is in one of the four 2 x 2 corners; it may be held."""
    return lambda state: _at_edge(state.object_x[x]) & _at_edge(state.object_y[x])


def to_center(x: int) -> Predicate:
    """`x` is in the middle 3 x 3 block; it may be held."""
    return lambda state: _in_middle(state.object_x[x]) & _in_middle(state.object_y[x])


def close_to(x: int, y: int) -> Predicate:
    """`x` and `y` are at most 1 apart in both directions; one may be held."""

    def solved(state: State) -> Flag:
        apart_x, apart_y = _apart(state, x, y)
        return (apart_x <= 1) & (apart_y <= 1)

    return solved


def far_from(x: int, y: int) -> Predicate:
    """The distances between `x` and `y` in the two directions add up to more than 9; one may be held."""

    def solved(state: State) -> Flag:
        apart_x, apart_y = _apart(state, x, y)
        return apart_x + apart_y > FAR_DISTANCE

    return solved


def on_top(x: int, y: int) -> Predicate:
    """`x` was put down on top of `y`."""

    def solved(state: State) -> Flag:
        apart_x, apart_y = _apart(state, x, y)
        stacked = (state.status[x] == RAISED) & ~state.held[x] & (state.status[y] == UNDER)
        # With one stack at most, status alone would do; the cell keeps the reading plain.
        return stacked & (apart_x == 0) & (apart_y == 0)

    return solved


TASKS: dict[str, Predicate] = {
    "touch red": touch(RED),
    "touch green": touch(GREEN),
    "touch blue": touch(BLUE),
    "lift red": lift(RED),
    "lift green": lift(GREEN),
    "lift blue": lift(BLUE),
    "red touch green": touch_with(RED, GREEN),
    "green touch red": touch_with(GREEN, RED),
    "green touch blue": touch_with(GREEN, BLUE),
    "red touch blue": touch_with(RED, BLUE),  # missing in the paper's list of "10 tasks"; its figure has it
    "blue touch red": touch_with(BLUE, RED),
    "blue touch green": touch_with(BLUE, GREEN),
    "red to corner": to_corner(RED),
    "green to corner": to_corner(GREEN),
    "blue to corner": to_corner(BLUE),
    "red to center": to_center(RED),
    "green to center": to_center(GREEN),
    "blue to center": to_center(BLUE),
    "red close to blue": close_to(RED, BLUE),
    "red close to green": close_to(RED, GREEN),
    "blue close to green": close_to(BLUE, GREEN),
    "red far from blue": far_from(RED, BLUE),
    "red far from green": far_from(RED, GREEN),
    "blue far from green": far_from(BLUE, GREEN),
    "red on blue": on_top(RED, BLUE),
    "red on green": on_top(RED, GREEN),
    "green on red": on_top(GREEN, RED),
    "green on blue": on_top(GREEN, BLUE),
    "blue on red": on_top(BLUE, RED),
    "blue on green": on_top(BLUE, GREEN),
}
TASK_NAMES: tuple[str, ...] = tuple(TASKS)


def task_index(name: str) -> int:
    """The number of the task called `name`; ValueError names the choices."""
    if name not in TASKS:
        raise ValueError(f"unknown gridroboman task {name!r}: choose one of {', '.join(TASK_NAMES)}")
    return TASK_NAMES.index(name)


def solved_tasks(state: State) -> Solved:
    """For every task whether `state` solves it."""
    return jnp.stack([predicate(state) for predicate in TASKS.values()])


def reward(state: State, task: Integer) -> Float32[Array, ""]:
    """1 where `state` solves `task`, else 0; `task` may be traced."""
    task = jnp.asarray(task, jnp.int8)
    # Comparing with every task number keeps the whole step in small integers: no gather, no branch.
    solved = jnp.zeros((), bool)
    for number, predicate in enumerate(TASKS.values()):
        solved = solved | ((task == number) & predicate(state))
    return solved.astype(jnp.float32)


def _apart(state: State, x: int, y: int) -> tuple[Array, Array]:
    return (
        jnp.abs(state.object_x[x] - state.object_x[y]),
        jnp.abs(state.object_y[x] - state.object_y[y]),
    )


def _beside(state: State, x: int) -> Flag:
    """The robot is on one of the four neighbours of `x`."""
    apart_x = jnp.abs(state.object_x[x] - state.robot_x)
    apart_y = jnp.abs(state.object_y[x] - state.robot_y)
    return apart_x + apart_y == 1


def _at_edge(coordinate: Array) -> Flag:
    return (coordinate < CORNER_WIDTH) | (coordinate >= BOARD_SIZE - CORNER_WIDTH)


def _in_middle(coordinate: Array) -> Flag:
    return (coordinate >= CENTRE_LOW) & (coordinate <= CENTRE_HIGH)
