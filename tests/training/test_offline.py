"""Learning from data where something else is seen than numbers, and what of the data must fit the run."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from r2a.config import EncoderConfig, override
from r2a.environments.causalworld import WORLD, CausalWorldSettings
from r2a.errors import UserError
from r2a.experiments.causalworld import SMOKE
from r2a.training.collect import collect
from r2a.training.evaluate import evaluate
from r2a.training.metrics import read_metrics
from r2a.training.offline import OfflineRun, initial_state
from r2a.training.runs import settle
from r2a.training.train import train

ONE_TASK = override(SMOKE, {"data.num_tasks": 1, "data.tasks_per_step": 1})
SEEN = CausalWorldSettings(cameras=(0,), image_size=32, skip_frame=50)
BY_PICTURES = override(
    ONE_TASK, {"env": SEEN, "agent.encoder": EncoderConfig(features="strided_half", hidden=(16,)), "steps": 10}
)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    config = replace(WORLD.collect, tasks=("pushing",), episodes=4, workers=1, env=SEEN)
    return collect("causalworld", config, tmp_path_factory.mktemp("data") / "pictures")


def test_an_agent_clones_and_acts_by_pictures(pictures, tmp_path):
    assert pictures.observation_shape == (2, 32, 32, 3)
    run = OfflineRun(BY_PICTURES, pictures)
    before = jax.tree.map(np.array, run.agent.encoder)
    train(run, tmp_path / "run")
    changed = jax.tree.map(lambda one, other: not np.array_equal(one, other), before, run.agent.encoder)
    assert all(jax.tree.leaves(changed))  # pictures are learnt from
    line = read_metrics(tmp_path / "run")[-1]
    assert np.isfinite(line["bc/loss"])
    assert 0 <= line["eval/all_tasks/pushing"] <= 1
    config = override(run.config, {"env.max_steps": 3})  # an evaluation lasts as long as its own settings say
    played = evaluate(run.agent, run.data, config, "all_tasks", jax.random.key(1))
    assert [len(episode.actions) for episode in played.played] == [3]
    assert played.names == ("success", "fraction")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"env": CausalWorldSettings(skip_frame=50)}, r"shows pictures of cameras \(0,\) with 32 pixels"),
        ({"env.cameras": (0, 1)}, "set env.cameras and env.image-size to what the data were collected with"),
        ({"env.image_size": 64}, "set env.cameras and env.image-size to what the data were collected with"),
        ({"env.skip_frame": 10}, r"lasts 50 frames, and env.skip-frame is 10; set it to 50"),
        ({"environment": "babyai"}, "holds episodes of causalworld, not of babyai"),
    ],
)
def test_data_that_do_not_fit_the_environment_are_refused(pictures, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        settle(override(BY_PICTURES, changes), pictures)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"agent.encoder": SMOKE.agent.encoder}, "encoder.features is 'poses', but that is for vectors"),
        ({"data.task_input": "one_hot"}, "cannot be followed by a task's number"),
    ],
)
def test_an_agent_that_cannot_see_the_data_is_refused(pictures, changes, sentence):
    config, dataset = settle(override(BY_PICTURES, changes), pictures)
    with pytest.raises(UserError, match=sentence):
        initial_state(config, dataset)
