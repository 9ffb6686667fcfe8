"""The moves of one board, by hand and by property."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2a.environments.api import PureEnv
from r2a.environments.gridroboman.dynamics import ACTION_NAMES, EPISODE_LENGTH, advance, observe, reset
from r2a.environments.gridroboman.env import GRIDROBOMAN, SPEC
from r2a.environments.gridroboman.tasks import TASK_NAMES
from r2a.environments.registry import make_pure

advance_jit = jax.jit(advance)


def do(state, *names):
    """Do the named actions; the 11-vector after them as a list, and the state."""
    for name in names:
        state = advance_jit(state, jnp.int8(ACTION_NAMES.index(name)))
    return np.asarray(observe(state)).tolist(), state


@pytest.mark.parametrize(
    ("action", "place"), [("up", (3, 2)), ("down", (3, 4)), ("left", (2, 3)), ("right", (4, 3)), ("skip", (3, 3))]
)
def test_moves(board, action, place):
    observation, _ = do(board(robot=(3, 3)), action)
    assert observation == [0, 6, 6, 6, 6, 0, *place, 0, 0, 0]


def test_walls_stop_the_robot_on_all_four_sides(board):
    assert do(board(robot=(0, 0)), "up", "left")[0][6:8] == [0, 0]
    assert do(board(robot=(6, 6)), "down", "right")[0][6:8] == [6, 6]


def test_lift_carry_put(board):
    state = board(robot=(2, 2), red=(2, 2))
    assert do(state, "lift")[0] == [2, 2, 6, 6, 6, 0, 2, 2, 1, 0, 0]
    assert do(state, "lift", "right", "down")[0] == [3, 3, 6, 6, 6, 0, 3, 3, 1, 0, 0]
    observation, after = do(state, "lift", "right", "down", "put")
    assert observation == [3, 3, 6, 6, 6, 0, 3, 3, 0, 0, 0]
    assert not any(after.held)
    assert do(after, "up")[0][:2] == [3, 3], "what was put stays"


def test_lift_needs_an_object_here_and_empty_hands(board):
    nothing_here = board(robot=(3, 3))
    assert not any(do(nothing_here, "lift")[1].held)
    on_green_with_red = board(robot=(2, 2), green=(2, 2), held="red")
    assert [bool(flag) for flag in do(on_green_with_red, "lift")[1].held] == [True, False, False]


def test_put_with_empty_hands_does_nothing(board):
    state = board(robot=(2, 2), red=(2, 2))
    assert do(state, "put")[0] == do(state)[0]


def test_stacking_and_taking_apart(board):
    state = board(robot=(2, 2), green=(2, 2), held="red")
    stacked, after = do(state, "put")
    assert stacked == [2, 2, 2, 2, 6, 0, 2, 2, 1, -1, 0]
    lifted, after = do(after, "lift")
    assert lifted[8:] == [1, 0, 0], "the top object is lifted, the bottom one lies free"
    assert [bool(flag) for flag in after.held] == [True, False, False]


def test_put_is_refused_on_two_objects(board):
    state = board(robot=(2, 2), blue=(2, 2), stack=("green", "blue"), held="red")
    refused, after = do(state, "put")
    assert refused == [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, -1]
    assert bool(after.held[0])
    assert do(after, "left", "put")[0] == [1, 2, 2, 2, 2, 2, 1, 2, 0, 1, -1]


def test_starts_are_uniform_over_distinct_cells():
    observations = np.asarray(
        jax.jit(jax.vmap(lambda key: observe(reset(key))))(jax.random.split(jax.random.key(0), 49000))
    )
    cells = observations[:, 0:8:2] + 7 * observations[:, 1:8:2]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert (cells[:, a] != cells[:, b]).all()
    assert (observations[:, 8:] == 0).all()
    for column in range(4):
        counts = np.bincount(cells[:, column], minlength=49)
        # 1,000 are expected per cell; 48 degrees of freedom, far above the 1e-4 quantile of 93.
        assert ((counts - 1000) ** 2 / 1000).sum() < 110
    assert (cells[:, 3] == cells[:, 0]).any(), "the robot may start on an object"


@functools.partial(jax.jit, static_argnums=0)
def _walked(walk, seed):
    _, _, states = walk(jax.random.key(seed), 400)
    return jax.vmap(observe)(states), jnp.stack(states.held, axis=1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_every_board_on_the_way_is_lawful(walk, seed):
    """At most two objects per cell, one held; statuses and ranges agree with places."""
    observation, held = (np.asarray(column) for column in _walked(walk, jnp.uint32(seed)))
    assert observation.dtype == np.int8
    places, status = observation[:, :8].reshape(-1, 4, 2), observation[:, 8:]
    assert (places >= 0).all()
    assert (places <= 6).all()
    assert (held.sum(1) <= 1).all()
    for board, statuses, holds in zip(places, status, held, strict=True):
        lying: dict[tuple, list[int]] = {}
        for i in range(3):
            if holds[i]:
                assert (board[i] == board[3]).all()
                assert statuses[i] == 1
            else:
                lying.setdefault(tuple(board[i]), []).append(statuses[i])
        for pile in lying.values():
            assert sorted(pile) in ([0], [-1, 1])


def test_the_same_key_gives_the_same_episode(walk):
    first, same, other = (_walked(walk, jnp.uint32(seed))[0] for seed in (7, 7, 8))
    assert (first == same).all()
    assert not (first == other).all()


def test_the_environment_is_pure_and_without_a_batch_axis():
    assert isinstance(GRIDROBOMAN, PureEnv)
    assert make_pure("gridroboman") is GRIDROBOMAN
    assert make_pure("minatar") is None
    assert (SPEC.observation.shape, SPEC.observation.dtype) == ((11,), np.int8)
    assert (SPEC.action_size, SPEC.action_names, SPEC.max_steps) == (7, ACTION_NAMES, EPISODE_LENGTH)
    assert SPEC.tasks == TASK_NAMES

    @jax.jit
    def one_step(key, action, task):
        state, reward = GRIDROBOMAN.step(GRIDROBOMAN.reset(key), action, task)
        return GRIDROBOMAN.observe(state), reward

    tasks = jnp.arange(30)
    observations, rewards = jax.vmap(one_step, in_axes=(None, None, 0))(jax.random.key(0), jnp.int8(6), tasks)
    assert (observations.shape, observations.dtype) == ((30, 11), jnp.int8)
    assert (rewards.shape, rewards.dtype) == ((30,), jnp.float32)
