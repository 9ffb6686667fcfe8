"""The roll-outs against plain loops, one row at a time: what a policy is given, what is done, what came of it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from r2a.environments.api import EnvSpec, HostEnv, seed_number
from r2a.errors import UserError
from r2a.training.rollout import Rollout, play, play_all
from r2a.training.rollout_pure import PureView, rollout_pure

ROWS, ACTIONS, LONGEST = 3, 5, 6
NONE = {"discrete": -1, "continuous": np.zeros(2, np.float32)}


class Told(NamedTuple):
    """What an episode shows: the oracle's own words."""

    seen: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    scores: tuple[float, float]


class Tale:
    """One episode: its length and its rewards are those of its task, its seed and what is done."""

    def __init__(self, task: str, seed):
        self.number = seed_number(seed) % 1009
        self.sign = {"up": 1.0, "down": -1.0}[task]
        self.length = 1 + self.number % LONGEST
        self.step, self.total, self.last = 0, 0.0, 0.0

    def told(self, reward: float = 0.0) -> Told:
        over = self.step == self.length
        terminates = self.number % 2 == 0 and self.length < LONGEST
        seen = np.array([self.number, self.step, self.last], np.float32)
        return Told(seen, reward, over and terminates, over and not terminates, (self.total, float(self.step)))

    def advance(self, action) -> Told:
        assert self.step < self.length, "it is over"
        self.step += 1
        self.last = float(np.sum(action))
        reward = self.sign * (self.last + self.number % 7) / 4
        self.total += reward
        return self.told(reward)


class Tales(HostEnv):
    """Many of them, as an environment (a `VectorEnv`); it remembers what it was asked for."""

    def __init__(self, kind: str = "discrete", num_envs: int = ROWS):
        action = Discrete(ACTIONS) if kind == "discrete" else Box(-1.0, 1.0, (2,), np.float32)
        seen = Box(-2000, 2000, (3,), np.float32)
        spec = EnvSpec("tales", ("up", "down"), seen, action, LONGEST, instruction_length=2, scores=("return", "steps"))
        super().__init__(spec, num_envs)
        self._tales: list[Tale | None] = [None] * num_envs
        self.begun: list[tuple] = []

    def _begin(self, rows, tasks, seeds):
        for row, task, seed in zip(rows, tasks, seeds, strict=True):
            self.begun.append((row, task, seed))
            self._tales[row] = Tale(task, seed)
            self._show(row, self._tales[row].told())
            self._now.instruction[row] = self.spec.tasks.index(task) + 1

    def _advance(self, actions, rows):
        for row in rows:
            self._show(row, self._tales[row].advance(actions[row]))

    def _show(self, row: int, told: Told) -> None:
        now = self._now
        now.observation[row], now.reward[row], now.scores[row] = told.seen, told.reward, told.scores
        now.terminated[row], now.truncated[row] = told.terminated, told.truncated
        now.discount[row] = 0.0 if told.terminated else 1.0

    def render(self, row):
        raise NotImplementedError


def whim(kind: str, seen, previous_action, previous_reward, is_first, step):
    """What anybody does who is given this; one number changed changes it."""
    number = int(seen.sum() * 8 + 10 * np.sum(previous_action) + 16 * previous_reward + 3 * is_first + step)
    if kind == "discrete":
        return np.int32(number % ACTIONS)
    return np.array([np.sin(number), np.cos(number)], np.float32)


class Whim:
    """The same in every row, as a policy; all views are kept. What rows do that have ended is nonsense.

    It hands out the same array every time: whoever wants to keep an action has to copy it.
    """

    def __init__(self, kind: str):
        self.kind, self.views, self.steps = kind, [], []

    def act(self, view, step):
        self.views.append(view)
        self.steps.append(step)
        given = (view.observation, view.previous_action, view.previous_reward, view.is_first)
        done = [whim(self.kind, *row, step) for row in zip(*given, strict=True)]
        if self.kind == "discrete":
            done = [action if goes_on else 99 for action, goes_on in zip(done, view.active, strict=True)]
        if not hasattr(self, "buffer"):
            self.buffer = np.stack(done)
        self.buffer[:] = np.stack(done)
        return self.buffer, {"twice": 2 * self.buffer}


class Line(NamedTuple):
    """One step of one row, by the plain loop."""

    seen: np.ndarray
    previous_action: np.ndarray
    previous_reward: float
    is_first: bool
    action: np.ndarray
    after: Told


def plain_loop(kind: str, episodes, steps: int):
    """A row by itself: its steps, and of each episode that ended its task, seed, actions and scores."""
    lines, ended, number, done = [], [], 0, 0
    while done < steps and number < len(episodes):
        tale, action, reward, is_first, actions = Tale(*episodes[number]), NONE[kind], 0.0, True, []
        told = tale.told()
        while done < steps and not (told.terminated or told.truncated):
            seen = told.seen
            previous = (action, reward, is_first)
            action = whim(kind, seen, *previous, done)
            told = tale.advance(action)
            lines.append(Line(seen, *previous, action, told))
            reward, is_first = told.reward, False
            actions.append(action)
            done += 1
        if told.terminated or told.truncated:
            ended.append((number, *episodes[number], actions, told.scores))
        number += 1
    return lines, ended


