"""Collecting BabyAI: resumable, the same with any number of processes, and with a card that tells the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from r2a import cli
from r2a.data.dataset import LEARNING, RETRIEVAL, OfflineDataset
from r2a.environments.babyai import VOCABULARY_FINGERPRINT, as_text, level_index
from r2a.environments.babyai.bot import ExpertBot
from r2a.environments.babyai.expert import Failure, play_expert
from r2a.errors import UserError
from r2a.training.collect import babyai_shards
from r2a.training.collect.babyai import BabyAICollectConfig, collect
from r2a.training.collect.babyai_shards import ShardTask, play_shard, read_shard
from r2a.training.collect.processes import in_processes

LEVELS = ("PickupLoc", "UnlockPickup")
SETTINGS = {"levels": LEVELS, "episodes": 110, "ladder": (0.0, 0.3, 1.0), "max_steps": 60, "seed": 3}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    heard = []
    path = tmp_path_factory.mktemp("babyai") / "data"
    dataset = collect(BabyAICollectConfig(**SETTINGS, workers=2), path, watch=lambda *news: heard.append(news))
    return dataset, heard


def test_the_columns_are_as_promised(undisturbed):
    dataset, _ = undisturbed
    dataset.verify()
    assert dataset.environment == "babyai"
    assert dataset.task_names == LEVELS
    assert dataset.num_actions == 7
    columns = dataset.columns
    longest = int(columns["length"].max())
    assert longest <= 60
    assert columns["observation"].shape == (220, longest + 1, 148)
    assert columns["observation"].dtype == columns["action"].dtype == columns["instruction"].dtype == np.uint8
    assert columns["instruction"].shape == (220, 72)
    np.testing.assert_array_equal(columns["noise"][:6], np.array([0, 0.3, 1] * 2, np.float32))
    np.testing.assert_array_equal(columns["task_id"], np.repeat([0, 1], 110))
    assert dataset.manifest["provenance"]["vocabulary"] == VOCABULARY_FINGERPRINT
    assert list(dataset.path.parent.iterdir()) == [dataset.path]  # no shards are left


def test_every_level_is_split_in_the_given_proportion(undisturbed):
    dataset, _ = undisturbed
    for task in range(2):
        assert len(dataset.episodes(task, RETRIEVAL)) == 28
        assert len(dataset.episodes(task, LEARNING)) == 82


def test_rows_hold_one_whole_episode_each(undisturbed):
    columns = undisturbed[0].columns
    for row in range(220):
        length = columns["length"][row]
        reward = columns["reward"][row]
        assert not reward[: length - 1].any()  # an episode ends with its reward: none goes on after it
        assert columns["terminated"][row] == (reward[length - 1] > 0)
        assert columns["terminated"][row] or length == 60
        assert not columns["observation"][row, length + 1 :].any()
        assert not columns["action"][row, length:].any()
        assert columns["observation"][row, : length + 1, :147].any(axis=1).all()
        task = LEVELS[columns["task_id"][row]]
        assert as_text(columns["instruction"][row]).startswith("pick up ")
        assert task == "PickupLoc" or "box" in as_text(columns["instruction"][row])


def test_episodes_are_those_of_their_seeds(undisturbed):
    """Episode 7 of the second level, played by hand."""
    columns, level = undisturbed[0].columns, level_index("UnlockPickup")
    for attempt in range(10):
        seed = int(np.random.SeedSequence((3, level, 7, attempt)).generate_state(1, np.uint64)[0] >> 1)
        episode = play_expert(level, seed, 0.3, 60)
        if not isinstance(episode, Failure):
            break
    length = len(episode.action)
    assert columns["length"][117] == length
    np.testing.assert_array_equal(columns["observation"][117, : length + 1], episode.observation)
    np.testing.assert_array_equal(columns["action"][117, :length], episode.action)
    np.testing.assert_array_equal(columns["instruction"][117], episode.mission)


def test_the_card_counts_what_is_there(undisturbed):
    dataset, heard = undisturbed
    columns, provenance = dataset.columns, dataset.manifest["provenance"]
    for task, name in enumerate(LEVELS):
        rows = columns["task_id"] == task
        entry = provenance["card"][name]
        assert entry["episodes"] == 110 == sum(episodes for level, episodes, _ in heard if level == name)
        assert entry["success_rate"] == pytest.approx(np.mean(columns["episode_return"][rows] > 0))
        assert entry["cut_off"] == pytest.approx(np.mean(~columns["terminated"][rows]))
        assert entry["mean_length"] == pytest.approx(columns["length"][rows].mean())
        assert entry["mean_return"] == pytest.approx(columns["episode_return"][rows].mean())
    assert "cut off after 60 steps" in provenance["note"]
    assert "workers" not in provenance["settings"]


def test_dropped_seeds_are_counted_by_reason(tmp_path, monkeypatch):
    answers = iter([Failure("bot lost"), Failure("no mission"), None, Failure("bot lost"), None])

    def play(level, seed, epsilon, max_steps, limit_seconds):
        return next(answers) or play_expert(level, seed, epsilon, max_steps, limit_seconds)

    monkeypatch.setattr(babyai_shards, "play_expert", play)
    task = ShardTask(str(tmp_path), 0, 0, (0.0, 0.0), 20, 0, 10.0)
    play_shard(task)
    shard = read_shard(task.file)
    assert shard.dropped.tolist() == [1, 2, 0]
    assert len(shard.length) == 2
    monkeypatch.setattr(babyai_shards, "play_expert", lambda *_: Failure("out of time"))
    with pytest.raises(UserError, match=r"GoToObj gave no episode with 200 seeds at noise 0\.5"):
        play_shard(ShardTask(str(tmp_path), 0, 50, (0.5,), 20, 0, 10.0))


SCRIPT = """
import multiprocessing, sys, time
from r2a.training.collect.babyai import BabyAICollectConfig, collect
if __name__ == "__main__":
    def tell(*news):
        print(multiprocessing.active_children()[0].pid, flush=True)
        time.sleep(60)  # to be killed in
    collect(BabyAICollectConfig(**{settings!r}, workers=1), sys.argv[1], watch=tell)
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_collection_goes_on_and_gives_the_same_data(tmp_path, undisturbed):
    expected, _ = undisturbed
    script, path = tmp_path / "script.py", tmp_path / "data"
    script.write_text(SCRIPT.format(settings=SETTINGS))
    process = subprocess.Popen([sys.executable, script, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = tmp_path / ".data.collecting"
    assert not path.exists()
    finished = {file: file.read_bytes() for file in folder.glob("*.npz")}
    assert 1 <= len(finished) <= 2
    (folder / f".{next(iter(finished)).name}.partial-{process.pid}-00000000").write_bytes(b"half")
    deadline = time.monotonic() + 30
    while is_running(worker):
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.05)
    heard = []
    config = BabyAICollectConfig(**SETTINGS, workers=3)
    dataset = collect(config, path, watch=lambda *news: heard.append(news[1]))
    assert sum(heard) == 220
    for file in dataset.path.glob("*.npy"):
        assert file.read_bytes() == (expected.path / file.name).read_bytes()
    assert (path / "manifest.json").read_bytes() == (expected.path / "manifest.json").read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "script.py"]


