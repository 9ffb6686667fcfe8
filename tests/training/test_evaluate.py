"""Evaluations: the tasks that are named are played, the data that are meant are read, and reading can be spoilt."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import agent_config, make_agent, make_retrieval_batch

from r2a.cli import main
from r2a.config import EvaluationConfig, override
from r2a.data.columns import RETRIEVAL
from r2a.data.retrieval_batch import load_resident
from r2a.environments.api import play_again
from r2a.environments.gridroboman.expert import expert_action
from r2a.environments.gridroboman.tasks import TASK_NAMES
from r2a.environments.registry import WORLDS, make, world_of
from r2a.experiments.gridroboman import SMOKE
from r2a.experiments.presets import arm
from r2a.training import evaluate as module
from r2a.training.collect import collect
from r2a.training.evaluate import arrange, batch_at_test, corrupt_values, evaluate
from r2a.training.metrics import read_metrics
from r2a.training.offline import initial_state
from r2a.training.runs import read_config, settle

COLLECTED = ("touch red", "lift blue", "touch blue", "lift red", "lift green")
NAMED = ("lift red", "lift green", "lift blue")
"""None of them is the task of its number, neither in the environment nor in the data."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    config = replace(world_of("gridroboman").collect, tasks=COLLECTED, episodes=32)
    return collect("gridroboman", config, tmp_path_factory.mktemp("datasets") / "five")


@pytest.fixture
def whoever_lifts_red(monkeypatch):
    """In place of every agent, somebody who does one task, whatever is played."""

    def lift_red(agent, memory, tasks, data_config, epsilon, state, view, key):
        return state, jax.vmap(lambda board: expert_action(board, TASK_NAMES.index("lift red")))(view.state), {}

    monkeypatch.setattr(module, "act_in_pure", lift_red)
    module._play_pure.clear_cache()
    yield
    module._play_pure.clear_cache()


def test_the_tasks_that_are_named_are_played(dataset, whoever_lifts_red, tmp_path, capsys):
    where = ["--data.dataset", str(dataset.path), "--runs", str(tmp_path), "--name", "named", "--no-tensorboard"]
    options = ["--preset", "smoke", "--agent", "dqn", "--data.tasks", *NAMED]
    assert main(["train", "gridroboman", *options, *where]) == 0
    assert read_config(tmp_path / "named").data.tasks == NAMED
    last = read_metrics(tmp_path / "named")[-1]
    assert {name for name in last if name.startswith("eval/right/")} == {f"eval/right/{name}" for name in NAMED}
    assert last["eval/right/lift red"] > 35  # who touches red has no time to lift it
    assert last["eval/right/lift green"] == last["eval/right/lift blue"] == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "named"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["per_task"]["right"]
    assert list(found) == list(NAMED)
    assert found["lift red"] > 35
    assert found["lift green"] == found["lift blue"] == 0


@pytest.mark.parametrize("source", ["right", "wrong", "random", "all_tasks"])
def test_what_is_read_are_the_data_of_the_tasks_that_are_named(dataset, source):
    config, chosen = settle(override(SMOKE, {"data.tasks": NAMED}), dataset)
    data, whole = load_resident(chosen, config.data), dataset.columns
    readers = arrange(source, len(NAMED), config.evaluation, jax.random.key(0))
    kept = {name: dataset.episodes(COLLECTED.index(name), RETRIEVAL) for name in NAMED}
    read = set()
    for number, (sources, played) in enumerate(zip(*readers, strict=True)):
        alone = len(sources) == 1
        batch = batch_at_test(data, sources, config, jax.random.key(number), one_task=alone)
        trajectories = batch.trajectories
        names = [NAMED[int(task)] for task in trajectories.task_id]
        if source == "right":
            assert set(names) == {NAMED[played[0]]}
        if source == "wrong":
            assert NAMED[played[0]] not in names
        for row, name in enumerate(names):
            # The segment is one of an episode of that name, in the data as they were collected.
            seen, done = np.asarray(trajectories.observation[row]), np.asarray(trajectories.action[row])
            length = len(done)
            assert any(
                np.array_equal(whole["observation"][episode, start : start + length], seen)
                and np.array_equal(whole["action"][episode, start : start + length], done)
                for episode in kept[name]
                for start in range(51 - length)
            )
        read.update(names)
    assert read == set(NAMED)


