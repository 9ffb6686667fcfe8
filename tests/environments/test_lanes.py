"""The contract of games that are played online, on Atari's emulator and on MinAtar."""

import numpy as np
import pytest

from r2a.config import AtariConfig, MinAtarConfig
from r2a.environments.atari.lanes import make_atari
from r2a.environments.lanes import Lanes
from r2a.environments.minatar.lanes import make_minatar
from r2a.errors import UserError

LANES = 3


def atari(seed=0, num_lanes=LANES, **settings):
    return make_atari(AtariConfig(**{"game": "breakout", "all_actions": False, **settings}), num_lanes, seed)


def minatar(seed=0, num_lanes=LANES, **settings):
    return make_minatar(MinAtarConfig(**{"game": "seaquest", **settings}), num_lanes, seed)


WORLDS = pytest.mark.parametrize("make", [atari, minatar])


def play(lanes, steps, seed=0, first=None):
    """Random actions with restarts: all that could be seen, as one list of arrays."""
    random = np.random.default_rng(seed)
    seen = [lanes.reset() if first is None else first]
    for _ in range(steps):
        step = lanes.step(random.integers(lanes.spec.num_actions, size=lanes.num_lanes))
        seen += list(step)
        if step.ended.any():
            seen.append(lanes.restart(step.ended))
    return seen


def play_to_an_end(lanes, seed=0):
    lanes.reset()
    random = np.random.default_rng(seed)
    while True:
        step = lanes.step(random.integers(lanes.spec.num_actions, size=lanes.num_lanes))
        if step.ended.any():
            return step


def same(these, those):
    return len(these) == len(those) and all(np.array_equal(a, b) for a, b in zip(these, those, strict=True))


@WORLDS
def test_observations_are_as_the_spec_says(make):
    lanes = make()
    step = (lanes.reset(), lanes.step(np.zeros(LANES, int)))[1]
    assert step.observation.shape == (LANES, *lanes.spec.observation_shape)
    assert step.observation.dtype == lanes.spec.observation_dtype
    assert step.reward.dtype == np.float32
    assert lanes.spec.num_actions == len(lanes.spec.action_names)
    assert isinstance(lanes, Lanes)


@WORLDS
def test_an_ended_lane_shows_its_last_observation_and_waits_to_be_restarted(make):
    lanes = make()
    step = play_to_an_end(lanes)
    ended = step.ended
    assert not ended.all()
    with pytest.raises(ValueError, match="restart comes before"):
        lanes.step(np.zeros(LANES, int))
    with pytest.raises(ValueError, match="has not ended"):
        lanes.restart(~ended)
    after = lanes.restart(ended)
    # The others are untouched; the ended one shows another episode's start: nothing was restarted in the step itself.
    assert np.array_equal(after[~ended], step.observation[~ended])
    assert not np.array_equal(after[ended], step.observation[ended])
    another = lanes.step(np.zeros(LANES, int))
    assert not another.terminated[ended].any()


@WORLDS
def test_what_was_handed_out_does_not_change_later(make):
    lanes = make()
    step = (lanes.reset(), lanes.step(np.zeros(LANES, int)))[1]
    copies = [part.copy() for part in step]
    lanes.step(np.ones(LANES, int))
    assert same(step, copies)


@WORLDS
def test_a_run_is_a_function_of_its_seed(make):
    np.random.seed(1)  # the global generator, which must not matter
    once = play(make(seed=5, sticky=0.25), 150)
    np.random.seed(2)
    assert same(once, play(make(seed=5, sticky=0.25), 150))
    assert not same(once, play(make(seed=6, sticky=0.25), 150))


@WORLDS
def test_lanes_differ_from_each_other_and_episodes_too(make):
    lanes = make(sticky=0.25)
    for _ in range(2):
        seen = [lanes.reset()]
        for action in np.random.default_rng(0).integers(lanes.spec.num_actions, size=60).tolist():
            step = lanes.step(np.full(LANES, action))
            if step.ended.any():
                break
            seen.append(step.observation)
        runs = np.stack(seen, axis=1)
        assert not np.array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[1], runs[2])
    first, second = make(sticky=0.25), make(sticky=0.25)
    second.reset()
    assert not same(play(first, 40), play(second, 40))


