"""Roll-outs: rows that go from episode to episode, and go on after a stop."""

from __future__ import annotations

import numpy as np
import pytest

from r2a.environments.adapters import FromGymnasium
from r2a.environments.minatar import MinAtarSettings
from r2a.environments.registry import make
from r2a.errors import UserError
from r2a.training.rollout import Rollout, play, play_all

ROWS = 3


def minatar(num_envs=ROWS, sticky=0.25):
    return make("minatar", MinAtarSettings(game="seaquest", sticky=sticky, max_steps=150), num_envs)


def cart_pole(num_envs=ROWS):
    return FromGymnasium.registered("CartPole-v1", num_envs)


ENVIRONMENTS = pytest.mark.parametrize("make_env", [minatar, cart_pole])


class AtRandom:
    """Any action; `seed` decides which."""

    def __init__(self, env, seed=0):
        self.env, self.random, self.views = env, np.random.default_rng(seed), []

    def act(self, view, step):
        self.views.append(view)
        return self.random.integers(self.env.spec.action_size, size=self.env.num_envs), {}


def endless(env, seed=0):
    return Rollout(env, AtRandom(env, seed), lambda row, number: (env.spec.tasks[0], (5, row, number)))


def same(these, those):
    return all(np.array_equal(one, other) for one, other in zip(these, those, strict=True))


@ENVIRONMENTS
def test_finished_episodes_are_told_once_with_score_and_length(make_env):
    rollout = endless(make_env())
    score, length, expected = np.zeros(ROWS), np.zeros(ROWS, int), []
    numbers = [0] * ROWS
    for _ in range(200):
        after = rollout.step().after
        score += after.reward
        length += 1
        for row in np.flatnonzero(after.ended):
            expected.append((row, numbers[row], score[row], length[row]))
            numbers[row] += 1
            score[row] = length[row] = 0
    told = rollout.finished()
    assert [(end.row, end.number, end.scores[0], end.length) for end in told] == expected
    assert len(told) > ROWS
    assert rollout.finished() == []
    assert {end.episode.seed for end in told} == {(5, row, number) for row, number, *_ in expected}


@ENVIRONMENTS
def test_a_policy_is_given_what_was_done_just_before_but_nothing_at_a_start(make_env):
    rollout = endless(make_env())
    steps = [rollout.step() for _ in range(60)]
    starts = 0
    for before, now in zip([None, *steps], steps, strict=False):
        view = now.view
        assert view.active.all()
        for row in range(ROWS):
            if before is None or before.after.ended[row]:
                starts += 1
                assert view.is_first[row]
                assert (view.previous_action[row], view.previous_reward[row]) == (-1, 0)
                # What a row shows at its start is not what it showed at its end.
                assert before is None or not np.array_equal(view.observation[row], before.after.observation[row])
            else:
                assert not view.is_first[row]
                assert view.previous_action[row] == before.action[row]
                assert view.previous_reward[row] == before.after.reward[row]
                np.testing.assert_array_equal(view.observation[row], before.after.observation[row])
    assert starts > ROWS


@ENVIRONMENTS
def test_a_restored_rollout_goes_on_bit_by_bit_the_same(make_env):
    rollout = endless(make_env())
    for _ in range(100):
        rollout.step()
    state = rollout.state()
    assert len(set(state["length"].tolist())) > 1
    assert len(state["finished_score"])
    other = endless(make_env())
    other.restore(state)
    assert same(rollout.now, other.now)
    rollout.policy = AtRandom(rollout.env, 9)
    other.policy = AtRandom(other.env, 9)
    for _ in range(60):
        assert same(rollout.step().after, other.step().after)
    one, two = ([(e.row, e.number, e.scores[0], e.length) for e in r.finished()] for r in (rollout, other))
    assert one == two
    assert same(rollout.state().values(), other.state().values())


def test_a_state_from_elsewhere_is_refused():
    rollout = endless(minatar())
    for _ in range(60):
        rollout.step()
    state = rollout.state()
    with pytest.raises(UserError, match="of 3 environments, but this run has 1"):
        endless(minatar(num_envs=1)).restore(state)
    with pytest.raises(UserError, match="went another way"):
        endless(minatar(sticky=0.5)).restore(state)


@ENVIRONMENTS
def test_whole_episodes_are_those_that_are_played_alone(make_env):
    env, alone = make_env(), make_env(num_envs=1)
    episodes = [(env.spec.tasks[0], seed) for seed in (3, (4, 1), 5)]
    ended = {end.row: end for end in play_all(env, AtRandom(env), episodes)}
    assert sorted(ended) == [0, 1, 2]

    class Again:
        def __init__(self, actions):
            self.actions = actions

        def act(self, view, step):
            return self.actions[step][None], {"recorded": self.actions[step][None] + 10}

    for row, (task, seed) in enumerate(episodes):
        whole = play(alone, Again(ended[row].episode.actions), task, seed)
        np.testing.assert_array_equal(whole.scores, ended[row].scores)
        assert len(whole.observation) == ended[row].length + 1
        assert (whole.task, whole.seed) == (task, seed)
        np.testing.assert_array_equal(whole.action, np.array(ended[row].episode.actions) + 10)
        assert whole.reward.sum() == pytest.approx(whole.scores[0])
