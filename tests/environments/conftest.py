"""Boards by hand, walks that meet every kind of board, and episodes of BabyAI's bot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from r2a.environments.gridroboman.dynamics import (
    DOWN,
    LEFT,
    LIFT,
    OBJECT_NAMES,
    PUT,
    RIGHT,
    UP,
    State,
    advance,
    holding_any,
    reset,
    standing_on,
)


def make_board(robot, red=(0, 6), green=(6, 6), blue=(6, 0), held=None, stack=None) -> State:
    """A board from (x, y) places; `held` names the held object, `stack` the (top, bottom) of a stack.

    A held object is where the robot is, a top object where its bottom is: their own places are not needed.
    """
    places = {"red": red, "green": green, "blue": blue}
    status = dict.fromkeys(OBJECT_NAMES, 0)
    if held:
        places[held], status[held] = robot, 1
    if stack:
        top, bottom = stack
        places[top], status[top], status[bottom] = places[bottom], 1, -1

    def numbers(values):
        return tuple(jnp.int8(value) for value in values)

    return State(
        object_x=numbers(places[name][0] for name in OBJECT_NAMES),
        object_y=numbers(places[name][1] for name in OBJECT_NAMES),
        status=numbers(status[name] for name in OBJECT_NAMES),
        held=tuple(jnp.bool_(name == held) for name in OBJECT_NAMES),
        robot_x=jnp.int8(robot[0]),
        robot_y=jnp.int8(robot[1]),
    )


def wander(key: jax.Array, length: int) -> tuple[State, jax.Array, State]:
    """A start, `length` actions and the boards after them: a robot that likes to carry objects to each other.

    It walks to one object after the other, lifts and puts where it meets them, and acts at random half of the time.
    """
    reset_key, walk_key = jax.random.split(key)
    start = reset(reset_key)

    def step(state: State, inputs):
        step_key, time = inputs
        noise, whim = jax.random.bits(step_key, (2,), jnp.uint16).astype(jnp.int32)
        aim = (time // 9 + noise // 8) % 3
        aim_x = jnp.stack(state.object_x)[aim]
        aim_y = jnp.stack(state.object_y)[aim]
        sideways = jnp.where(aim_x > state.robot_x, RIGHT, LEFT)
        upright = jnp.where(aim_y > state.robot_y, DOWN, UP)
        walk = jnp.where((aim_x != state.robot_x) & ((whim % 2 == 0) | (aim_y == state.robot_y)), sideways, upright)
        others_here = sum(here & ~held for here, held in zip(standing_on(state), state.held, strict=True))
        handle = jnp.where(holding_any(state), PUT, LIFT)
        purposeful = jnp.where((others_here > 0) & (noise % 2 == 0), handle, walk)
        action = jnp.where(noise % 8 < 4, purposeful, whim % 7).astype(jnp.int8)
        state = advance(state, action)
        return state, (action, state)

    inputs = (jax.random.split(walk_key, length), jnp.arange(length))
    _, (actions, states) = jax.lax.scan(step, start, inputs)
    return start, actions, states


@pytest.fixture
def board():
    return make_board


@pytest.fixture(scope="session")
def walk():
    return wander


def bot_episode(level, seed, noise, max_steps=128, limit_seconds=20.0, make_bot=None):
    """An episode of BabyAI's bot, or the reason why there is none."""
    from r2a.environments.api import NoEpisodeError
    from r2a.environments.babyai import BabyAISettings
    from r2a.environments.babyai.env import BabyAI
    from r2a.environments.babyai.expert import Expert
    from r2a.training.collect import time_limit
    from r2a.training.rollout import play

    class Policy(Expert):
        pass

    if make_bot is not None:
        Policy.make_bot = make_bot
    env = BabyAI(BabyAISettings(max_steps=max_steps), 1)
    try:
        with time_limit(limit_seconds):
            return play(env, Policy(env, level, seed, noise), level, seed)
    except NoEpisodeError as none:
        return none


@pytest.fixture(scope="session")
def play_bot():
    return bot_episode
