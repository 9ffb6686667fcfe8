"""Between our interface, Gymnasium's and pure functions."""

from __future__ import annotations

import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import r2a.environments  # noqa: F401 (registers the environments)
from r2a.environments.adapters import AsGymnasium, FromGymnasium, FromPure
from r2a.environments.api import EnvSpec, seed_number
from r2a.environments.babyai.vocabulary import as_text
from r2a.environments.gridroboman.dynamics import ACTION_NAMES
from r2a.environments.gridroboman.env import GRIDROBOMAN, SPEC
from r2a.errors import UserError

IDS = {
    "r2a/Gridroboman-v0": {"task": "lift red"},
    "r2a/BabyAI-v0": {"task": "GoToLocal"},
    "r2a/CausalWorld-v0": {"task": "pushing", "max_steps": 4},
    "r2a/Atari-v0": {"game": "pong"},
    "r2a/MinAtar-v0": {},
}


@pytest.mark.parametrize("id", IDS)
def test_check_env_has_nothing_to_say(id):
    for render_mode in (None, "rgb_array"):
        environment = gymnasium.make(id, render_mode=render_mode, **IDS[id])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Pictures are checked by making all anew: once is enough.
            check_env(environment.unwrapped, skip_render_check=render_mode is None)
        environment.close()


@pytest.mark.parametrize("id", IDS)
def test_mistakes_are_one_clear_sentence(id):
    with pytest.raises(UserError, match=r"There is no .* 'pon'; (did you mean|choose one of) "):
        gymnasium.make(id, **{**IDS[id], "task": "pon"})
    with pytest.raises(ValueError, match="unknown render mode 'human'"):
        gymnasium.make(id, render_mode="human", **IDS[id])
    environment = gymnasium.make(id, **IDS[id]).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(environment.action_space.sample())
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.render()
    environment.close()


def test_seeds_decide_the_start_and_the_future_starts():
    def starts(seed):
        environment = gymnasium.make("r2a/BabyAI-v0", task="GoToLocal")
        resets = [environment.reset(seed=seed), *(environment.reset() for _ in range(3))]
        return [(seen["observation"].tolist(), seen["instruction"].tolist()) for seen, _ in resets]

    assert starts(3) == starts(3)
    assert starts(3) != starts(4)
    assert starts(3)[0] != starts(3)[1]


def test_instructions_are_part_of_what_is_seen_and_scores_of_the_info():
    environment = gymnasium.make("r2a/BabyAI-v0", task="GoToRedBall", max_steps=3)
    seen, info = environment.reset(seed=0)
    assert as_text(seen["instruction"]) == "go to the red ball"
    assert info == {"task": "GoToRedBall", "success": 0.0}
    assert environment.action_space == gymnasium.spaces.Discrete(7)
    assert [environment.step(0)[2:4] for _ in range(3)] == [(False, False)] * 2 + [(False, True)]
    assert environment.render() is None


def test_lifting_red_pays_in_every_step_after():
    environment = gymnasium.make("r2a/Gridroboman-v0", task="lift red")
    observation, _ = environment.reset(seed=1)
    red_x, red_y, robot_x, robot_y = (int(observation[i]) for i in (0, 1, 6, 7))
    sideways = ["right" if red_x > robot_x else "left"] * abs(red_x - robot_x)
    upright = ["down" if red_y > robot_y else "up"] * abs(red_y - robot_y)
    actions = [ACTION_NAMES.index(name) for name in (*sideways, *upright, "lift", "skip", "up")]
    steps = [environment.step(action) for action in actions]
    assert [step[1] for step in steps] == [0.0] * (len(steps) - 3) + [1.0] * 3
    assert steps[-1][4] == {"task": "lift red", "return": 3.0}


