"""The gridroboman board: states, moves, lifting and putting (App. "Gridroboman environment").

Everything is written for one board. Each number of a board is a scalar leaf of its own, so under `vmap` a
batch becomes a structure of flat arrays and XLA vectorises over boards; there are no gathers, no branches.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, Int8, Key, UInt32

PRNGKey = Key[Array, ""] | UInt32[Array, "2"]
Integer = Int[ArrayLike, ""]

BOARD_SIZE = 7  # free cells per side; the wall ring lies outside of them
OBJECT_NAMES = ("red", "green", "blue")
ACTION_NAMES = ("up", "down", "left", "right", "lift", "put", "skip")
UP, DOWN, LEFT, RIGHT, LIFT, PUT, SKIP = range(len(ACTION_NAMES))
EPISODE_LENGTH = 50
OBSERVATION_SIZE = 11

ON_BOARD, UNDER, RAISED = 0, -1, 1  # the status of an object; raised: held, or on top of another

Observation = Int8[Array, "11"]
Scalar = Int8[Array, ""]
Three = tuple[Scalar, Scalar, Scalar]
ThreeFlags = tuple[Bool[Array, ""], Bool[Array, ""], Bool[Array, ""]]


class State(NamedTuple):
    """One board; x is the column, y the row, (0, 0) the upper left cell; triples are (red, green, blue).

    `held` is part of the state because the observation does not always tell it: a robot that stands with an
    object in hand on a stack of the other two sees two objects with status +1.
    """

    object_x: Three
    object_y: Three
    status: Three
    held: ThreeFlags
    robot_x: Scalar
    robot_y: Scalar


def reset(key: PRNGKey) -> State:
    """Draw a start state: the objects on three distinct cells, the robot on any cell; consumes `key`."""
    bits = jax.random.bits(key, (4,), jnp.uint32)
    cells = BOARD_SIZE * BOARD_SIZE
    red = _below(bits[0], cells)
    # Drawing from the cells that are left and skipping over the taken ones needs no rejection.
    green = _below(bits[1], cells - 1)
    green = green + (green >= red)
    blue = _below(bits[2], cells - 2)
    blue = blue + (blue >= jnp.minimum(red, green))
    blue = blue + (blue >= jnp.maximum(red, green))
    robot = _below(bits[3], cells)
    red_x, green_x, blue_x, robot_x = ((cell % BOARD_SIZE).astype(jnp.int8) for cell in (red, green, blue, robot))
    red_y, green_y, blue_y, robot_y = ((cell // BOARD_SIZE).astype(jnp.int8) for cell in (red, green, blue, robot))
    places = (red_x, green_x, blue_x), (red_y, green_y, blue_y)
    zero, no = jnp.zeros((), jnp.int8), jnp.zeros((), bool)
    return State(*places, (zero, zero, zero), (no, no, no), robot_x, robot_y)


def observe(state: State) -> Observation:
    """The 11-vector: x and y of red, green, blue and robot, then the three statuses."""
    positions = [value for xy in zip(state.object_x, state.object_y, strict=True) for value in xy]
    return jnp.stack([*positions, state.robot_x, state.robot_y, *state.status]).astype(jnp.int8)


def advance(state: State, action: Integer) -> State:
    """Apply one action; an action that the rules refuse leaves the board as it is."""
    action = jnp.asarray(action, jnp.int8)
    moved = _move(state, action)
    here = standing_on(moved)
    holding = holding_any(state)

    # Lift takes the top object: the one on this cell that lies under no other.
    lifting = (action == LIFT) & ~holding
    lifted = _three(lambda i: lifting & here[i] & (state.status[i] != UNDER))
    # Put is refused where two objects lie already; `here` counts the held one, too.
    crowded = here[0] & here[1] & here[2]
    putting = (action == PUT) & holding & ~crowded
    lying_here = _three(lambda i: here[i] & ~state.held[i])
    onto_another = lying_here[0] | lying_here[1] | lying_here[2]

    def new_status(i: int) -> Scalar:
        status = state.status[i]
        status = jnp.where(lifted[i], jnp.int8(RAISED), status)
        uncovered = lifting & here[i] & (status == UNDER)
        status = jnp.where(uncovered, jnp.int8(ON_BOARD), status)
        put_down = putting & state.held[i] & ~onto_another
        status = jnp.where(put_down, jnp.int8(ON_BOARD), status)
        return jnp.where(putting & lying_here[i], jnp.int8(UNDER), status)

    return moved._replace(status=_three(new_status), held=_three(lambda i: lifted[i] | (state.held[i] & ~putting)))


def standing_on(state: State) -> ThreeFlags:
    """Which objects share the robot's cell, a held one included."""
    return _three(lambda i: (state.object_x[i] == state.robot_x) & (state.object_y[i] == state.robot_y))


def holding_any(state: State) -> Bool[Array, ""]:
    """Whether the robot holds an object."""
    return state.held[0] | state.held[1] | state.held[2]


def _move(state: State, action: Scalar) -> State:
    """Move the robot and what it holds; walls stop it."""
    last = jnp.int8(BOARD_SIZE - 1)
    step_x = (action == RIGHT).astype(jnp.int8) - (action == LEFT).astype(jnp.int8)
    step_y = (action == DOWN).astype(jnp.int8) - (action == UP).astype(jnp.int8)
    robot_x = jnp.clip(state.robot_x + step_x, jnp.int8(0), last)
    robot_y = jnp.clip(state.robot_y + step_y, jnp.int8(0), last)
    return state._replace(
        robot_x=robot_x,
        robot_y=robot_y,
        object_x=_three(lambda i: jnp.where(state.held[i], robot_x, state.object_x[i])),
        object_y=_three(lambda i: jnp.where(state.held[i], robot_y, state.object_y[i])),
    )


def _three(function):
    return (function(0), function(1), function(2))


def _below(bits: Array, limit: int) -> Array:
    """A number in [0, limit) from 32 random bits; 24 of them keep the bias under 1e-5."""
    return (((bits >> 8) * limit) >> 24).astype(jnp.int32)
