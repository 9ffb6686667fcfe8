"""Collecting, in every world that has an expert: what an episode is depends on its settings, task and number alone."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from r2a.cli import main
from r2a.config import AgentConfig, CollectConfig, EncoderConfig, RetrievalConfig
from r2a.data.columns import LEARNING, RETRIEVAL
from r2a.data.dataset import OfflineDataset
from r2a.environments.api import NoEpisodeError
from r2a.environments.babyai import BabyAISettings
from r2a.environments.babyai.expert import Expert, ExpertBot, LostError
from r2a.environments.babyai.vocabulary import VOCABULARY_FINGERPRINT, as_text
from r2a.environments.causalworld import CausalWorldSettings
from r2a.environments.registry import make_here, spec_of, world_of
from r2a.environments.workers import in_processes
from r2a.errors import UserError
from r2a.training import collect as collecting
from r2a.training.collect import ShardTask, collect, play_expert, play_shard
from r2a.training.rollout import play


class Case(NamedTuple):
    """A world, and how two of its tasks are collected: neither the first nor in their own order."""

    world: str
    config: CollectConfig

    @property
    def spec(self):
        return spec_of(self.world, self.config.env)


def case_of(world: str, **settings) -> Case:
    return Case(world, replace(world_of(world).collect, **settings))


CASES = {
    "gridroboman": case_of("gridroboman", tasks=("lift red", "touch blue"), episodes=24, ladder=(0.0, 1.0)),
    "babyai": case_of(
        "babyai",
        tasks=("UnlockPickup", "PickupLoc"),
        episodes=24,
        ladder=(0.0, 0.3, 1.0),
        seed=3,
        env=BabyAISettings(max_steps=60),
    ),
    "causalworld": case_of(
        "causalworld",
        tasks=("picking", "pushing"),
        episodes=4,
        ladder=(0.0, 0.1),
        env=CausalWorldSettings(skip_frame=50),
    ),
}
IN_PROCESSES = [name for name in CASES if not world_of(name).pure]


class Made(NamedTuple):
    """A collection that nothing disturbed, and what was heard of it."""

    dataset: OfflineDataset
    heard: list[tuple[str, int, float]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function from the name of a case to its data; each is collected once."""
    kept: dict[str, Made] = {}

    def of(name: str) -> Made:
        if name not in kept:
            heard: list = []
            case, path = CASES[name], tmp_path_factory.mktemp(name) / "data"
            config = replace(case.config, workers=2)
            kept[name] = Made(collect(case.world, config, path, watch=lambda *news: heard.append(news)), heard)
        return kept[name]

    return of


def assert_same_files(one: OfflineDataset, other: OfflineDataset) -> None:
    assert sorted(file.name for file in one.path.iterdir()) == sorted(file.name for file in other.path.iterdir())
    for file in one.path.iterdir():
        assert file.read_bytes() == (other.path / file.name).read_bytes(), file.name


@pytest.mark.parametrize("name", CASES)
def test_a_data_set_holds_what_was_asked_for(name, made):
    case, (dataset, heard) = CASES[name], made(name)
    dataset.verify()
    episodes, (one, other) = case.config.episodes, case.config.tasks
    assert (dataset.environment, dataset.task_names) == (case.world, (one, other))
    assert dataset.num_actions == case.spec.action_size
    np.testing.assert_array_equal(dataset.columns["task_id"], np.repeat([0, 1], episodes))
    for task in range(2):
        assert len(dataset.episodes(task, RETRIEVAL)) == episodes // 4
        assert len(dataset.episodes(task, LEARNING)) == episodes - episodes // 4
    for task in (one, other):
        assert sum(count for told, count, _ in heard if told == task) == episodes
    assert list(dataset.path.parent.iterdir()) == [dataset.path]  # no shards are left
    provenance = dataset.manifest["provenance"]
    assert "workers" not in provenance["settings"]
    assert provenance["settings"]["tasks"] == [one, other]