def test_shards_of_other_settings_are_not_mixed_in(tmp_path):
    path, folder = tmp_path / "data", tmp_path / ".data.collecting"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"settings": "others"}))
    config = BabyAICollectConfig(levels=("GoToObj",), episodes=2, max_steps=5, workers=1)
    with pytest.raises(UserError, match="unfinished collection with other settings"):
        collect(config, path)
    assert collect(config, path, overwrite=True).num_episodes == 2
    with pytest.raises(UserError, match="already exists"):
        collect(config, path)
    (tmp_path / "file").write_text("not a data set")
    with pytest.raises(UserError, match="not a data set"):
        collect(config, tmp_path / "file", overwrite=True)


def test_two_collections_do_not_share_a_folder(tmp_path):
    config = BabyAICollectConfig(levels=("GoToObj",), episodes=2, max_steps=5, workers=1)
    problems = []

    def second(*_):
        with pytest.raises(UserError, match="Another process is collecting") as problem:
            collect(config, tmp_path / "data")
        problems.append(problem)

    collect(config, tmp_path / "data", watch=second)
    assert problems


def test_trouble_in_a_process_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    task = ShardTask(str(tmp_path / "file" / "folder"), 0, 0, (1.0,), 5, 0, 10.0)
    with pytest.raises(UserError, match="a part of the path is a file"):
        list(in_processes(play_shard, [task], 2))
    with pytest.raises(UserError, match="ends again and again; run the same command again"):
        list(in_processes(os._exit, [9, 9], 2))
    assert list(in_processes(os._exit, [], 2)) == []