def episode_of(row: int, number: int):
    """Seeds of both kinds, other ones for every row and number."""
    task = ("up", "down")[(row + number) % 2]
    return task, (5, row, number) if row else 100 * number + 17


def many(row: int):
    return [episode_of(row, number) for number in range(40)]


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_every_row_goes_through_its_episodes_as_if_it_were_alone(kind):
    steps = 50
    policy, env = Whim(kind), Tales(kind)
    rollout = Rollout(env, policy, episode_of)
    taken, finished = [], []
    for number in range(steps):
        taken.append(rollout.step())
        if number % 7 == 0:
            finished += rollout.finished()
    finished += rollout.finished()
    assert rollout.finished() == []
    assert policy.steps == list(range(steps)) == list(range(rollout.steps))
    for row in range(ROWS):
        lines, ended = plain_loop(kind, many(row), steps)
        for view, step, line in zip(policy.views, taken, lines, strict=True):
            np.testing.assert_array_equal(view.observation[row], line.seen)
            np.testing.assert_array_equal(view.previous_action[row], line.previous_action)
            np.testing.assert_array_equal(step.after.observation[row], line.after.seen)
            assert view.previous_reward[row] == np.float32(line.previous_reward)
            assert (view.is_first[row], view.active[row]) == (line.is_first, True)
            assert step.after.reward[row] == np.float32(line.after.reward)
            assert step.after.ended[row] == (line.after.terminated or line.after.truncated)
            assert step.view is view
        own = [episode for episode in finished if episode.row == row]
        assert len(own) == len(ended) > 5
        for found, (number, task, seed, actions, scores) in zip(own, ended, strict=True):
            assert (found.number, found.episode.task, found.episode.seed) == (number, task, seed)
            assert found.scores.tolist() == list(scores)
            assert found.length == len(actions) == scores[1]
            np.testing.assert_array_equal(np.stack(found.episode.actions), np.stack(actions))
        assert [(task, seed) for place, task, seed in env.begun if place == row] == many(row)[: len(ended) + 1]
    # One ends while others go on, now and then several together, some by terminating and some by being cut off.
    ends = np.array([step.after.ended.sum() for step in taken])
    assert {0, 1, 2} <= set(ends.tolist())
    assert any(step.after.terminated.any() for step in taken)
    assert any(step.after.truncated.any() for step in taken)


def test_a_view_tells_what_is_said_and_what_else_the_policy_said_is_kept():
    rollout = Rollout(Tales(), Whim("discrete"), episode_of)
    for _ in range(20):
        step = rollout.step()
        tasks = [("up", "down").index(episode.task) + 1 for episode in rollout.episodes]
        np.testing.assert_array_equal(rollout.now.instruction, np.repeat(tasks, 2).reshape(ROWS, 2))
        np.testing.assert_array_equal(step.extras["twice"][0], 2 * step.action[0])


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_a_row_without_episodes_left_rests_and_the_others_go_on(kind):
    counts = (1, 4, 2)

    def some(row, number):
        return episode_of(row, number) if number < counts[row] else None

    policy, env = Whim(kind), Tales(kind)
    rollout, finished = Rollout(env, policy, some), []
    while rollout.active.any():
        step = rollout.step()
        finished += rollout.finished()
        resting = ~step.view.active
        assert not step.after.reward[resting].any()
        np.testing.assert_array_equal(step.after.observation[resting], step.view.observation[resting])
    assert sorted((episode.row, episode.number) for episode in finished) == [
        (row, number) for row in range(ROWS) for number in range(counts[row])
    ]
    for row in range(ROWS):
        _, ended = plain_loop(kind, many(row)[: counts[row]], 10**6)
        own = [episode.scores.tolist() for episode in finished if episode.row == row]
        assert own == [list(scores) for *_, scores in ended]


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_playing_all_is_one_episode_in_every_row(kind):
    episodes = [("up", 11), ("down", (3, 1)), ("up", 16)]
    found = list(play_all(Tales(kind), Whim(kind), episodes))
    assert sorted(episode.row for episode in found) == [0, 1, 2]
    lengths = [episode.length for episode in found]
    assert lengths == sorted(lengths)  # each is told when it ends
    assert len(set(lengths)) > 1
    for finished in found:
        _, [(number, task, seed, actions, scores)] = plain_loop(kind, [episodes[finished.row]], 100)
        assert (finished.number, finished.episode.task, finished.episode.seed) == (number, task, seed)
        np.testing.assert_array_equal(np.stack(finished.episode.actions), np.stack(actions))
        assert finished.scores.tolist() == list(scores)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_one_episode_is_kept_whole(kind):
    class Advised(Whim):
        def act(self, view, step):
            action, extras = super().act(view, step)
            return action, extras | {"recorded": action + 1}

    lines, [(_, task, seed, actions, scores)] = plain_loop(kind, [("down", 23)], 100)
    for policy, more in ((Whim(kind), 0), (Advised(kind), 1)):
        episode = play(Tales(kind, 1), policy, task, seed)
        assert (episode.task, episode.seed, episode.instruction.tolist()) == (task, seed, [2, 2])
        np.testing.assert_array_equal(episode.observation[:-1], np.stack([line.seen for line in lines]))
        np.testing.assert_array_equal(episode.observation[-1], lines[-1].after.seen)
        np.testing.assert_array_equal(episode.action, np.stack(actions) + more)  # what is learnt from, not what is done
        np.testing.assert_array_equal(episode.reward, np.array([line.after.reward for line in lines], np.float32))
        assert episode.terminated == lines[-1].after.terminated
        assert episode.scores.tolist() == list(scores)