@WORLDS
def test_an_episode_does_not_depend_on_the_one_before(make):
    one, other = make(), make()
    play(one, 8, seed=1)
    play(other, 8, seed=2)
    assert same(play(one, 40, seed=3), play(other, 40, seed=3))


@WORLDS
def test_restored_lanes_go_on_bit_by_bit_the_same(make):
    lanes = make(sticky=0.25)
    play(lanes, 250)
    state = {name: value.copy() for name, value in lanes.state().items()}
    assert len(set(state["length"].tolist())) > 1
    assert len(state["finished_score"])
    other = make(sticky=0.25)
    other.restore(state)
    here = state["observation"]
    assert same(play(lanes, 150, seed=9, first=here), play(other, 150, seed=9, first=here))
    assert lanes.finished() == other.finished()
    assert same(lanes.state().values(), other.state().values())


@WORLDS
def test_lanes_that_have_ended_are_restored_as_ended(make):
    lanes = make()
    step = play_to_an_end(lanes)
    other = make()
    other.restore(lanes.state())
    with pytest.raises(ValueError, match="restart comes before"):
        other.step(np.zeros(LANES, int))
    assert np.array_equal(lanes.restart(step.ended), other.restart(step.ended))


@WORLDS
def test_a_state_from_elsewhere_is_refused(make):
    lanes = make()
    play(lanes, 60)
    state = lanes.state()
    with pytest.raises(UserError, match="lanes of seed"):
        make(seed=1).restore(state)
    with pytest.raises(UserError, match="lanes of seed"):
        make(num_lanes=1).restore(state)
    with pytest.raises(UserError, match="went another way"):
        make(sticky=0.5).restore(state)


@WORLDS
def test_finished_games_are_told_once_with_score_and_length(make):
    lanes = make()
    score, length, expected = np.zeros(LANES), np.zeros(LANES, int), []
    lanes.reset()
    random = np.random.default_rng(0)
    for _ in range(300):
        step = lanes.step(random.integers(lanes.spec.num_actions, size=LANES))
        score += step.reward
        length += 1
        expected += [(lane, score[lane], length[lane]) for lane in np.flatnonzero(step.ended)]
        score[step.ended], length[step.ended] = 0, 0
        lanes.restart(step.ended)
    told = lanes.finished()
    assert [(episode.lane, episode.score, episode.length) for episode in told] == expected
    assert [episode.episode for episode in told if episode.lane == 0] == list(range(sum(e[0] == 0 for e in expected)))
    assert len(told) > 1
    assert lanes.finished() == []


@WORLDS
def test_actions_that_do_not_exist_are_refused(make):
    lanes = make()
    lanes.reset()
    with pytest.raises(ValueError, match="numbers from 0"):
        lanes.step(np.full(LANES, lanes.spec.num_actions))
    with pytest.raises(ValueError, match="2 actions for 3 lanes"):
        lanes.step(np.zeros(2, int))
    assert lanes.state()["length"].tolist() == [0] * LANES


@WORLDS
def test_pictures_show_an_episode_and_disturb_nothing(make):
    lanes, other = make(), make()
    lanes.reset(), other.reset()
    for _ in range(5):
        lanes.step(np.ones(LANES, int))
        other.step(np.ones(LANES, int))
    pictures = np.stack(list(lanes.pictures(1, 0, b"\1" * 5)))
    assert pictures.shape[0] == 6
    assert pictures.dtype == np.uint8
    assert pictures.std() > 0
    assert same(lanes.step(np.ones(LANES, int)), other.step(np.ones(LANES, int)))


@pytest.mark.parametrize(("numbers", "message"), [((0, 0), "number of lanes"), ((1, -1), "seed is -1")])
def test_numbers_that_make_no_lanes_are_refused(numbers, message):
    for make, config in ((make_atari, AtariConfig()), (make_minatar, MinAtarConfig())):
        with pytest.raises(UserError, match=message):
            make(config, *numbers)
