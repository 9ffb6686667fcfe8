"""How many steps a board is away from solving a task: the cost-to-go that the scripted expert descends.

Each family has a closed formula, the cheapest of a few plans. A plan's cost is the number of steps it really
takes. The formulas fulfil Bellman's equation on all 6,468,294 boards, so they are exact and descending them
is optimal: a solved board stays solved by skipping.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8

from r2a.environments.gridroboman import tasks
from r2a.environments.gridroboman.dynamics import BOARD_SIZE, ON_BOARD, UNDER, Integer, State

Steps = Int8[Array, ""]
StepsEach = Int8[Array, "*cells"]
Flag = Bool[Array, ""]
IMPOSSIBLE = jnp.int8(100)
LAST = BOARD_SIZE - 1
SLACK = 2 * LAST - tasks.FAR_DISTANCE - 1  # far apart: this many steps short of opposite corners in sum


class Goal(NamedTuple):
    """A task's family and which objects play its x, its y, and the bystander z."""

    family: Int8[Array, ""]
    x: Int8[Array, ""]
    y: Int8[Array, ""]
    z: Int8[Array, ""]


class Place(NamedTuple):
    """A cell; either number may have further axes."""

    x: Array
    y: Array


class Piece(NamedTuple):
    """One object as the plans see it."""

    place: Place
    status: Steps
    held: Flag


class Scene(NamedTuple):
    """A board with its objects in the roles of a goal."""

    robot: Place
    x: Piece
    y: Piece
    z: Piece


def _numbers_of(task: tasks.Task) -> tuple[int, ...]:
    bystanders = (i for i in range(3) if i not in task.objects)
    return (list(tasks.FAMILIES).index(task.family), *task.objects, *bystanders)


GOALS = Goal(*np.array([_numbers_of(task) for task in tasks.TASKS.values()], np.int8).T)


def goal_of(task: Integer) -> Goal:
    """The goal of a task, which may be traced."""
    return Goal(*(jnp.asarray(column)[task] for column in GOALS))


def steps_to_solve(state: State, goal: Goal) -> Steps:
    """The number of steps that the best known plan needs; 0 exactly where the task is solved."""
    scene = _cast(state, goal)
    costs = {
        tasks.touch: _touch,
        tasks.lift: lambda scene: _hold(scene, scene.x),
        tasks.touch_with: _touch_with,
        tasks.to_corner: lambda scene: _carry(scene, _to_corner),
        tasks.to_center: lambda scene: _carry(scene, _to_center),
        tasks.close_to: _close_to,
        tasks.far_from: _far_from,
        tasks.on_top: _on_top,
    }
    steps = IMPOSSIBLE
    for number, family in enumerate(tasks.FAMILIES):
        steps = jnp.where(goal.family == number, costs[family](scene), steps)
    return steps


def _cast(state: State, goal: Goal) -> Scene:
    def piece(i: Array) -> Piece:
        def pick(values):
            return jnp.where(i == 0, values[0], jnp.where(i == 1, values[1], values[2]))

        return Piece(Place(pick(state.object_x), pick(state.object_y)), pick(state.status), pick(state.held))

    return Scene(Place(state.robot_x, state.robot_y), piece(goal.x), piece(goal.y), piece(goal.z))


def _distance(a: Place, b: Place) -> StepsEach:
    return jnp.abs(a.x - b.x) + jnp.abs(a.y - b.y)


def _int(flag: Flag) -> Steps:
    return flag.astype(jnp.int8)


def _hold(scene: Scene, piece: Piece) -> Steps:
    """Until the robot holds `piece`, on the cell where `piece` lies now.

    Walk there and lift. What lies on top is carried one cell aside first: lift, walk, put, walk back. Another
    object in hand is put down first; not on the wanted one, so that from its cell it takes a walk aside.
    """
    distance = _distance(scene.robot, piece.place)
    covered = piece.status == UNDER
    hands_full = (scene.x.held | scene.y.held | scene.z.held) & ~piece.held
    steps = distance + 1 + 4 * _int(covered) + _int(hands_full) * (1 + 2 * _int(distance == 0))
    return jnp.where(piece.held, jnp.int8(0), steps)