def test_rows_of_a_pure_environment_are_its_functions_stepped_by_hand():
    tasks, seeds, count = ("touch red", "red to corner", "blue to corner"), (3, (4, 1), 2**40 + 5), 3
    env = FromPure(GRIDROBOMAN, count)
    now = env.reset(tasks, seeds)
    keys = [jax.random.key(seed_number(seed) % 2**32) for seed in seeds]
    states = [GRIDROBOMAN.reset(key) for key in keys]
    numbers = [SPEC.tasks.index(task) for task in tasks]
    observe, step = jax.jit(GRIDROBOMAN.observe), jax.jit(GRIDROBOMAN.step)
    generator, total = np.random.default_rng(0), np.zeros(count)
    for time in range(SPEC.max_steps):
        np.testing.assert_array_equal(now.observation, np.stack([observe(state) for state in states]))
        actions = generator.integers(SPEC.action_size, size=count)
        now = env.step(actions)
        outcomes = [step(*given) for given in zip(states, jnp.asarray(actions, jnp.int32), numbers, strict=True)]
        states, rewards = zip(*outcomes, strict=True)
        np.testing.assert_array_equal(now.reward, np.array(rewards))
        total += now.reward
        np.testing.assert_array_equal(now.scores[:, 0], total)
        assert now.truncated.tolist() == [time == SPEC.max_steps - 1] * count
        assert not now.terminated.any()
        assert (now.discount == 1).all()
    assert total.any()
    np.testing.assert_array_equal(env.render(1), GRIDROBOMAN.render(states[1]))


class Told(gymnasium.Env):
    """Says scores and a discount of its own; draws nothing."""

    observation_space = gymnasium.spaces.Box(0, 9, (), np.int64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, told):
        self.told = told

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        return np.int64(0), {"scores": (0.5, 0.0)} if self.told else {}

    def step(self, action):
        info = {"scores": (1.0, 2.0), "discount": 0.0} if self.told else {}
        return np.int64(action), 3.0, False, bool(action), info

    def render(self):
        return None


def told(tasks=("told", "untold"), **more):
    spec = EnvSpec("told", tasks, Told.observation_space, Told.action_space, max_steps=4, scores=("one", "two"), **more)
    return FromGymnasium(spec, lambda task: Told(task == "told"), 2)


def test_an_environment_may_tell_its_own_scores_and_discount():
    env = told()
    now = env.reset(["told", "untold"], [1, (2, 3)])
    assert now.scores.tolist() == [[0.5, 0.0], [0.0, 0.0]]
    for number in range(1, 4):
        now = env.step(np.array([0, 0]))
        assert now.scores.tolist() == [[1.0, 2.0], [3.0 * number] * 2]
        assert now.discount.tolist() == [0.0, 1.0]
        assert not now.ended.any()  # the discount is for learning: the episode goes on
    assert env.step(np.array([0, 0])).truncated.all()
    env.reset(["untold"], [1], [0])
    assert env.step(np.array([1, 1])).truncated.tolist() == [True, True]
    with pytest.raises(UserError, match="told draws no pictures"):
        env.render(0)


def test_seeds_are_numbers_unless_an_environment_asks_for_sequences(monkeypatch):
    env = told()
    env.reset(["told", "told"], [9, (2, 3)])
    assert env.env(0).seed == 9
    assert env.env(1).seed == int(np.random.SeedSequence(2, spawn_key=(3,)).generate_state(1)[0])
    monkeypatch.setattr(Told, "metadata", {"seed_sequences": True})
    env.reset(["told", "told"], [9, (2, 3)])
    assert [env.env(row).seed.entropy for row in range(2)] == [9, 2]
    assert [env.env(row).seed.spawn_key for row in range(2)] == [(), (3,)]


def test_spaces_that_agents_cannot_take_are_refused():
    class Words(Told):
        observation_space = gymnasium.spaces.Text(5)

    gymnasium.register("tests/Words-v0", lambda **_: Words(True))
    try:
        with pytest.raises(UserError, match="observations are a Text, and only Box spaces"):
            FromGymnasium.registered("tests/Words-v0", 1)
    finally:
        del gymnasium.registry["tests/Words-v0"]


def test_a_registered_environment_is_the_same_as_alone():
    env = FromGymnasium.registered("CartPole-v1", 2)
    now = env.reset(["CartPole-v1"] * 2, [3, 4])
    alone = gymnasium.make("CartPole-v1")
    seen, _ = alone.reset(seed=4)
    total = ended = 0.0
    while not ended:
        np.testing.assert_array_equal(now.observation[1], seen)
        now = env.step(np.array([1, 0]))
        seen, reward, ended, *_ = alone.step(0)
        total += reward
        assert (now.reward[1], now.terminated[1], now.discount[1]) == (reward, ended, 1.0 - ended)
    assert now.scores[1].tolist() == [total]
    assert isinstance(AsGymnasium(env, "CartPole-v1"), gymnasium.Env)
    env.close()