def die_once(file):
    """The first time it is called."""
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    file.write_text("done")


def test_a_process_that_dies_is_replaced_and_its_work_done_again(tmp_path):
    files = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    assert sorted(in_processes(die_once, files, 2)) == sorted(files)
    assert [file.read_text() for file in files] == ["done"] * 3


class EndlessBot(ExpertBot):
    """One of those that never answer."""

    def replan(self, action_taken=None):
        while True:
            pass


def play_with_an_endless_bot(limit_seconds):
    """To be run in a process of its own; says in its error what came of it."""
    outcome = play_expert(0, 0, 0.0, 10, limit_seconds, EndlessBot)
    raise UserError(f"{type(outcome).__name__}: {outcome[0]}")


def test_an_endless_episode_is_interrupted_in_a_process_too():
    with pytest.raises(UserError, match="Failure: out of time"):
        list(in_processes(play_with_an_endless_bot, [0.2], 1))


def test_settings_that_make_no_sense_are_refused():
    for settings, sentence in [
        ({"levels": ("GoToLokal",)}, "did you mean GoToLocal"),
        ({"levels": ()}, "levels is"),
        ({"levels": ("GoTo", "GoTo")}, "each level once"),
        ({"episodes": 0}, "episodes is 0"),
        ({"ladder": (0.0, 1.1)}, "ladder is"),
        ({"ladder": ()}, "ladder is"),
        ({"max_steps": 0}, "max-steps is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"limit_seconds": 0.0}, "limit-seconds is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"retrieval_fraction": 1.0}, "retrieval-fraction is 1.0"),
    ]:
        with pytest.raises(UserError, match=sentence):
            BabyAICollectConfig(**settings)


def test_the_command_line_collects_and_shows(tmp_path, capsys):
    root = ["--root", str(tmp_path)]
    sizes = ["--episodes", "4", "--max-steps", "10", "--workers", "1", "--name", "mine"]
    assert cli.main(["collect", "babyai", "--levels", "GoToObj", "OpenDoor", *sizes, *root]) == 0
    assert OfflineDataset.open(tmp_path / "mine").num_episodes == 8
    capsys.readouterr()
    assert cli.main(["datasets", "show", "mine", *root]) == 0
    shown = capsys.readouterr().out
    assert "OpenDoor" in shown
    assert "solved" in shown
    assert "cut off after 10 steps" in shown


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--levels", "GoToLokal"], "There is no BabyAI level 'GoToLokal'; did you mean GoToLocal"),
        (["--episodes", "0"], "episodes is 0, but it must be at least 2"),
        (["--ladder", "0", "1.5"], "ladder is (0.0, 1.5), but it must list probabilities"),
    ],
)
def test_mistakes_on_the_command_line(options, sentence, tmp_path, capsys):
    assert cli.main(["collect", "babyai", *options, "--root", str(tmp_path)]) == 2
    problem = capsys.readouterr().err
    assert problem.startswith(f"r2a: {sentence}")
    assert problem.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_environment_comes_first(capsys):
    assert cli.main(["collect", "--overwrite", "babyai"]) == 2
    assert "before its options" in capsys.readouterr().err
