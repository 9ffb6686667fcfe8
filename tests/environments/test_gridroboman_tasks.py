"""The thirty tasks: names, order, and hand-computed boards for every family."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.boards import solved_tasks

from r2a.environments.gridroboman.dynamics import SKIP, State
from r2a.environments.gridroboman.env import GRIDROBOMAN
from r2a.environments.gridroboman.tasks import TASK_NAMES

PAPER_ORDER = """touch red, touch green, touch blue, lift red, lift green, lift blue, red touch green, green touch red,
green touch blue, red touch blue, blue touch red, blue touch green, red to corner, green to corner, blue to corner,
red to center, green to center, blue to center, red close to blue, red close to green, blue close to green,
red far from blue, red far from green, blue far from green, red on blue, red on green, green on red, green on blue,
blue on red, blue on green"""

solved_jit = jax.jit(solved_tasks)


def solved(state: State) -> set[str]:
    return {name for name, flag in zip(TASK_NAMES, np.asarray(solved_jit(state)), strict=True) if flag}


def test_names_and_order_are_the_papers():
    assert list(TASK_NAMES) == PAPER_ORDER.replace("\n", " ").split(", ")


# Objects in no corner, not in the centre and pairwise neither close nor far.
APART = {"red": (1, 2), "green": (5, 3), "blue": (3, 6)}


def test_a_board_that_solves_nothing(board):
    assert solved(board(robot=(3, 0), **APART)) == set()


@pytest.mark.parametrize(
    ("robot", "touching"),
    [((1, 1), True), ((1, 3), True), ((0, 2), True), ((2, 2), True), ((1, 2), False), ((0, 1), False), ((1, 4), False)],
)
def test_touch_means_one_of_four_neighbours(board, robot, touching):
    assert solved(board(robot=robot, **APART)) == ({"touch red"} if touching else set())


def test_touch_needs_empty_hands(board):
    beside_red_with_blue = board(robot=(0, 2), red=(1, 2), green=(5, 3), held="blue")
    assert solved(beside_red_with_blue) == {"lift blue", "blue touch red", "red close to blue"}


def test_lift(board):
    assert solved(board(robot=(1, 2), green=(5, 3), blue=(3, 6), held="red")) == {"lift red"}


def test_touch_with(board):
    # Next to green with red in hand: also close, for the held red counts.
    assert solved(board(robot=(5, 2), green=(5, 3), blue=(2, 5), held="red")) == {
        "lift red",
        "red touch green",
        "red close to green",
    }
    # On green's own cell it does not touch.
    assert solved(board(robot=(5, 3), green=(5, 3), blue=(2, 5), held="red")) == {"lift red", "red close to green"}


@pytest.mark.parametrize("corner", [(0, 0), (1, 1), (5, 0), (6, 1), (0, 5), (1, 6), (5, 5), (6, 6)])
def test_corner(board, corner):
    assert "green to corner" in solved(board(robot=(3, 3), green=corner))
    assert "green to corner" in solved(board(robot=corner, held="green")), "a held object counts"


@pytest.mark.parametrize("place", [(2, 0), (0, 2), (4, 6), (6, 4), (1, 2), (3, 3)])
def test_not_a_corner(board, place):
    assert "green to corner" not in solved(board(robot=(3, 3), green=place))


@pytest.mark.parametrize(
    ("place", "inside"), [((2, 2), True), ((4, 4), True), ((3, 2), True), ((1, 3), False), ((3, 5), False)]
)
def test_center(board, place, inside):
    assert ("blue to center" in solved(board(robot=(0, 0), blue=place))) == inside
    assert ("blue to center" in solved(board(robot=place, held="blue"))) == inside, "a held object counts"


@pytest.mark.parametrize(
    ("blue", "close"), [((3, 3), True), ((4, 4), True), ((2, 4), True), ((3, 5), False), ((5, 3), False)]
)
def test_close(board, blue, close):
    assert ("red close to blue" in solved(board(robot=(0, 0), red=(3, 3), held="blue"))) is False
    assert ("red close to blue" in solved(board(robot=blue, red=(3, 3), held="blue"))) == close
    if blue != (3, 3):
        assert ("red close to blue" in solved(board(robot=(0, 0), red=(3, 3), blue=blue))) == close


@pytest.mark.parametrize(
    ("blue", "far"), [((6, 6), True), ((6, 4), True), ((4, 6), True), ((5, 5), True), ((6, 3), False), ((5, 4), False)]
)
def test_far_is_a_sum_above_nine(board, blue, far):
    assert ("red far from blue" in solved(board(robot=(3, 3), red=(0, 0), green=(3, 3), blue=blue))) == far
    assert ("red far from blue" in solved(board(robot=blue, red=(0, 0), green=(3, 3), held="blue"))) == far


def test_stacked_means_put_down_and_in_order(board):
    stacked = board(robot=(3, 0), green=(5, 3), blue=(2, 5), stack=("red", "green"))
    assert solved(stacked) == {"red on green", "red close to green"}
    held_above = board(robot=(5, 3), green=(5, 3), blue=(2, 5), held="red")
    assert "red on green" not in solved(held_above)
    # Red in hand over a stack of the others: only the stack counts.
    above_a_stack = board(robot=(5, 3), blue=(5, 3), stack=("green", "blue"), held="red")
    assert {name for name in solved(above_a_stack) if " on " in name} == {"green on blue"}


def test_the_step_rewards_the_board_after_it_for_every_task(board):
    state = board(robot=(5, 2), green=(5, 3), blue=(2, 5), held="red")
    step = jax.jit(jax.vmap(GRIDROBOMAN.step, in_axes=(None, None, 0)))
    after, rewards = step(state, jnp.int8(SKIP), jnp.arange(30))
    np.testing.assert_array_equal(rewards, np.asarray(solved_jit(state), np.float32))
    _, moved = step(state, jnp.int8(0), jnp.arange(30))
    assert rewards[TASK_NAMES.index("red touch green")] == 1
    assert moved[TASK_NAMES.index("red touch green")] == 0
    assert after.robot_x.shape == (30,)