def _detour(scene: Scene, other: Piece, apart: Steps) -> Steps:
    """What fetching one of two neighbours costs more if the robot stands on the other with z in hand.

    There is no cell on the way where z could be put without burying one of the two.
    """
    return 2 * _int(scene.z.held & (apart == 1) & (_distance(scene.robot, other.place) == 0))


def _touch(scene: Scene) -> Steps:
    """Walk beside x with empty hands."""
    walk = jnp.abs(_distance(scene.robot, scene.x.place) - 1)
    others_here = (_distance(scene.robot, scene.y.place) == 0) & (_distance(scene.robot, scene.z.place) == 0)
    put_other = _int(scene.y.held | scene.z.held)
    return jnp.where(scene.x.held, 2 + _int(others_here), walk + put_other)


def _touch_with(scene: Scene) -> Steps:
    """Fetch x and bring it beside y; or first bring y beside x, which pays when y is near and x is not."""
    apart = _distance(scene.x.place, scene.y.place)
    # Clearing y off x leaves y beside x: holding x is then all that is left.
    fetch_x = _hold(scene, scene.x) + jnp.where(scene.x.status == UNDER, apart - _int(apart > 0), jnp.abs(apart - 1))
    y_in_hand = jnp.where(scene.y.held, _hold(scene, scene.x), IMPOSSIBLE)
    bring_y = _hold(scene, scene.y) + apart + 2 + 4 * _int(scene.x.status == UNDER)
    bring_y = jnp.where(scene.x.held | scene.y.held | (apart == 0), IMPOSSIBLE, bring_y)
    return jnp.minimum(fetch_x, jnp.minimum(y_in_hand, bring_y))


def _to_corner(coordinate: Array) -> Array:
    to_edge = jnp.minimum(coordinate, LAST - coordinate)
    return jnp.maximum(to_edge - (tasks.CORNER_WIDTH - 1), 0)


def _to_center(coordinate: Array) -> Array:
    return jnp.maximum(jnp.maximum(tasks.CENTRE_LOW - coordinate, coordinate - tasks.CENTRE_HIGH), 0)


def _carry(scene: Scene, steps_left: Callable[[Array], Array]) -> Steps:
    """Fetch x and carry it for as long as it takes in both directions; nothing to do where it is there."""
    way = steps_left(scene.x.place.x) + steps_left(scene.x.place.y)
    return jnp.where(way == 0, jnp.int8(0), _hold(scene, scene.x) + way)


def _close_to(scene: Scene) -> Steps:
    """Fetch whichever is cheaper to fetch and carry it to the other."""
    apart_x = jnp.abs(scene.x.place.x - scene.y.place.x)
    apart_y = jnp.abs(scene.x.place.y - scene.y.place.y)
    way = jnp.maximum(apart_x - 1, 0) + jnp.maximum(apart_y - 1, 0)
    fetch = jnp.minimum(_hold(scene, scene.x), _hold(scene, scene.y))
    return jnp.where(way == 0, jnp.int8(0), fetch + way)


def _corner_cells() -> tuple[Place, Place, np.ndarray]:
    """Every cell that may hold one of two far objects, its opposite corner, the slack left for the other."""
    rows = []
    for corner_x, corner_y, off_x, off_y in product((0, LAST), (0, LAST), range(SLACK + 1), range(SLACK + 1)):
        if off_x + off_y <= SLACK:
            cell_x, cell_y = abs(corner_x - off_x), abs(corner_y - off_y)
            rows.append((cell_x, cell_y, LAST - corner_x, LAST - corner_y, SLACK - off_x - off_y))
    cell_x, cell_y, opposite_x, opposite_y, slack = np.asarray(rows, np.int8).T
    return Place(cell_x, cell_y), Place(opposite_x, opposite_y), slack


