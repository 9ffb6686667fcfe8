"""The fast environment equals the pycolab game."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.boards import solved_tasks

from benchmarks.pycolab_game import Game
from r2a.environments.gridroboman.dynamics import ACTION_NAMES, EPISODE_LENGTH, observe
from r2a.environments.gridroboman.tasks import TASK_NAMES

EPISODES, PLAYED = 2000, 120


def test_equal_over_12_000_steps_on_all_tasks(walk):
    @jax.jit
    def episodes(keys):
        start, actions, states = jax.vmap(lambda key: walk(key, EPISODE_LENGTH))(keys)
        each_step = jax.vmap(jax.vmap(lambda state: (observe(state), solved_tasks(state), jnp.stack(state.held))))
        return jax.vmap(observe)(start), actions, *each_step(states)

    keys = jax.random.split(jax.random.key(0), EPISODES)
    everything = [np.asarray(column) for column in episodes(keys)]
    # pycolab is slow: the episodes in which most is stacked are played, and as many of the others.
    most_first = np.argsort(-_stacked(everything[2]).sum(1), kind="stable")
    chosen = np.concatenate([most_first[:PLAYED], most_first[PLAYED:][::15][:PLAYED]])
    starts, actions, observations, solved, held = (column[chosen] for column in everything)
    assert actions.size == 12_000
    _assert_everything_was_visited(observations, solved, held)

    for start, episode_actions, episode_observations, episode_solved in zip(
        starts, actions, observations, solved, strict=True
    ):
        game = Game(start)
        np.testing.assert_array_equal(game.observe(), start)
        for action, observation, rewards in zip(
            episode_actions.tolist(), episode_observations, episode_solved, strict=True
        ):
            played = game.play(action)
            # Arrays of booleans and small integers: comparing bytes is much faster than assert_array_equal.
            same = (played == rewards).all() and game.observe().tobytes() == observation.tobytes()
            assert same, (
                start,
                observation,
                game.observe(),
                [TASK_NAMES[i] for i in np.flatnonzero(played != rewards)],
            )


def _stacked(observations):
    return (observations[..., 8:] == -1).any(-1)


def _assert_everything_was_visited(observations, solved, held):
    assert (solved.sum((0, 1)) > 80).all(), "every task was solved"
    status = observations[..., 8:]
    at_robot = (observations[..., :6].reshape(*status.shape, 2) == observations[..., None, 6:8]).all(-1)
    stacked, holding = _stacked(observations), held.any(-1)
    assert (stacked & ~holding).sum() > 1000
    assert (stacked & holding).sum() > 400
    assert (holding & (at_robot.sum(-1) == 2)).sum() > 500, "an object in hand over another"
    assert (holding & at_robot.all(-1)).sum() > 50, "an object in hand over a stack, where put is refused"


def test_the_pycolab_game_by_hand():
    game = Game([1, 1, 2, 1, 5, 5, 1, 1, 0, 0, 0], ["lift red", "red on green"])
    up, down, left, right, lift, put, skip = range(len(ACTION_NAMES))
    assert game.play(skip).tolist() == [0, 0]
    assert game.play(lift).tolist() == [1, 0]
    assert game.play(right).tolist() == [1, 0]
    assert game.play(put).tolist() == [0, 1]
    assert game.observe().tolist() == [2, 1, 2, 1, 5, 5, 2, 1, 1, -1, 0]
    for _ in range(9):
        game.play(left)
        game.play(up)
    assert game.observe()[6:8].tolist() == [0, 0]
    assert game.play(down).tolist() == [0, 1]


def test_the_pycolab_game_refuses_boards_in_mid_episode():
    with pytest.raises(ValueError, match="all statuses must be 0"):
        Game([1, 1, 1, 1, 5, 5, 1, 1, 1, -1, 0])
