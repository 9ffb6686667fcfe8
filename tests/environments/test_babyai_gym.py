"""BabyAI through Gymnasium, and what is imported for it."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import r2a.environments  # noqa: F401 (registers the environment)
from r2a.environments.babyai import GYMNASIUM_ID, as_text
from r2a.environments.babyai.gym import BabyAIEnv
from r2a.errors import UserError


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_check_env_has_nothing_to_say(render_mode):
    environment = gymnasium.make("r2a/BabyAI-v0", level="BossLevel", render_mode=render_mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)


def test_the_mission_is_told_in_words_and_numbers():
    environment = gymnasium.make(GYMNASIUM_ID, level="GoToRedBall")
    observation, info = environment.reset(seed=0)
    assert info == {"level": "GoToRedBall", "mission": "go to the red ball"}
    assert as_text(observation["mission"]) == "go to the red ball"
    assert environment.action_space == gymnasium.spaces.Discrete(7)
    assert environment.step(0)[4] == info


def test_pictures_are_minigrids():
    environment = gymnasium.make(GYMNASIUM_ID, level="GoToLocal", render_mode="rgb_array")
    environment.reset(seed=0)
    picture = environment.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (8 * 32, 8 * 32, 3)
    assert picture.std() > 0


def test_seeds_decide_the_start_and_the_future_starts():
    def starts(seed):
        environment = gymnasium.make(GYMNASIUM_ID)
        resets = [environment.reset(seed=seed), *(environment.reset() for _ in range(3))]
        return [(observation["image"].tolist(), info["mission"]) for observation, info in resets]

    assert starts(3) == starts(3)
    assert starts(3) != starts(4)
    assert starts(3)[0] != starts(3)[1]


def test_mistakes_are_one_clear_sentence():
    with pytest.raises(UserError, match="did you mean GoToLocal"):
        gymnasium.make(GYMNASIUM_ID, level="GoToLokal")
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(GYMNASIUM_ID).unwrapped.step(0)
    with pytest.raises(ValueError, match="render mode"):
        BabyAIEnv(render_mode="human")


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_minigrid_there_is_one_sentence_and_the_rest_works():
    done = run_python(
        """
import sys
sys.modules["minigrid"] = None
import r2a.environments, r2a.environments.babyai, r2a.training.collect.babyai
from r2a.errors import UserError
for module in ("worlds", "expert", "gym", "bot"):
    try:
        __import__(f"r2a.environments.babyai.{module}")
    except UserError as error:
        print(error)
try:
    config = r2a.training.collect.babyai.BabyAICollectConfig(levels=("GoTo",))
    r2a.training.collect.babyai.collect(config, "never")
except UserError as error:
    print(error)
"""
    )
    assert done.stdout.splitlines() == ["BabyAI needs minigrid: pip install 'r2a[babyai]'."] * 5, done.stderr


def test_stepping_babyai_loads_no_jax_and_looking_at_its_levels_no_minigrid():
    done = run_python(
        """
import sys
import r2a.environments.babyai
print("minigrid" in sys.modules, "pygame" in sys.modules)
import r2a.training.collect.babyai_shards, r2a.training.collect.processes
print("jax" in sys.modules)
"""
    )
    assert done.stdout.splitlines() == ["False False", "False"], done.stderr