CELLS, OPPOSITES, SLACKS = _corner_cells()


def _far_from(scene: Scene) -> Steps:
    """Carry one object away; where that is not enough, leave it near a corner and carry the other, too."""
    best = IMPOSSIBLE
    apart = _distance(scene.x.place, scene.y.place)
    for first, second in ((scene.x, scene.y), (scene.y, scene.x)):
        way_first = _distance(first.place, CELLS)
        way_second = _distance(second.place, OPPOSITES) - SLACKS
        back = _distance(CELLS, second.place)
        # Lifting the first off the second uncovers it; z on the second is taken off at once or later.
        buried = (second.status == UNDER) & ((apart > 0) | first.held)
        take_off_later = _hold(scene, first) + 4 * _int(buried) + _detour(scene, second, apart)
        take_off_now = _hold(scene, scene.z) + apart + 2 + 2 * _int(apart == 1)
        fetch = jnp.where(buried & ~first.held, jnp.minimum(take_off_now, take_off_later), take_off_later)
        two_carries = fetch + way_first + 1 + back + 1 + way_second
        one_carry = _hold(scene, first) + way_first
        # Putting the first on the second would bury it.
        two_carries = jnp.where(back == 0, IMPOSSIBLE, two_carries)
        best = jnp.minimum(best, jnp.where(way_second <= 0, one_carry, two_carries).min())
    return jnp.where(apart > tasks.FAR_DISTANCE, jnp.int8(0), best)


def _on_top(scene: Scene) -> Steps:
    """Put x on y; y must lie alone for that."""
    _, x, y, z = scene
    apart = _distance(x.place, y.place)
    near = _int(apart == 1)
    y_covered, y_raised = y.status == UNDER, (y.status > ON_BOARD) & ~y.held
    y_alone = (y.status == ON_BOARD) & ~y.held
    solved = y_covered & (x.status > ON_BOARD) & ~x.held & (apart == 0)

    # Fetch x, carry it to y.
    fetch_x = _hold(scene, x) + apart + 1 + _detour(scene, y, apart)
    best = jnp.where(y_alone, fetch_x, IMPOSSIBLE)

    # Bring y beside x, then put x on it.
    z_in_between = jnp.where(
        apart == 1,
        2 * _int((_distance(z.place, y.place) == 0) & ~z.held),
        _int((_distance(z.place, x.place) == 1) & (_distance(z.place, y.place) == apart - 1) & ~z.held)
        * _int((x.place.x == y.place.x) | (x.place.y == y.place.y)),
    )
    bring_y = _hold(scene, y) + jnp.where(apart == 0, jnp.int8(6), apart + 4 + z_in_between)
    bring_y = bring_y + 4 * _int((x.status == UNDER) & ~(y_raised & (apart == 0)))
    best = jnp.minimum(best, jnp.where(x.held, IMPOSSIBLE, bring_y))

    # Take z off y, fetch x, carry it to y.
    clear_y = _hold(scene, z) + 2 * apart + 3 + 2 * near
    best = jnp.minimum(best, jnp.where(y_covered & ~x.held, clear_y, IMPOSSIBLE))

    # With x in hand and y part of a stack: lay x down near the stack, take the stack apart, take x again.
    apart_from_covered = apart + 9 + 2 * _int(apart == 0)
    apart_from_raised = jnp.maximum(apart, 2) + 8 + _int(apart == 0)
    stacked_y = jnp.where(y_covered, apart_from_covered, apart_from_raised)
    carry_x = _hold(scene, x) + stacked_y
    best = jnp.minimum(best, jnp.where((y_covered | y_raised) & (apart > 0) | x.held & ~y_alone, carry_x, IMPOSSIBLE))
    return jnp.where(solved, jnp.int8(0), best)
