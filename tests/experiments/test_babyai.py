"""Table 1: its arms, a real small sweep from collecting to the table, and how its figures are made."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import jax
import numpy as np
import pytest
from test_presets import differences

from r2a.agents.build import build_agent
from r2a.cli import main
from r2a.data.dataset import OfflineDataset
from r2a.data.retrieval_batch import load_resident
from r2a.environments.babyai import COMPOSITIONAL, LEVEL_NAMES
from r2a.errors import UserError
from r2a.experiments.babyai import analysis
from r2a.experiments.babyai.presets import ARMS, LAPTOP, LAPTOP_LEVELS, PAPER, SMOKE, SMOKE_LEVELS, arm
from r2a.experiments.babyai.sweep import SCALES, all_runs
from r2a.training.collect.babyai import BabyAICollectConfig, collect
from r2a.training.evaluate import evaluate
from r2a.training.tasks import choose_tasks


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ra_rdqn_multi", set()),
        ("rdqn", {"agent.retrieval.variant"}),
        ("ra_rdqn_multi_no_ib", {"agent.retrieval.bottleneck"}),
        ("ra_rdqn_single", {"data.retrieve_from"}),
        ("ra_rdqn_random", {"data.retrieve_from"}),
        ("rdqn_auxiliary", {"agent.retrieval.variant"}),
    ],
)
def test_an_arm_changes_exactly_what_it_names(name, changed):
    assert differences(asdict(LAPTOP), asdict(arm(LAPTOP, name))) == changed


def test_the_laptop_levels_span_easy_to_compositional():
    assert len(LAPTOP_LEVELS) == len(set(LAPTOP_LEVELS)) == 12
    assert set(LAPTOP_LEVELS) <= set(LEVEL_NAMES)
    assert len(COMPOSITIONAL & set(LAPTOP_LEVELS)) == 5
    small, large = SCALES["laptop"].trajectories_per_level
    assert large == 4 * small
    assert {run.arm for run in all_runs("laptop")} == set(ARMS)
    assert {run.seed for run in all_runs("laptop")} == {0, 1, 2}


def test_the_paper_preset_has_the_papers_values():
    assert (PAPER.learner.learning_rate, PAPER.learner.discount, PAPER.learner.target_period) == (3e-4, 0.99, 1000)
    assert (PAPER.agent.core.size, PAPER.agent.retrieval.trajectories, PAPER.agent.retrieval.slots) == (512, 32, 4)
    assert PAPER.data.num_tasks * PAPER.agent.retrieval.trajectories == 1280
    assert (PAPER.agent.retrieval.ranking, PAPER.agent.retrieval.k_traj) == ("attention", 10)
    agent = jax.eval_shape(lambda: build_agent(PAPER.agent, 148, 7, jax.random.key(0)))
    assert agent.core.gru.initial_state().shape == (512,)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    config = BabyAICollectConfig(levels=SMOKE_LEVELS, episodes=24, max_steps=40, workers=1)
    return collect(config, tmp_path_factory.mktemp("datasets") / "babyai")


def build(config):
    generator = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: build_agent(config.agent, 148, 7, jax.random.key(0)))
    return jax.tree.map(lambda leaf: 0.3 * generator.normal(size=leaf.shape).astype(leaf.dtype), shapes)


@pytest.mark.parametrize(("name", "source"), [("ra_rdqn_multi", "all_tasks"), ("ra_rdqn_single", "right")])
def test_an_evaluation_plays_every_level_and_tells_whose_data_were_read(dataset, name, source):
    config, chosen = choose_tasks(arm(SMOKE, name), dataset)
    config = replace(config, evaluation=replace(config.evaluation, steps=6, episodes=3))
    data = load_resident(chosen, config.data)
    result = evaluate(build(config), data, config, chosen.task_names, source, jax.random.key(0))
    assert result.scores.shape == (3, 2, 3)
    assert set(np.unique(result.scores)) <= {0.0, 1.0}
    np.testing.assert_allclose(result.weight.sum(1), 1.0, rtol=1e-5)
    if source == "right":
        np.testing.assert_allclose(result.weight, np.eye(3), atol=1e-6)
    else:
        assert (result.weight > 0).sum() > 3


def test_some_levels_and_some_episodes_of_a_data_set(dataset):
    config = replace(SMOKE, data=replace(SMOKE.data, tasks=("PutNextLocal", "GoToObj"), episodes_per_task=8))
    config, chosen = choose_tasks(config, dataset)
    assert (config.data.num_tasks, config.data.tasks_per_step, config.data.batch_size) == (2, 2, 6)
    assert chosen.task_names == ("PutNextLocal", "GoToObj")
    assert np.bincount(chosen.columns["task_id"]).tolist() == [8, 8]
    rows = np.concatenate([dataset.episodes(2)[:8], dataset.episodes(0)[:8]])
    np.testing.assert_array_equal(chosen.columns["instruction"], dataset.columns["instruction"][rows])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data.tasks", "GoToLokal"], "did you mean"),
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
        choose_tasks(SMOKE, other)
    provenance = {**dataset.manifest["provenance"], "vocabulary": "0" * 64}
    other = OfflineDataset(dataset.path, {**dataset.manifest, "provenance": provenance}, dataset.columns)
    with pytest.raises(UserError, match="another BabyAI vocabulary"):
        choose_tasks(SMOKE, other)


def test_a_sweep_goes_from_nothing_to_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for part in ("ra_rdqn_multi-24", "rdqn-24"):
        assert main(["sweep", "babyai", "--scale", "smoke", "--only", part, "--workers", "1"]) == 0
    folder = tmp_path / "results/babyai/smoke"
    records = json.loads((folder / "summary.json").read_text())
    assert {(r["arm"], r["trajectories_per_level"], r["levels"], r["seeds"]) for r in records} == {
        ("rdqn", 24, 3, 1),
        ("ra_rdqn_multi", 24, 3, 1),
    }
    assert {"scale", "success_mean", "low", "high"} <= records[0].keys()
    assert (folder / "success_by_steps.png").stat().st_size > 5_000
    assert (folder / "retrieved_from.png").stat().st_size > 5_000
    assert "RA-RDQN, multi-task" in (folder / "table.md").read_text()
    capsys.readouterr()
    assert main(["sweep", "babyai", "--scale", "smoke", "--only", "rdqn-24", "--workers", "1"]) == 0
    assert "1 of 1 runs are done" in capsys.readouterr().out


def make_run(name, size, seed, score, own):
    """A result file of two levels, of which the agent reads its own with weight `own`."""
    levels = ["GoToObj", "PutNextLocal"]
    return {
        "arm": name,
        "scale": "laptop",
        "trajectories_per_level": size,
        "seed": seed,
        "config": {"data": {"tasks": levels}},
        "final": {"all_tasks": score},
        "per_task": {"all_tasks": {"GoToObj": score + 0.1, "PutNextLocal": score - 0.1}},
        "learner_steps": 10,
        "wall_seconds": 120.0,
        "parameters": 5,
        "weight": [[own, 1 - own], [0.6, 0.4]],
    }


def test_the_tables_are_means_over_seeds():
    runs = [make_run("ra_rdqn_multi", 250, seed, 0.5 + 0.1 * seed, 0.8 - 0.1 * seed) for seed in range(3)]
    runs.append(make_run("rdqn", 250, 0, 0.3, 0.5))
    records = {record["arm"]: record for record in analysis.summarise(runs)}
    assert records["ra_rdqn_multi"]["success_mean"] == pytest.approx(0.6)
    half = 4.303 * 0.1 / 3**0.5  # Student's t of two degrees of freedom
    assert records["ra_rdqn_multi"]["high"] == pytest.approx(0.6 + half, abs=1e-4)
    assert records["rdqn"]["low"] is None
    shares = analysis.shares_from_others(runs[:3])
    assert shares["groups"]["other"]["share"] == pytest.approx(0.3)
    assert shares["groups"]["compositional"]["share"] == pytest.approx(0.6)
    assert shares["by_chance"] == 0.5
    text = analysis.table(list(records.values()))
    assert "| RA-RDQN, multi-task | 60.0 % (35.2 to 84.8) | 55 % and 74 % | 3 | 2.0 |" in text
    assert "| PutNextLocal (c) | 20 % | 50 % |" in analysis.level_table(runs)
