"""Recorded episodes: the same start for the same key, and retrieved states that really are in the data set."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from benchmarks.pycolab_game import Game
from r2a.config import RunConfig, override
from r2a.data.columns import RETRIEVAL
from r2a.data.retrieval_batch import load_resident
from r2a.environments.gridroboman.dynamics import ACTION_NAMES
from r2a.environments.registry import world_of
from r2a.errors import UserError
from r2a.experiments.gridroboman import SMOKE
from r2a.experiments.presets import arm
from r2a.training import record
from r2a.training.collect import collect
from r2a.training.offline import initial_state
from r2a.training.record import record_episode
from r2a.training.runs import settle

TASKS = ("lift red", "touch blue", "red close to blue")  # neither the first of all nor in their order
READING = override(SMOKE, {"data.tasks": TASKS})
OTHERWISE = override(
    READING,
    {"agent.retrieval.ranking": "attention", "agent.retrieval.segment": "random", "data.task_input": "one_hot"},
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    settings = replace(world_of("gridroboman").collect, tasks=TASKS, episodes=40)
    return collect("gridroboman", settings, tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def play(dataset):
    data = load_resident(dataset, READING.data)
    agent_of = cache(lambda config: initial_state(config, dataset).params)

    def play(config: RunConfig, task: int, retrieve_from: int, seed: int = 0):
        config, _ = settle(config, dataset)
        key = jax.random.key(seed)
        return record_episode(agent_of(config), data, config, task=task, retrieve_from=retrieve_from, key=key)

    return play


@pytest.mark.parametrize("config", [READING, OTHERWISE], ids=["by return", "by attention, from anywhere"])
def test_what_was_retrieved_is_in_the_data_set(config, play, dataset):
    episode = play(config, task=0, retrieve_from=2)
    states, selection, columns = episode.retrieved, episode.selection, dataset.columns
    slots, chosen = config.agent.retrieval.slots, config.agent.retrieval.k_states
    assert states.observation.shape == (50, slots, chosen, 11)
    assert selection.weight.shape == (50, slots, chosen)
    np.testing.assert_allclose((selection.weight * selection.slot_weight[..., None]).sum((1, 2)), 1, rtol=1e-5)
    assert (states.task == 2).all()
    assert (columns["task_id"][states.episode] == 2).all()
    assert (columns["split"][states.episode] == RETRIEVAL).all()
    np.testing.assert_allclose(states.episode_return, columns["reward"].sum(1)[states.episode], rtol=1e-6)

    # A segment from the start has the steps of its episode; any other is shifted by the same number everywhere.
    shifts = range(1) if config.agent.retrieval.segment == "start" else range(50 - config.agent.retrieval.length + 1)
    for number in np.unique(states.episode):
        here = states.episode == number
        steps = selection.step[here]
        assert any(
            np.array_equal(columns["observation"][number][steps + shift], states.observation[here])
            and np.array_equal(columns["action"][number][steps + shift], states.action[here])
            and np.array_equal(columns["reward"][number][steps + shift], states.reward[here])
            for shift in shifts
        )


def test_two_sources_from_the_same_start_with_one_compilation(play):
    before = record._play._cache_size()
    one, other = play(READING, 0, 0, seed=3), play(READING, 1, 2, seed=3)
    np.testing.assert_array_equal(one.observations[0], other.observations[0])
    assert (one.task, one.retrieve_from, other.task, other.retrieve_from) == (0, 0, 1, 2)
    assert not np.array_equal(one.observations[0], play(READING, 0, 0, seed=4).observations[0])
    assert record._play._cache_size() - before <= 1


def test_the_episode_is_one_of_the_environment(play):
    episode = play(READING, task=1, retrieve_from=1)
    assert episode.observations.shape == (51, 11)
    assert episode.q_values.shape == (50, len(ACTION_NAMES))
    assert episode.solved.shape == (50, len(TASKS))
    np.testing.assert_array_equal(episode.rewards, episode.solved[:, 1])
    game = Game(episode.observations[0], TASKS)  # the same game told a second time, and the tasks by their names
    for step, action in enumerate(episode.actions):
        np.testing.assert_array_equal(game.play(int(action)), episode.solved[step])
        np.testing.assert_array_equal(game.observe(), episode.observations[step + 1])
    np.testing.assert_array_equal(episode.actions, episode.q_values.argmax(1))
    moved = np.abs(np.diff(episode.observations[:, 6:8].astype(int), axis=0)).sum(1)
    assert (moved[episode.actions > 3] == 0).all()
    assert (moved <= 1).all()
    assert all(isinstance(leaf, np.ndarray | int) for leaf in jax.tree.leaves(episode))


def test_an_agent_that_reads_nothing_is_recorded_too(play):
    episode = play(arm(READING, "dqn"), task=0, retrieve_from=0)
    assert episode.selection.weight.size == episode.retrieved.action.size == 0
    assert episode.actions.shape == (50,)


@pytest.mark.parametrize(("task", "retrieve_from"), [(len(TASKS), 0), (-1, 0), (0, len(TASKS)), (0, -1)])
def test_tasks_that_do_not_exist_are_refused(task, retrieve_from, play):
    with pytest.raises(UserError, match="There is no task number"):
        play(READING, task, retrieve_from)
