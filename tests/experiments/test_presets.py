"""Presets and arms say what they mean, and differ in nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from r2a.config import RunConfig, config_from_dict
from r2a.errors import UserError
from r2a.experiments.gridroboman.presets import ARMS, LAPTOP, PRESETS, size_of
from r2a.experiments.gridroboman.sweep import SCALES, all_runs
from r2a.experiments.presets import arm, preset
from r2a.experiments.statistics import t_interval


def differences(one: dict, other: dict, where: str = "") -> set[str]:
    found = set()
    for name, value in one.items():
        if isinstance(value, dict):
            found |= differences(value, other[name], f"{where}{name}.")
        elif value != other[name]:
            found.add(where + name)
    return found


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ra_dqn", set()),
        ("dqn", {"agent.retrieval.variant"}),
        ("dqn_matched", {"agent.retrieval.variant", "agent.encoder.hidden", "agent.head.hidden"}),
        ("ra_dqn_random", {"data.retrieve_from"}),
    ],
)
def test_an_arm_changes_exactly_what_it_names(name: str, changed: set[str]):
    assert differences(asdict(LAPTOP), asdict(arm(LAPTOP, name))) == changed


@pytest.mark.parametrize("task_input", ["none", "one_hot"])
def test_the_matched_baseline_has_as_many_parameters(task_input):
    config = replace(LAPTOP, data=replace(LAPTOP.data, num_tasks=30, task_input=task_input))
    sizes = {name: size_of(arm(config, name)) for name in ARMS}
    assert sizes["ra_dqn"] == sizes["ra_dqn_random"] > 2 * sizes["dqn"]
    assert sizes["dqn_matched"] == pytest.approx(sizes["ra_dqn"], rel=0.005)


def test_the_paper_preset_has_the_papers_values():
    paper = PRESETS["paper"]
    assert (paper.learner.learning_rate, paper.learner.discount, paper.learner.target_period) == (3e-4, 0.99, 2500)
    assert (paper.data.batch_size, paper.agent.retrieval.trajectories, paper.agent.retrieval.slots) == (256, 64, 4)
    assert (paper.agent.retrieval.k_traj, paper.agent.retrieval.k_states) == (10, 10)
    assert (paper.agent.retrieval.summariser, paper.agent.retrieval.summary_size) == ("gru", 256)
    assert (paper.learner.weights.kl, paper.learner.weights.action) == (0.3, 0.1)


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(UserError, match="no preset"):
        preset("babyai", "gigantic")
    with pytest.raises(UserError, match="no agent"):
        arm(LAPTOP, "ppo")


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_a_config_survives_json(config: RunConfig):
    assert config_from_dict(RunConfig, json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    ("change", "named"),
    [({"nonsense": 1}, "nonsense"), ({"steps": "many"}, "steps"), ({"environment": "chess"}, "environment")],
)
def test_a_damaged_config_is_refused_by_name(change: dict, named: str):
    with pytest.raises(UserError, match=named):
        config_from_dict(RunConfig, asdict(LAPTOP) | change)


def test_every_run_of_every_scale_has_valid_settings_and_a_name_of_its_own():
    for scale in SCALES:
        runs = list(all_runs(scale))
        assert len({run.name for run in runs}) == len(runs)
        seeds = {run.seed for run in runs}
        assert len(seeds) == SCALES[scale].seeds
        for run in runs:
            config = run.config()
            assert config.data.num_tasks == run.num_tasks
            assert config.steps == SCALES[scale].steps
            assert config.data.batch_size == config.data.tasks_per_step * SCALES[scale].states_per_task


def test_only_the_small_dqn_that_is_told_its_task_has_a_learning_rate_of_its_own():
    rates = {(run.arm, run.task_input): run.config().learner.learning_rate for run in all_runs("laptop")}
    usual = LAPTOP.learner.learning_rate
    others = {key for key, rate in rates.items() if rate != usual}
    assert others == {("dqn", "one_hot")}


def test_t_interval_by_hand():
    mean, low, high = t_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
    assert mean - low == pytest.approx(high - mean)
    assert t_interval([5.0]) == (5.0, 5.0, 5.0)
