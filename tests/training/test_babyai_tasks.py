"""Levels of BabyAI's data: which of them a run is about, what an evaluation of them tells, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from r2a.agents.build import build_agent
from r2a.cli import main
from r2a.config import override
from r2a.data.dataset import OfflineDataset
from r2a.data.retrieval_batch import load_resident
from r2a.environments.babyai import WORLD, BabyAISettings
from r2a.environments.registry import load_features
from r2a.errors import UserError
from r2a.experiments.babyai import SMOKE, SMOKE_LEVELS
from r2a.experiments.presets import arm
from r2a.training.collect import collect
from r2a.training.evaluate import evaluate
from r2a.training.runs import settle


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    config = replace(WORLD.collect, tasks=SMOKE_LEVELS, episodes=24, env=BabyAISettings(max_steps=40), workers=1)
    return collect("babyai", config, tmp_path_factory.mktemp("datasets") / "babyai")


def build(config):
    load_features("babyai")
    generator = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: build_agent(config.agent, 148, 7, jax.random.key(0)))
    return jax.tree.map(lambda leaf: 0.3 * generator.normal(size=leaf.shape).astype(leaf.dtype), shapes)


@pytest.mark.parametrize(("name", "source"), [("ra_rdqn_multi", "all_tasks"), ("ra_rdqn_single", "right")])
def test_an_evaluation_plays_every_level_and_tells_whose_data_were_read(dataset, name, source):
    config, chosen = settle(arm(SMOKE, name), dataset)
    config = override(config, {"env.max_steps": 6, "evaluation.episodes": 3})
    data = load_resident(chosen, config.data)
    result = evaluate(build(config), data, config, source, jax.random.key(0))
    assert result.scores.shape == (3, 2, 3, 1)
    assert set(np.unique(result.scores)) <= {0.0, 1.0}
    np.testing.assert_allclose(result.weight.sum(1), 1.0, rtol=1e-5)
    if source == "right":
        np.testing.assert_allclose(result.weight, np.eye(3), atol=1e-6)
    else:
        assert (result.weight > 0).sum() > 3


def test_some_levels_and_some_episodes_of_a_data_set(dataset):
    config = override(SMOKE, {"data.tasks": ("PutNextLocal", "GoToObj"), "data.episodes_per_task": 8})
    config, chosen = settle(config, dataset)
    assert (config.data.num_tasks, config.data.tasks_per_step, config.data.batch_size) == (2, 2, 6)
    assert chosen.task_names == ("PutNextLocal", "GoToObj")
    assert np.bincount(chosen.columns["task_id"]).tolist() == [8, 8]
    rows = np.concatenate([dataset.episodes(2)[:8], dataset.episodes(0)[:8]])
    np.testing.assert_array_equal(chosen.columns["instruction"], dataset.columns["instruction"][rows])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data.tasks", "GoToLokal"], "has no task 'GoToLokal'; its tasks are GoToObj"),
        (["--data.tasks", "GoToDoor"], "has no task 'GoToDoor'"),
        (["--data.episodes-per-task", "1000"], "24 episodes"),
        (["--retrieval.trajectories", "20"], "only 6"),
        (["--data.num-tasks", "5"], "has 3 tasks"),
        (["--agent", "dqn"], "no agent 'dqn' for babyai"),
        (["--data.tasks", "GoToObj", "GoToObj"], "twice"),
    ],
)
def test_bad_input_gets_one_sentence(dataset, tmp_path, capsys, arguments, sentence):
    runs = tmp_path / "runs"
    common = ["--preset", "smoke", "--data.dataset", str(dataset.path), "--runs", str(runs)]
    assert main(["train", "babyai", *common, *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not runs.exists()


def test_data_of_another_environment_or_vocabulary_are_refused(dataset):
    other = OfflineDataset(dataset.path, {**dataset.manifest, "environment": "gridroboman"}, dataset.columns)
    with pytest.raises(UserError, match="episodes of gridroboman, not of babyai"):
        settle(SMOKE, other)
    provenance = {**dataset.manifest["provenance"], "vocabulary": "0" * 64}
    other = OfflineDataset(dataset.path, {**dataset.manifest, "provenance": provenance}, dataset.columns)
    with pytest.raises(UserError, match="another BabyAI vocabulary"):
        settle(SMOKE, other)
