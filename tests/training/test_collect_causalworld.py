"""Data sets of CausalWorld by the scripted expert, against the real simulator."""

import json
import multiprocessing
from dataclasses import replace

import jax
import numpy as np
import pytest

from r2a import cli
from r2a.config import CausalWorldConfig, EncoderConfig
from r2a.data.retrieval_batch import load_resident
from r2a.environments.causalworld.expert import play_expert
from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.environments.causalworld.worlds import Worlds
from r2a.errors import UserError
from r2a.experiments.causalworld.presets import SMOKE
from r2a.training.collect.causalworld import CausalWorldCollectConfig, collect
from r2a.training.evaluate.causalworld import play, setting_of
from r2a.training.evaluate.readers import arrange
from r2a.training.metrics import read_metrics
from r2a.training.offline import initial_state, train
from r2a.training.tasks import choose_tasks

SETTINGS = dict(tasks=("picking", "pushing"), episodes=3, ladder=(0.0, 0.1), skip_frame=50)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    heard = []
    path = tmp_path_factory.mktemp("data") / "few"
    dataset = collect(CausalWorldCollectConfig(**SETTINGS, workers=2), path, watch=lambda *of: heard.append(of))
    return dataset, heard


def test_the_data_set_holds_what_the_expert_advised(made):
    dataset, heard = made
    assert sorted((task, episodes) for task, episodes, _ in heard) == [("picking", 3), ("pushing", 3)]
    assert (dataset.environment, dataset.task_names, dataset.num_actions) == ("causalworld", ("picking", "pushing"), 9)
    dataset.verify()
    columns = dataset.columns
    assert columns["noise"].tolist() == pytest.approx([0.0, 0.1, 0.0] * 2)
    assert columns["action"].dtype == np.float32
    env = CausalWorldEnv("pushing", SETTINGS["skip_frame"])
    seed = int(np.random.SeedSequence((0, 0, 1)).generate_state(1, np.uint64)[0] >> 1)
    expected = play_expert(env, seed, 0.1)
    row, length = 3 + 1, len(expected.action)
    assert columns["length"][row] == length
    np.testing.assert_array_equal(columns["observation"][row, : length + 1], expected.observation)
    np.testing.assert_array_equal(columns["action"][row, :length], expected.advice)
    assert np.abs(expected.action - expected.advice).max() > 0.05
    assert columns["fraction"][row] == expected.fractional_success[-1]


def test_the_data_card_tells_what_came_of_every_task(made):
    card = made[0].manifest["provenance"]["card"]
    json.dumps(card)
    assert set(card) == {"picking", "pushing"}
    assert card["picking"]["episodes"] == 3
    assert set(card["picking"]["by_noise"]) == {"0", "0.1"}


def test_the_card_can_be_shown(made, capsys):
    assert cli.main(["datasets", "show", str(made[0].path)]) == 0
    shown = capsys.readouterr().out
    assert "covered, by noise" in " ".join(shown.split())
    assert "had the episode's noise added" in " ".join(shown.split())


def test_the_data_do_not_depend_on_processes_or_other_tasks(made, tmp_path):
    alone = collect(CausalWorldCollectConfig(**{**SETTINGS, "tasks": ("pushing",)}, workers=1), tmp_path / "one")
    for name in ("observation", "action", "reward", "fraction", "split"):
        np.testing.assert_array_equal(alone.columns[name], made[0].columns[name][3:])


def test_a_simulator_that_is_killed_has_its_episodes_done_again(made, tmp_path, monkeypatch):
    killed = []

    def kill(*_):
        if not killed:
            killed.extend(multiprocessing.active_children())
            for child in killed:
                child.kill()

    monkeypatch.setattr("r2a.training.collect.causalworld.SHARD_EPISODES", 1)
    config = CausalWorldCollectConfig(**{**SETTINGS, "tasks": ("pushing",)}, workers=1)
    again = collect(config, tmp_path / "again", watch=kill)
    assert len(killed) == 1
    for name in ("observation", "action", "reward", "fraction", "split"):
        np.testing.assert_array_equal(again.columns[name], made[0].columns[name][3:])


def test_episodes_last_as_long_as_is_asked_for(tmp_path):
    config = CausalWorldCollectConfig(tasks=("pushing",), episodes=4, max_steps=9, skip_frame=50, workers=1)
    dataset = collect(config, tmp_path / "short")
    assert dataset.columns["length"].tolist() == [9] * 4
    data = replace(SMOKE.data, num_tasks=1, tasks_per_step=1)
    short = replace(SMOKE, data=data, causalworld=CausalWorldConfig(skip_frame=50, max_steps=3))
    run, dataset = choose_tasks(short, dataset)
    agent, own = initial_state(run, dataset).params, load_resident(dataset, run.data)
    readers = arrange("all_tasks", run, jax.random.key(0))
    with Worlds(["pushing"], setting_of(run.causalworld)) as worlds:
        assert len(play(agent, own, run, worlds, readers, jax.random.key(1)).actions) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tasks": ("pushin",)}, "did you mean pushing"),
        ({"tasks": ("pushing", "pushing")}, "each task once"),
        ({"episodes": 1}, "at least 2"),
        ({"ladder": (-0.1,)}, "noise of 0 or more"),
        ({"max_steps": -1}, "the task's own"),
        ({"cameras": (3,)}, "some of 0, 1 and 2"),
    ],
)
def test_bad_settings_are_refused(change, sentence):
    with pytest.raises(UserError, match=sentence):
        CausalWorldCollectConfig(**{**SETTINGS, **change})


def test_an_agent_clones_and_acts_by_pictures(tmp_path):
    seen = {"cameras": (0,), "side": 32, "skip_frame": 50}
    config = CausalWorldCollectConfig(tasks=("pushing",), episodes=4, workers=1, **seen)
    dataset = collect(config, tmp_path / "pictures")
    assert dataset.observation_shape == (2, 32, 32, 3)
    agent = replace(SMOKE.agent, encoder=EncoderConfig(features="strided_half", hidden=(16,)))
    data = replace(SMOKE.data, num_tasks=1, tasks_per_step=1)
    blind = replace(SMOKE, agent=agent, data=data, causalworld=CausalWorldConfig(skip_frame=50))
    with pytest.raises(UserError, match=r"shows pictures of cameras \(0,\) with 32 pixels"):
        choose_tasks(blind, dataset)
    run, dataset = choose_tasks(replace(blind, causalworld=CausalWorldConfig(**seen)), dataset)
    with pytest.raises(UserError, match=r"encoder.features is poses, which is for numbers"):
        initial_state(replace(run, agent=SMOKE.agent), dataset)
    before = initial_state(run, dataset).params.encoder.torso.layers[0].weight
    state = train(run, tmp_path / "run", dataset)
    assert not np.array_equal(before, state.params.encoder.torso.layers[0].weight)  # pictures are learnt from
    line = read_metrics(tmp_path / "run")[-1]
    assert np.isfinite(line["bc/loss"])
    assert 0 <= line["eval/all_tasks/pushing"] <= 1
    with pytest.raises(UserError, match="cannot be followed by a task's number"):
        initial_state(replace(run, data=replace(run.data, task_input="one_hot")), dataset)
