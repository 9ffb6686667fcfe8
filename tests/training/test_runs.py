"""Run folders, also those that were written before the house was rebuilt: read, evaluated and gone on with."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from test_golden import processor

from r2a.agents.optimiser import NEWTON_SCHULZ
from r2a.cli import main
from r2a.config import FromDataset, FromReplay
from r2a.data.dataset import find_dataset
from r2a.environments.atari import AtariSettings
from r2a.environments.babyai import BabyAISettings
from r2a.environments.minatar import MinAtarSettings
from r2a.errors import UserError
from r2a.experiments.presets import EXPERIMENTS, agents, arm, experiment
from r2a.renamed import SETTINGS, modern_settings
from r2a.training.metrics import read_metrics
from r2a.training.offline import OfflineRun
from r2a.training.online import load_run
from r2a.training.runs import checkpoint_of, read_config, run_config

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "golden" / "runs"
NAMES = ("old_offline", "old_online")


def recorded(name: str) -> dict[str, Any]:
    """The settings of an old run as its file has them."""
    return json.loads((OLD / name / "config.json").read_text())["config"]["config"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with copies of the old runs, and the data that one of them learnt from."""
    folder = tmp_path_factory.mktemp("old")
    for name in NAMES:
        shutil.copytree(OLD / name, folder / "runs" / name)
    options = ["--episodes", "40", "--num-tasks", "3", "--name", "gridroboman-smoke"]
    assert main(["collect", "gridroboman", *options, "--root", str(folder / "datasets")]) == 0
    return folder


def test_an_old_run_that_learnt_from_data_is_read():
    config = read_config(OLD / "old_offline")
    assert config.environment == "gridroboman"
    assert isinstance(config.experience, FromDataset)
    assert (config.data.dataset, config.data.num_tasks, config.data.retrieval_fraction) == (
        "gridroboman-smoke",
        3,
        0.25,
    )
    assert (config.from_dataset.steps_per_call, config.steps, config.learner.schedule_steps) == (10, 20, 20)
    assert config.evaluation.sources == ("right", "wrong", "random")
    assert (config.evaluation.episodes, config.evaluation.retrieval_batches) == (1, 2)
    assert (config.learner.loss, config.learner.huber_delta) == ("q_learning", 1.0)


def test_an_old_run_that_learnt_while_it_acted_is_read():
    config = read_config(OLD / "old_online")
    assert config.environment == "minatar"
    assert isinstance(config.experience, FromReplay)
    assert config.env == MinAtarSettings(game="breakout", max_steps=100)
    assert (config.acting.num_envs, config.replay.capacity, config.from_replay.batch_size) == (4, 60, 4)
    assert (config.evaluation.episodes, config.evaluation.epsilon) == (2, 0.01)
    assert (config.learner.loss, config.learner.huber_delta) == ("squashed_q_lambda", 1e6)
    assert (config.agent.retrieval.num_neighbours, config.agent.retrieval.num_grad_trajectories) == (5, 3)


def same_processor() -> bool:
    """Whether numbers are added here in the order in which they were where the runs were recorded."""
    return "avx512_vnni" in processor()


def test_old_runs_are_evaluated_as_they_were(place: Path, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert main(["evaluate", "runs/old_online", "--json"]) == 0
    online = json.loads(capsys.readouterr().out)
    assert main(["evaluate", "runs/old_offline", "--json"]) == 0
    offline = json.loads(capsys.readouterr().out)["mean"]
    assert set(offline) == {"right", "wrong", "random"}
    assert len(online["scores"]) == len(online["lengths"]) == 2
    if same_processor():
        assert online == {"task": "breakout", "score": 1.0, "scores": [1.0, 1.0], "lengths": [16, 16]}
        assert offline == pytest.approx({"right": 1 / 3, "wrong": 1 / 6, "random": 0.0}, abs=1e-6)


def test_an_old_run_that_learnt_while_it_acted_goes_on(place: Path, monkeypatch):
    monkeypatch.chdir(place)
    before = read_metrics("runs/old_online")
    assert main(["train", "--resume", "runs/old_online", "--no-tensorboard"]) == 0  # it is complete
    assert read_metrics("runs/old_online") == before
    run = load_run("runs/old_online")
    assert (run.steps, run.counts.updates) == (200, before[-1]["rl/updates"])
    assert len(run.replay) > run.config.replay.minimum
    turn = run.turn()
    run.close()
    assert run.steps == 240
    assert run.counts.updates > before[-1]["rl/updates"]
    assert turn.metrics["rl/sequences"] > before[-1]["rl/sequences"]
    assert all(np.isfinite(value) for value in turn.metrics.values())


def test_an_old_run_that_learnt_from_data_goes_on(place: Path, monkeypatch):
    monkeypatch.chdir(place)
    before = read_metrics("runs/old_offline")
    assert main(["train", "--resume", "runs/old_offline", "--no-tensorboard"]) == 0  # it is complete
    assert read_metrics("runs/old_offline") == before
    run = OfflineRun(read_config("runs/old_offline"), find_dataset("gridroboman-smoke"))
    assert run.config.data.tasks == ("touch red", "touch green", "touch blue")
    run.restore(checkpoint_of("runs/old_offline"))
    assert run.steps == 20
    turn = run.turn()
    assert run.steps == 30
    assert all(np.isfinite(value) for value in turn.metrics.values())


def test_an_old_runs_muon_goes_on_with_what_it_had_gathered(place: Path, monkeypatch):
    monkeypatch.chdir(place)
    run = OfflineRun(read_config("runs/old_offline"), find_dataset("gridroboman-smoke"))
    run.restore(checkpoint_of("runs/old_offline"))
    old = load_file(checkpoint_of("runs/old_offline") / "state.safetensors")
    states = run.state.optimiser[1].inner_states
    muon, adam = (states[part].inner_state[0] for part in ("muon", "adam"))
    matrices = jax.tree.leaves(muon.mu)
    assert len(matrices) == sum("momentum" in name for name in old)
    for number, momentum in enumerate(matrices):
        np.testing.assert_array_equal(momentum, old[f".optimiser[1].momentum[{number}]"])
    for moment in ("mu", "nu"):
        together = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(getattr(adam, moment))])
        np.testing.assert_array_equal(together, old[f".optimiser[1].rest.{moment}"])
    assert int(muon.count) == int(adam.count) == int(states["muon"].inner_state[3].count) == run.steps
    np.testing.assert_array_equal(muon.ns_coeffs, np.float32(NEWTON_SCHULZ))


