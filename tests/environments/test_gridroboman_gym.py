"""Gridroboman through Gymnasium."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import r2a.environments  # noqa: F401 (registers the environment)
from r2a.environments.gridroboman import ACTION_NAMES, GYMNASIUM_ID

LIFT, SKIP = ACTION_NAMES.index("lift"), ACTION_NAMES.index("skip")


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_check_env_has_nothing_to_say(render_mode):
    environment = gymnasium.make("r2a/Gridroboman-v0", task="lift red", render_mode=render_mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)


def test_spaces():
    environment = gymnasium.make(GYMNASIUM_ID)
    assert isinstance(environment.observation_space, gymnasium.spaces.Box)
    assert environment.observation_space.dtype == np.int8
    assert environment.observation_space.shape == (11,)
    assert environment.action_space == gymnasium.spaces.Discrete(7)


def test_unknown_tasks_and_actions_are_one_clear_sentence():
    with pytest.raises(ValueError, match="unknown gridroboman task 'fly': choose one of touch red, "):
        gymnasium.make(GYMNASIUM_ID, task="fly")
    environment = gymnasium.make(GYMNASIUM_ID).unwrapped
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="unknown action 7: choose a number from 0 to 6"):
        environment.step(7)


def test_step_before_reset():
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(GYMNASIUM_ID).unwrapped.step(0)


def test_episodes_truncate_at_step_50_and_never_terminate():
    environment = gymnasium.make(GYMNASIUM_ID)
    for seed in range(2):
        environment.reset(seed=seed)
        ends = [environment.step(SKIP)[2:4] for _ in range(50)]
        assert ends == [(False, False)] * 49 + [(False, True)]


def test_seeds_decide_the_start_and_the_future_starts():
    def starts(seed):
        environment = gymnasium.make(GYMNASIUM_ID)
        return [environment.reset(seed=seed)[0].tolist(), *(environment.reset()[0].tolist() for _ in range(3))]

    assert starts(3) == starts(3)
    assert starts(3) != starts(4)
    assert len({tuple(start) for start in starts(3)}) == 4


def test_lifting_red_pays_in_every_step_after():
    environment = gymnasium.make(GYMNASIUM_ID, task="lift red")
    observation, info = environment.reset(seed=1)
    assert info == {"task": "lift red"}
    red_x, red_y, robot_x, robot_y = (int(observation[i]) for i in (0, 1, 6, 7))
    sideways = [ACTION_NAMES.index("right" if red_x > robot_x else "left")] * abs(red_x - robot_x)
    upright = [ACTION_NAMES.index("down" if red_y > robot_y else "up")] * abs(red_y - robot_y)
    rewards = [environment.step(action)[1] for action in [*sideways, *upright, LIFT, SKIP, 0]]
    assert rewards == [0.0] * (len(rewards) - 3) + [1.0] * 3


def test_observations_are_copies():
    environment = gymnasium.make(GYMNASIUM_ID).unwrapped
    first, _ = environment.reset(seed=0)
    kept = first.copy()
    first[:] = 0
    after = environment.step(SKIP)[0]
    np.testing.assert_array_equal(after, kept)
