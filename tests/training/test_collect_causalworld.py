"""Data sets of CausalWorld by the scripted expert, against the real simulator."""

import json

import numpy as np
import pytest

from r2a import cli
from r2a.environments.causalworld.expert import play_expert
from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.errors import UserError
from r2a.training.collect.causalworld import CausalWorldCollectConfig, collect

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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tasks": ("pushin",)}, "did you mean pushing"),
        ({"tasks": ("pushing", "pushing")}, "each task once"),
        ({"episodes": 1}, "at least 2"),
        ({"ladder": (-0.1,)}, "noise of 0 or more"),
    ],
)
def test_bad_settings_are_refused(change, sentence):
    with pytest.raises(UserError, match=sentence):
        CausalWorldCollectConfig(**{**SETTINGS, **change})