@pytest.mark.parametrize("name", CASES)
def test_the_data_depend_on_neither_processes_nor_other_tasks(name, made, tmp_path):
    case, whole = CASES[name], made(name).dataset
    alone = replace(case.config, tasks=case.config.tasks[1:], workers=1)
    dataset = collect(case.world, alone, tmp_path / "alone")
    second = slice(case.config.episodes, None)
    for column in set(whole.columns) - {"task_id", "observation", "action", "reward"}:
        np.testing.assert_array_equal(dataset.columns[column], whole.columns[column][second], err_msg=column)
    longest = dataset.max_length  # rows are as long as the longest episode that is there
    for column, steps in (("observation", longest + 1), ("action", longest), ("reward", longest)):
        both = dataset.columns[column], whole.columns[column][second]
        np.testing.assert_array_equal(both[0], both[1][:, :steps], err_msg=column)
        assert not both[1][:, steps:].any()
    few = replace(alone, episodes=2, seed=alone.seed + 1)
    other = collect(case.world, few, tmp_path / "other seed").columns["observation"]
    steps = min(other.shape[1], dataset.max_length)
    assert not np.array_equal(other[:, :steps], dataset.columns["observation"][:2, :steps])


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_episodes_are_those_of_their_seeds(name, made):
    """The last episode of the first task and the second of the other, played by hand."""
    case, columns = CASES[name], made(name).dataset.columns
    env, expert = make_here(case.world, case.config.env, False, 1), world_of(case.world).load("expert")
    for place, number in ((0, case.config.episodes - 1), (1, 1)):
        task, noise = case.config.tasks[place], case.config.ladder[number % len(case.config.ladder)]
        for attempt in range(10):
            entropy = (case.config.seed, env.spec.tasks.index(task), number, attempt)
            seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
            try:
                episode = play(env, expert(env, task, seed, noise, case.config.expert), task, seed)
                break
            except NoEpisodeError:
                continue
        row, length = place * case.config.episodes + number, len(episode.reward)
        assert columns["length"][row] == length
        assert columns["noise"][row] == np.float32(noise)
        assert columns["terminated"][row] == episode.terminated
        np.testing.assert_array_equal(columns["observation"][row, : length + 1], episode.observation)
        np.testing.assert_array_equal(columns["action"][row, :length], episode.action)
        np.testing.assert_array_equal(columns["reward"][row, :length], episode.reward)
        for score, value in list(zip(env.spec.scores, episode.scores, strict=True))[1:]:
            assert columns[score][row] == np.float32(value)
        if env.spec.instruction_length:
            np.testing.assert_array_equal(columns["instruction"][row], episode.instruction)
    env.close()


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_the_card_counts_what_is_there(name, made):
    case, (dataset, heard) = CASES[name], made(name)
    columns, card = dataset.columns, dataset.manifest["provenance"]["card"]
    assert list(card) == list(case.config.tasks)
    json.dumps(card)
    for task, (name_of_task, entry) in enumerate(card.items()):
        rows = columns["task_id"] == task
        assert entry["episodes"] == case.config.episodes
        assert entry["cut_off"] == pytest.approx(np.mean(~columns["terminated"][rows]))
        assert entry["mean_length"] == pytest.approx(columns["length"][rows].mean())
        assert entry["longest"] == columns["length"][rows].max()
        assert entry["mean_return"] == pytest.approx(columns["episode_return"][rows].mean(), rel=1e-5)
        last = case.spec.scores[-1]
        score = columns[last][rows] if last in columns else columns["episode_return"][rows] > 0
        assert entry[last] == pytest.approx(score.mean())
        noise = columns["noise"][rows]
        assert entry["by_noise"] == {f"{level:g}": pytest.approx(score[noise == level].mean()) for level in set(noise)}
        told = [(count, mean) for of, count, mean in heard if of == name_of_task]
        assert sum(count * mean for count, mean in told) / case.config.episodes == pytest.approx(score.mean())


