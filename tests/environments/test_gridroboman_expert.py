"""The scripted expert: optimal on sampled boards, as good as announced on episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.boards import solved_tasks

from r2a.environments.gridroboman.dynamics import ACTION_NAMES, SKIP, advance
from r2a.environments.gridroboman.env import GRIDROBOMAN
from r2a.environments.gridroboman.plan import goal_of, steps_to_solve
from r2a.environments.gridroboman.tasks import TASK_NAMES
from r2a.training.collect_pure import constant_returns, expert_and_floor, play_expert

EPISODES_PER_TASK = 24


def _noiseless_and_noisy(key):
    """The expert without and with noise: [2, 30, EPISODES_PER_TASK] episodes, from one call."""
    tasks = jnp.tile(jnp.repeat(jnp.arange(30), EPISODES_PER_TASK), 2)
    noise = jnp.repeat(jnp.array([0.0, 0.5]), 30 * EPISODES_PER_TASK)
    played = play_expert(key, tasks, noise, GRIDROBOMAN, "gridroboman")
    shape = (2, 30, EPISODES_PER_TASK)
    return jax.tree.map(lambda column: np.asarray(column).reshape(*shape, *column.shape[1:]), played)


@pytest.fixture(scope="module")
def episodes():
    return _noiseless_and_noisy(jax.random.key(0))


def test_returns(episodes):
    returns = episodes.reward.sum(-1)[0]
    assert returns[:10].mean() > 44.3
    assert returns.mean() > 42.7
    assert returns.min() > 20, "no start is too hard"
    noisy = episodes.reward.sum(-1)[1]
    assert 15 < noisy.mean() < returns.mean() - 5


def test_shapes_and_types(episodes):
    assert episodes.observation.shape[-2:] == (51, 11)
    assert (episodes.observation.dtype, episodes.action.dtype) == (np.int8, np.int8)
    assert (episodes.action.shape[-1], episodes.reward.shape[-1]) == (50, 50)
    assert set(np.unique(episodes.reward)) == {0.0, 1.0}


def test_noise_is_as_strong_as_it_says(episodes):
    """Once solved, the expert skips: with noise 0.5 the other six actions show in 6/7 of half of the steps."""
    solved_before = episodes.reward[1, :, :, :-1] == 1
    acted = episodes.action[1, :, :, 1:] != SKIP
    assert acted[solved_before].mean() == pytest.approx(0.5 * 6 / 7, abs=0.02)
    quiet = episodes.reward[0, :, :, :-1] == 1
    assert (episodes.action[0, :, :, 1:][quiet] == SKIP).all()


def test_episodes_are_a_function_of_their_key(episodes):
    same, other = (_noiseless_and_noisy(jax.random.key(seed)).observation for seed in (0, 1))
    np.testing.assert_array_equal(same, episodes.observation)
    assert not (other == same).all()


def test_cost_to_go_fulfils_bellman_on_wandered_boards(walk):
    """From every unsolved board the best action leaves exactly one step less; solved boards cost nothing."""

    def costs(state, task):
        goal = goal_of(task)
        following = jax.vmap(advance, in_axes=(None, 0))(state, jnp.arange(SKIP, dtype=jnp.int8))
        return steps_to_solve(state, goal), jax.vmap(steps_to_solve, in_axes=(0, None))(following, goal).min()

    @jax.jit
    def all_costs(keys):
        _, _, walks = jax.vmap(lambda key: walk(key, 50))(keys)
        states = jax.tree.map(lambda numbers: numbers[:, 9::10].reshape(-1), walks)
        by_task = jax.vmap(jax.vmap(costs, in_axes=(None, 0)), in_axes=(0, None))
        return by_task(states, jnp.arange(len(TASK_NAMES))), jax.vmap(solved_tasks)(states)

    (here, best_next), solved = jax.tree.map(np.asarray, all_costs(jax.random.split(jax.random.key(0), 80)))
    np.testing.assert_array_equal(here == 0, solved)
    np.testing.assert_array_equal(best_next[~solved], here[~solved] - 1)


def test_constant_policies():
    names = ("touch red", "red to corner", "red to center", "lift red", "red on blue")
    tasks = jnp.asarray([TASK_NAMES.index(name) for name in names])
    returns = np.asarray(constant_returns(tasks, jax.random.split(jax.random.key(0), 2048), GRIDROBOMAN))
    assert returns.shape == (5, 7)
    # A robot that skips touches red with 4 x 42 of the 49 x 49 pairs of cells.
    assert returns[0, SKIP] == pytest.approx(50 * 168 / 2401, abs=0.8)
    # 16 of 49 cells are corners, 9 are centre; nobody moves the object.
    assert returns[1, SKIP] == pytest.approx(50 * 16 / 49, abs=2)
    assert returns[2, SKIP] == pytest.approx(50 * 9 / 49, abs=2)
    # Lifting without moving holds red only where the robot started on it.
    assert returns[3, ACTION_NAMES.index("lift")] == pytest.approx(50 / 49, abs=0.6)
    assert returns[4].max() == 0


def test_the_expert_is_far_above_the_best_constant_action():
    names = ("red to corner", "lift red")
    expert, floor = expert_and_floor("gridroboman", names, jax.random.key(0), episodes=EPISODES_PER_TASK, starts=256)
    assert expert.shape == floor.shape == (2,)
    assert expert.min() > 42
    # One action for both, the best on average: that of the corner, since hardly anybody lifts by chance.
    assert floor[0] == pytest.approx(50 * 16 / 49, abs=5)
    assert floor[1] < 3
