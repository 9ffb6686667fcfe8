"""CausalWorld episodes in processes of their own: equal to a single one, whatever happens to the processes."""

import os
import signal

import numpy as np
import pytest

from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.environments.causalworld.worlds import Setting, Worlds
from r2a.errors import UserError

TASKS, SEEDS, STEPS = ("pushing", "pick_and_place", "pushing"), (3, 5, 7), 6
ACTIONS = np.random.default_rng(0).uniform(-0.5, 0.2, (STEPS, len(TASKS), 9)).astype(np.float32)
SETTING = Setting(max_steps=STEPS - 1)


def alone(task, seed, actions):
    env = CausalWorldEnv(task, max_steps=SETTING.max_steps)
    seen = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, _, _, truncated, info = env.step(action)
        seen.append(observation)
        if truncated:
            return np.stack(seen), info["fractional_success"]
    raise AssertionError("the episode did not end")


@pytest.mark.parametrize("killed_at", [None, 0, 3])
def test_worlds_are_those_of_single_environments_even_if_a_process_is_killed(killed_at):
    with Worlds(TASKS, SETTING, processes=2) as worlds:
        seen = [worlds.reset(SEEDS)]
        for number, actions in enumerate(ACTIONS):
            if number == killed_at:
                os.kill(worlds._groups[0]._process.pid, signal.SIGKILL)
            after = worlds.step(actions)
            seen.append(after.observation)
        assert after.over.all()
        assert (after.reward == 0).all()  # the episodes were over a step before
    for i, (task, seed) in enumerate(zip(TASKS, SEEDS, strict=True)):
        expected, fraction = alone(task, seed, ACTIONS[:, i])
        np.testing.assert_array_equal(np.stack(seen)[:STEPS, i], expected)
        np.testing.assert_array_equal(seen[-1][i], expected[-1])
        assert after.fraction[i] == fraction
        assert np.isfinite(fraction)


def test_a_simulator_that_always_dies_is_given_up_with_a_sentence(monkeypatch):
    with Worlds(("pushing",), SETTING) as worlds:
        worlds.reset([0])
        group = worlds._groups[0]
        start = group._start

        def start_and_die():
            start()
            os.kill(group._process.pid, signal.SIGKILL)

        monkeypatch.setattr(group, "_start", start_and_die)
        os.kill(group._process.pid, signal.SIGKILL)
        with pytest.raises(UserError, match="simulator of pushing ends again and again"):
            worlds.step(ACTIONS[0][:1])


def test_a_bad_action_is_told_in_a_sentence():
    with Worlds(("pushing",), SETTING) as worlds:
        worlds.reset([0])
        with pytest.raises(UserError, match="must lie in"):
            worlds.step(np.full((1, 9), np.nan, np.float32))