def same(one, other) -> None:
    for name, ours, theirs in zip(one._fields, one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name, strict=True)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("until", [0, 1, 5, 8, 11])
def test_a_rollout_goes_on_elsewhere_to_the_bit(kind, until):
    whole = Rollout(Tales(kind), Whim(kind), episode_of)
    for _ in range(until):
        whole.step()
    state = {name: column.copy() for name, column in whole.state().items()}
    elsewhere = Rollout(Tales(kind), Whim(kind), episode_of)
    for _ in range(3):
        elsewhere.step()  # wherever it has come by itself
    elsewhere.restore(state)
    elsewhere.steps = whole.steps
    same(whole.now, elsewhere.now)
    for name, column in elsewhere.state().items():
        np.testing.assert_array_equal(column, state[name], err_msg=name, strict=True)
    for _ in range(15):
        one, other = whole.step(), elsewhere.step()
        same(one.view, other.view)
        same(one.after, other.after)
        np.testing.assert_array_equal(one.action, other.action)
    before, after = whole.finished(), elsewhere.finished()
    assert [(e.row, e.number, e.scores[0], e.length) for e in before] == [
        (e.row, e.number, e.scores[0], e.length) for e in after
    ]


def test_what_was_saved_elsewhere_must_fit():
    state = Rollout(Tales(), Whim("discrete"), episode_of).state()
    with pytest.raises(UserError, match="saved episodes are of 3 environments, but this run has 2"):
        Rollout(Tales(num_envs=2), Whim("discrete"), episode_of).restore(state)
    with pytest.raises(UserError, match="went another way"):
        Rollout(Tales(), Whim("discrete"), lambda row, number: ("up", 1 + row)).restore(state)


class Drift:
    """A number that drifts with every action, as a pure environment; the reward depends on the task."""

    spec = EnvSpec("drift", ("near", "far", "away"), Box(-99, 99, (2,), np.float32), Discrete(ACTIONS), max_steps=4)

    def reset(self, key):
        return jax.random.normal(key, ())

    def observe(self, state):
        return jnp.stack([state, state**2])

    def step(self, state, action, task):
        state = state + action - 2.0
        return state, state * (task + 1)

    def render(self, state):
        raise NotImplementedError


def drifting(carry, view: PureView, key):
    """A policy that needs all it is given."""
    noise = jax.random.randint(key, carry.shape, 0, 3)
    total = view.observation.sum(-1) + view.previous_reward + 2 * view.previous_action + 5 * view.is_first
    action = (jnp.floor(total).astype(jnp.int32) + noise + carry + view.task) % ACTIONS
    return carry + 1, action, {"view": view}


def test_the_compiled_rollout_is_stepping_by_hand():
    env, tasks, carry = Drift(), jnp.array([2, 0, 1, 2]), jnp.array([0, 1, 2, 3])
    reset_keys, key = jax.random.split(jax.random.key(0), 4), jax.random.key(1)
    played = jax.jit(lambda: rollout_pure(env, drifting, carry, tasks, reset_keys, key))()
    states = [env.reset(reset_key) for reset_key in reset_keys]
    action, reward, is_first = jnp.full(4, -1), jnp.zeros(4), jnp.ones(4, bool)
    for step, step_key in enumerate(jax.random.split(key, env.spec.max_steps)):
        observation = jnp.stack([env.observe(state) for state in states])
        view = PureView(observation, action, reward, is_first, jnp.stack(states), tasks)
        for name, seen, expected in zip(view._fields, played.extras["view"], view, strict=True):
            np.testing.assert_allclose(seen[step], expected, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(played.observation[step], observation, rtol=1e-6)
        carry, action, _ = drifting(carry, view, step_key)
        outcomes = [env.step(*row) for row in zip(states, action, tasks, strict=True)]
        states, reward = [state for state, _ in outcomes], jnp.stack([reward for _, reward in outcomes])
        np.testing.assert_array_equal(played.action[step], action)
        np.testing.assert_allclose(played.reward[step], reward, rtol=1e-6)
        is_first = jnp.zeros(4, bool)
    assert played.action.shape == (4, 4)
    assert played.observation.shape == (5, 4, 2)
    np.testing.assert_allclose(played.observation[-1], [env.observe(state) for state in states], rtol=1e-6)