@settings(max_examples=25, deadline=None)
@given(
    source=st.sampled_from(["right", "wrong", "random", "all_tasks"]),
    tasks=st.integers(1, 5),
    batches=st.integers(1, 4),
    episodes=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_who_reads_what(source, tasks, batches, episodes, seed):
    evaluation = EvaluationConfig(episodes=episodes, retrieval_batches=batches)
    sources, played = map(np.asarray, arrange(source, tasks, evaluation, jax.random.key(seed)))
    assert np.bincount(played.ravel(), minlength=tasks).tolist() == [batches * episodes] * tasks
    assert len(sources) == len(played)
    if source == "all_tasks":
        assert sources.tolist() == [list(range(tasks))] * batches
        return
    assert sources.shape == (tasks * batches, 1)
    assert (played == played[:, :1]).all()  # a batch is read by one task's episodes
    same = sources[:, 0] == played[:, 0]
    if source == "right":
        assert same.all()
    if source == "wrong" and tasks > 1:
        assert not same.any()
    assert ((sources >= 0) & (sources < tasks)).all()


@pytest.fixture(scope="module")
def reader(dataset):
    """An agent that reads, and now and then does anything."""
    config = override(arm(SMOKE, "ra_dqn"), {"data.tasks": NAMED, "evaluation.epsilon": 0.3})
    config, chosen = settle(config, dataset)
    return initial_state(config, chosen).params, load_resident(chosen, config.data), config


@pytest.mark.parametrize("source", ["wrong", "all_tasks"])
def test_how_many_are_played_at_a_time_makes_no_difference(reader, source, monkeypatch):
    """In parts, the last of which may be smaller; and what was played can be played again."""
    agent, data, config = reader
    config = override(config, {"evaluation.episodes": 2, "evaluation.retrieval_batches": 3})

    def played(at_once: int):
        monkeypatch.setitem(WORLDS, "gridroboman", replace(world_of("gridroboman"), max_envs=at_once))
        return evaluate(agent, data, config, source, jax.random.key(3), on_host=True)

    whole, parts = played(0), played(8 if source == "wrong" else 12)
    np.testing.assert_array_equal(whole.scores, parts.scores)
    np.testing.assert_allclose(whole.weight, parts.weight, rtol=1e-5)
    assert [episode.task for episode in whole.played] == list(np.repeat(NAMED, 6))
    for one, other in zip(whole.played, parts.played, strict=True):
        assert (one.task, one.seed) == (other.task, other.seed)
        assert np.array_equal(one.actions, other.actions)
    scores = whole.scores.reshape(-1, 1)
    again = play_again(make("gridroboman", None, len(scores)), whole.played)
    np.testing.assert_array_equal(again.scores, scores)
    assert again.truncated.all()
    assert len({tuple(np.ravel(episode.actions)) for episode in whole.played}) == len(scores)


@pytest.fixture(scope="module")
def encoded():
    return make_agent(agent_config()).encode(make_retrieval_batch())[0]


def test_as_read_nothing_changes(encoded):
    assert corrupt_values(encoded, "as_read", jax.random.key(0)) is encoded
    assert corrupt_values(None, "shuffled", jax.random.key(0)) is None


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_values_are_those_of_other_states_that_exist(encoded, seed):
    other = corrupt_values(encoded, "shuffled", jax.random.key(seed))
    valid = np.asarray(encoded.valid)
    before, after = np.asarray(encoded.values), np.asarray(other.values)
    assert not np.array_equal(before[valid], after[valid])
    np.testing.assert_array_equal(np.sort(before[valid], axis=0), np.sort(after[valid], axis=0))
    np.testing.assert_array_equal(before[~valid], after[~valid])
    np.testing.assert_array_equal(encoded.keys, other.keys)


def test_the_mean_is_that_of_the_states_that_exist(encoded):
    other = corrupt_values(encoded, "mean", jax.random.key(0))
    mean = np.asarray(encoded.values)[np.asarray(encoded.valid)].mean(0)
    np.testing.assert_allclose(other.values, np.broadcast_to(mean, other.values.shape), rtol=1e-5, atol=1e-6)