SCRIPT = """
import multiprocessing, pickle, sys, time
from r2a.training.collect import collect
if __name__ == "__main__":
    def tell(*news):
        print(multiprocessing.active_children()[0].pid, flush=True)
        time.sleep(60)  # to be killed in
    collect(sys.argv[1], pickle.loads(bytes.fromhex(sys.argv[2])), sys.argv[3], watch=tell)
"""


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_a_killed_collection_goes_on_and_gives_the_same_data(name, made, tmp_path):
    case, expected = CASES[name], made(name).dataset
    script, path = tmp_path / "script.py", tmp_path / "data"
    script.write_text(SCRIPT)
    config = pickle.dumps(replace(case.config, workers=1)).hex()
    process = subprocess.Popen([sys.executable, script, case.world, config, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = tmp_path / ".data.collecting"
    assert not path.exists()
    finished = {file: file.stat().st_mtime_ns for file in folder.glob("*.npz")}
    assert 1 <= len(finished) <= 2
    (folder / f".{next(iter(finished)).name}.partial-{process.pid}-00000000").write_bytes(b"half")
    deadline = time.monotonic() + 60
    while is_running(worker):
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.05)
    kept: list[bool] = []
    heard: list[int] = []

    def watch(task, episodes, score):
        kept.append(all(file.stat().st_mtime_ns == written for file, written in finished.items()))
        heard.append(episodes)

    dataset = collect(case.world, replace(case.config, workers=3), path, watch=watch)
    assert all(kept)  # what was finished is not played again
    assert sum(heard) == 2 * case.config.episodes
    assert_same_files(dataset, expected)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "script.py"]


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_a_process_that_is_killed_has_its_episodes_played_again(name, made, tmp_path, monkeypatch):
    case, killed = CASES[name], []

    def kill(*_):
        if not killed:
            killed.extend(multiprocessing.active_children())
            for child in killed:
                child.kill()

    monkeypatch.setattr(collecting, "SHARD_EPISODES", 3)
    again = collect(case.world, replace(case.config, workers=1), tmp_path / "data", watch=kill)
    assert len(killed) == 1
    assert_same_files(again, made(name).dataset)


TINY = {
    "gridroboman": case_of("gridroboman", num_tasks=1, episodes=2),
    "babyai": case_of("babyai", num_tasks=1, episodes=2, workers=1, env=BabyAISettings(max_steps=5)),
    "causalworld": case_of("causalworld", num_tasks=1, episodes=2, workers=1, env=CausalWorldSettings(max_steps=2)),
}


@pytest.mark.parametrize("name", TINY)
def test_what_is_there_is_not_overwritten_unasked(name, tmp_path):
    world, config = TINY[name]
    before = collect(world, config, tmp_path / "data")
    with pytest.raises(UserError, match="already exists"):
        collect(world, config, tmp_path / "data")
    assert before.num_episodes == 2
    changed = collect(world, replace(config, seed=5), tmp_path / "data", overwrite=True)
    assert changed.fingerprint != before.fingerprint
    (tmp_path / "file").write_text("not a data set")
    with pytest.raises(UserError, match="not a data set"):
        collect(world, config, tmp_path / "file", overwrite=True)


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_shards_of_other_settings_are_not_mixed_in(name, tmp_path):
    world, config = TINY[name]
    path, folder = tmp_path / "data", tmp_path / ".data.collecting"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"settings": "others"}))
    with pytest.raises(UserError, match="unfinished collection with other settings"):
        collect(world, config, path)
    assert (folder / "settings.json").is_file()
    assert collect(world, config, path, overwrite=True).num_episodes == 2
    assert not folder.exists()


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_two_collections_do_not_share_a_folder(name, tmp_path):
    world, config = TINY[name]
    problems = []

    def second(*_):
        with pytest.raises(UserError, match="Another process is collecting") as problem:
            collect(world, config, tmp_path / "data")
        problems.append(problem)

    collect(world, config, tmp_path / "data", watch=second)
    assert problems


def shard_task(folder: Path, start: int = 0, count: int = 2, **changes) -> ShardTask:
    """Some of BabyAI's first level."""
    settings = {"env": BabyAISettings(max_steps=20), "ladder": (0.0,), "seed": 0, "limit_seconds": 10.0}
    config = replace(world_of("babyai").collect, **{**settings, **changes})
    return ShardTask(folder, "babyai", config, "GoToObj", range(start, start + count))


def test_dropped_seeds_are_counted_by_reason(tmp_path, monkeypatch):
    class NoMissionError(NoEpisodeError):
        reason = "no mission"

    answers = iter([LostError, NoMissionError, None, LostError, None])

    def stumbles(*given):
        problem = next(answers)
        if problem is not None:
            raise problem
        return play(*given)

    monkeypatch.setattr(collecting, "play", stumbles)
    task = shard_task(tmp_path)
    play_shard(task)
    shard = task.read()
    assert dict(zip(shard.reasons.tolist(), shard.dropped.tolist(), strict=True)) == {"bot lost": 2, "no mission": 1}
    assert len(shard.length) == 2

    def lost(*_):
        raise LostError

    monkeypatch.setattr(collecting, "play", lost)
    with pytest.raises(UserError, match=r"GoToObj gave no episode with 200 seeds at noise 0\.5"):
        play_shard(shard_task(tmp_path, start=50, count=1, ladder=(0.5,)))