UNUSUAL = {  # values that no default has
    "agent.head.components": 3,
    "agent.head.narrowest": 0.02,
    "agent.retrieval.sharpness": 2.5,
    "agent.retrieval.similar_states": 4,
    "agent.retrieval.taught_by": 2,
    "agent.retrieval.piece": "start",
    "learner.mix": 0.7,
    "learner.huber": 2.0,
    "learner.priority_peak": 0.8,
    "data.read_one_in": 5,
    "acting.lanes": 2,
    "atari.side": 42,
}
MOVED = {"data": "experience.data", "acting": "experience.acting", "atari": "env"}
"""Where the old parts of settings are now."""


def entry(config: Any, place: str) -> Any:
    for name in place.split("."):
        config = config[name] if isinstance(config, dict) else getattr(config, name)
    return config


@pytest.mark.parametrize("place", UNUSUAL)
def test_a_setting_is_found_under_its_old_name(place: str):
    values = copy.deepcopy(recorded("old_offline" if place.startswith("data.") else "old_online"))
    if place.startswith("atari."):
        values["environment"] = "atari"
    part, _, old = place.rpartition(".")
    assert old in entry(values, part)
    entry(values, part)[old] = UNUSUAL[place]
    moved = MOVED.get(part, part)
    expected = 0.2 if old == "read_one_in" else UNUSUAL[place]
    assert entry(run_config(values), f"{moved}.{SETTINGS[f'{moved}.{old}']}") == expected


def test_every_old_name_is_among_them():
    found = {f"{MOVED.get(part, part)}.{old}" for part, _, old in (place.rpartition(".") for place in UNUSUAL)}
    assert found == set(SETTINGS)


@pytest.mark.parametrize(
    ("objective", "returns", "loss"),
    [
        ("q_learning", "one_step", "q_learning"),
        ("q_learning", "squashed_lambda", "squashed_q_lambda"),
        ("cloning", "one_step", "cloning"),
    ],
)
def test_what_was_two_settings_is_one_loss(objective: str, returns: str, loss: str):
    values = copy.deepcopy(recorded("old_offline"))
    values["learner"] |= {"objective": objective, "returns": returns}
    assert run_config(values).learner.loss == loss


def test_how_long_a_mission_may_take_was_said_elsewhere():
    values = copy.deepcopy(recorded("old_offline")) | {"environment": "babyai"}
    values["evaluation"]["steps"] = 64
    config = run_config(values)
    assert config.env == BabyAISettings(max_steps=64)
    assert config.evaluation.sources == ()  # as in training: reading from others took time there


def test_a_worlds_settings_lay_beside_those_of_others():
    values = copy.deepcopy(recorded("old_online")) | {"environment": "atari"}
    values["atari"]["noops"] = 7
    assert run_config(values).env == AtariSettings(noops=7)


@pytest.mark.parametrize("world", EXPERIMENTS)
def test_settings_of_today_are_read_back_as_they_are(world: str):
    for preset in experiment(world).presets.values():
        for name in agents(world):
            config = arm(preset, name)
            values = json.loads(json.dumps(asdict(config)))
            assert modern_settings(values) == values
            assert run_config(values) == config


@pytest.mark.parametrize("world", EXPERIMENTS)
def test_the_settings_of_committed_results_can_be_read(world: str):
    files = sorted((ROOT / "results" / world).glob("**/runs/*.json"))
    found = {run_config(json.loads(file.read_text())["config"]).environment for file in files}
    assert len(files) > 5
    assert found == {world}


def test_settings_that_nobody_knows_are_refused():
    values = copy.deepcopy(recorded("old_online"))
    values["agent"]["head"]["wings"] = 2
    with pytest.raises(UserError, match=r"unknown entry 'wings'; it may come from another version"):
        run_config(values)
    with pytest.raises(UserError, match="no environment 'chess'"):
        run_config(recorded("old_online") | {"environment": "chess"})


def test_a_folder_without_settings_or_checkpoints_is_told(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"format": "r2a-run", "format_version": 1, "config": {}}')
    with pytest.raises(UserError, match="holds no training run"):
        read_config(tmp_path)
    with pytest.raises(UserError, match=r"has no checkpoint yet; let `r2a train --resume"):
        checkpoint_of(tmp_path)