def test_a_damaged_shard_is_named(tmp_path):
    task = shard_task(tmp_path)
    play_shard(task)
    task.file.write_bytes(task.file.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"GoToObj-00000000.npz is damaged; remove it"):
        task.read()


def test_trouble_in_a_process_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    task = shard_task(tmp_path / "file" / "folder")
    with pytest.raises(UserError, match="a part of the path is a file"):
        list(in_processes(play_shard, [task], 2))


class EndlessBot(ExpertBot):
    """One of those that never answer."""

    def replan(self, action_taken=None):
        while True:
            pass


def play_with_an_endless_bot(folder):
    """To be run in a process of its own; says in its error what came of it."""
    Expert.make_bot, collecting.MOST_ATTEMPTS = EndlessBot, 2
    dropped: Counter[str] = Counter()
    try:
        play_expert(shard_task(Path(folder), limit_seconds=0.2), 0, dropped)
    except UserError as error:
        raise UserError(f"{dict(dropped)}: {error}") from error


def test_an_endless_episode_is_interrupted_in_a_process_too(tmp_path):
    with pytest.raises(UserError, match=r"\{'out of time': 2\}: GoToObj gave no episode with 2 seeds"):
        list(in_processes(play_with_an_endless_bot, [str(tmp_path)], 1))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("babyai --tasks GoToLokal", "There is no task of babyai 'GoToLokal'; did you mean GoToLocal"),
        ("causalworld --tasks pushin", "There is no task of causalworld 'pushin'; did you mean pushing"),
        ("gridroboman --tasks lift_redd", "There is no task of gridroboman 'lift_redd'; did you mean lift red"),
        ("babyai --tasks GoTo GoTo", "tasks is ('GoTo', 'GoTo'), but it must name no task twice"),
        ("gridroboman --num-tasks 31", "num-tasks is 31, but gridroboman has 30 tasks"),
        ("gridroboman --num-tasks -1", "num-tasks is -1, but it must be 0 (all) or more"),
        ("babyai --episodes 1", "episodes is 1, but it must be at least 2"),
        ("causalworld --ladder -0.1", "ladder is (-0.1,), but it must list levels of noise of 0 or more"),
        ("babyai --workers 0", "workers is 0, but it must be greater than zero"),
        ("babyai --limit-seconds 0", "limit-seconds is 0.0, but it must be greater than zero"),
        ("gridroboman --seed -1", "seed is -1, but it must not be negative"),
        ("babyai --retrieval-fraction 1", "retrieval-fraction is 1.0, but it must lie between 0 and 1"),
        ("babyai --env.max-steps 0", "env.max-steps is 0, but it must be greater than zero"),
        ("causalworld --env.max-steps -1", "env.max-steps is -1, but it must be 0 (the task's own) or more"),
        ("causalworld --env.cameras 3", "env.cameras is (3,), but it must name some of 0, 1 and 2, or none"),
        ("causalworld --expert.stalls 1", "expert.stalls is 1.0, but it must lie between 0 and 1"),
        ("babyai --method online", "method is 'online', but babyai does not run inside compiled programs"),
        ("gridroboman --method online --online.epsilon-fraction 0", "online.epsilon-fraction is 0"),
        ("gridroboman --online.agent.retrieval.variant full", "online.agent.retrieval.variant is 'full', but there is"),
        ("minatar", "minatar has no expert to collect from"),
        ("checkers", "There is no environment 'checkers'; choose one of gridroboman, babyai, causalworld"),
        ("--overwrite babyai", "Name the environment before its options: `r2a collect babyai [OPTIONS]`"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["collect", *arguments.split()]) == 2
    problem = capsys.readouterr().err
    assert problem.startswith(f"r2a: {sentence}")
    assert problem.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("babyai", "--tasks", "GoToObj", "OpenDoor", "--env.max-steps", "10"), ("OpenDoor", "success", "cut off")),
        (("causalworld", "--tasks", "pushing", "picking", "--env.max-steps", "2"), ("picking", "fraction", "noise")),
        (("gridroboman", "--tasks", "lift red", "touch red"), ("touch red", "made by expert")),
    ],
    ids=["babyai", "causalworld", "gridroboman"],
)
def test_the_command_line_collects_and_shows(options, told, tmp_path, capsys):
    where = ["--root", str(tmp_path)]
    assert main(["collect", *options, "--episodes", "4", "--workers", "1", "--name", "mine", *where]) == 0
    assert OfflineDataset.open(tmp_path / "mine").num_episodes == 8
    capsys.readouterr()
    assert main(["datasets", "show", "mine", *where]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(word in shown for word in told)
    assert main(["datasets", "verify", "mine", *where]) == 0


# What is special about each world.


def test_babyai_rows_hold_one_whole_mission_each(made):
    dataset = made("babyai").dataset
    columns = dataset.columns
    assert columns["observation"].shape[2:] == (148,)
    assert columns["observation"].dtype == columns["action"].dtype == columns["instruction"].dtype == np.uint8
    assert columns["instruction"].shape == (48, 72)
    assert dataset.manifest["provenance"]["vocabulary"] == VOCABULARY_FINGERPRINT
    for row in range(dataset.num_episodes):
        length, reward = columns["length"][row], columns["reward"][row]
        assert not reward[: length - 1].any()  # an episode ends with its reward: none goes on after it
        assert columns["terminated"][row] == (reward[length - 1] > 0)
        assert columns["terminated"][row] or length == 60
        assert not columns["observation"][row, length + 1 :].any()
        assert not columns["action"][row, length:].any()
        assert columns["observation"][row, : length + 1, :147].any(axis=1).all()
        mission = as_text(columns["instruction"][row])
        assert mission.startswith("pick up ")
        assert columns["task_id"][row] or "box" in mission


def test_causalworld_keeps_what_the_expert_advised_and_not_what_was_done(made):
    case, dataset = CASES["causalworld"], made("causalworld").dataset
    assert dataset.columns["action"].dtype == np.float32
    assert not dataset.columns["terminated"].any()
    done = []

    class Watched(world_of("causalworld").load("expert")):
        def act(self, view, step):
            action, extras = super().act(view, step)
            done.append(action[0])
            return action, extras

    env = make_here("causalworld", case.config.env, False, 1)
    seed = int(np.random.SeedSequence((0, 0, 1, 0)).generate_state(1, np.uint64)[0] >> 1)
    episode = play(env, Watched(env, "pushing", seed, 0.1, case.config.expert), "pushing", seed)
    env.close()
    row = case.config.episodes + 1
    np.testing.assert_array_equal(dataset.columns["action"][row, : len(done)], episode.action)
    assert np.abs(np.stack(done) - episode.action).max() > 0.05
    assert dataset.columns["fraction"][row] == np.float32(episode.scores[1])


def test_causalworld_episodes_last_as_long_as_is_asked_for(tmp_path):
    world, config = TINY["causalworld"]
    settings = CausalWorldSettings(max_steps=3, skip_frame=50)
    dataset = collect(world, replace(config, env=settings), tmp_path / "short")
    assert dataset.columns["length"].tolist() == [3] * 2


def test_gridroboman_has_the_expert_and_chance_on_its_ladder(made):
    returns = made("gridroboman").dataset.columns["episode_return"]
    assert returns[0::2].mean() > 35 > 15 > returns[1::2].mean()


def test_gridroboman_learnt_online_records_every_episode(tmp_path):
    small = AgentConfig(EncoderConfig("positions", (16,)), retrieval=RetrievalConfig(variant="none"))
    usual = world_of("gridroboman").collect
    online = replace(usual.online, boards=8, updates_per_round=2, memory=16, agent=small)
    config = replace(usual, method="online", episodes=20, num_tasks=1, online=online)
    heard: list[int] = []
    dataset = collect("gridroboman", config, tmp_path / "online", watch=lambda task, count, mean: heard.append(count))
    dataset.verify()
    assert heard == [8, 8, 4]
    assert dataset.num_episodes == 20
    assert dataset.manifest["provenance"]["method"] == "online_dqn"
    # Play and record agree with the rules: an episode's next observation follows from its action.
    robot = dataset.columns["observation"][..., 6:8].astype(int)
    moved = np.abs(np.diff(robot, axis=1)).sum(-1)
    assert (moved <= 1).all()
    assert (moved[dataset.columns["action"] > 3] == 0).all()
    assert moved.any()
