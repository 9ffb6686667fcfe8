"""The expert bot: it solves every level, recovers from noise, and always comes to an end."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from minigrid.utils.baby_ai_bot import Subgoal

from r2a.environments.babyai.expert import MOST_CHANGES_OF_PLAN, ExpertBot, LostError
from r2a.environments.babyai.levels import LEVEL_NAMES
from r2a.environments.babyai.missions import Mission, make_mission
from r2a.environments.babyai.vocabulary import as_text
from r2a.training.collect import OutOfTimeError, time_limit
from r2a.training.rollout import Episode

TOGGLE, DONE = 5, 6
ENDLESS = 2_000


def solved(outcomes):
    return [outcome for outcome in outcomes if isinstance(outcome, Episode) and outcome.scores[0]]


@pytest.mark.parametrize("name", LEVEL_NAMES)
def test_the_bot_solves_most_seeds(play_bot, name):
    episodes = solved(play_bot(name, seed, 0.0, ENDLESS) for seed in range(4))
    assert len(episodes) >= 3
    for episode in episodes:
        assert episode.terminated
        assert 0 < episode.reward[-1] <= 1
        assert not episode.reward[:-1].any()
        assert len(episode.observation) == len(episode.action) + 1
        assert episode.action.max() < DONE


@pytest.mark.parametrize("name", ["UnlockToUnlock", "KeyInBox", "GoToSeq", "OpenDoorsOrderN4", "PutNextS7N4"])
def test_the_bot_recovers_from_random_actions(play_bot, name):
    outcomes = [play_bot(name, seed, 0.3, ENDLESS) for seed in range(6)]
    assert len(solved(outcomes)) >= 4
    assert {type(outcome) for outcome in outcomes} <= {Episode, LostError}


def test_an_episode_is_a_function_of_level_seed_and_noise(play_bot):
    first, again, other = (play_bot("UnlockPickupDist", 5, noise) for noise in (0.5, 0.5, 0.0))
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(first.observation[0], other.observation[0])  # the noise does not draw the mission
    assert as_text(first.instruction) == as_text(other.instruction)
    assert first.action.tolist() != other.action.tolist()


def test_pure_noise_asks_nobody_and_takes_every_action(play_bot):
    def nobody(mission: Mission) -> ExpertBot:
        raise AssertionError("nobody was to be asked")

    episode = play_bot("KeyCorridor", 0, 1.0, 300, make_bot=nobody)
    assert set(episode.action.tolist()) == set(range(DONE + 1))
    np.testing.assert_allclose(np.bincount(episode.action) / 300, 1 / 7, atol=0.08)


def test_a_long_episode_is_cut_off_not_ended(play_bot):
    episode = play_bot("KeyCorridor", 0, 0.0, 10)
    assert len(episode.action) == 10
    assert not episode.terminated
    assert not solved([episode])


class EndlessBot(ExpertBot):
    """One of those that never answer."""

    def replan(self, action_taken=None):
        while True:
            pass


def test_an_endless_loop_is_interrupted(play_bot):
    limit, start = 0.3, time.process_time()
    outcome = play_bot("GoToObj", 0, 0.0, limit_seconds=limit, make_bot=EndlessBot)
    assert isinstance(outcome, OutOfTimeError)
    assert outcome.reason == "out of time"
    assert limit * 0.5 < time.process_time() - start < limit + 1
    # The alarm is switched off again: longer work afterwards is not disturbed.
    stop = time.process_time() + limit * 1.5
    while time.process_time() < stop:
        pass
    assert solved([play_bot("GoToObj", 0, 0.0)])


def test_the_time_limit_says_that_it_needs_the_main_thread():
    problems: list[Exception] = []

    def work() -> None:
        try:
            with time_limit(1.0):
                pass
        except ValueError as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread" in str(problems[0])


def drawn(name: str, seed: int = 0) -> Mission:
    mission = make_mission(name)
    mission.draw(seed)
    return mission


def test_a_plan_that_goes_in_circles_is_given_up():
    calls = []

    class Circling(Subgoal):
        def replan_before_action(self):
            calls.append(1)

    bot = ExpertBot(drawn("GoToObj"))
    bot.stack.append(Circling(bot))
    with pytest.raises(LostError, match="in circles"):
        bot.replan()
    assert len(calls) == MOST_CHANGES_OF_PLAN


def test_a_mission_whose_box_is_gone_is_lost():
    """Opening the box that is to be picked up leaves nothing to pick up."""
    mission = drawn("UnlockPickup")
    box = mission.instrs.desc.obj_set[0]
    mission.grid.set(*box.cur_pos, None)
    bot = ExpertBot(mission)
    with pytest.raises(LostError, match="is gone"):
        bot.advise(None)


def test_a_bot_without_a_plan_says_why(play_bot):
    class Hopeless(ExpertBot):
        def replan(self, action_taken=None):
            raise AssertionError("no plan")

    outcome = play_bot("GoToObj", 0, 0.0, make_bot=Hopeless)
    assert isinstance(outcome, LostError)
    assert (outcome.reason, str(outcome)) == ("bot lost", "AssertionError: no plan")


def test_the_key_is_fetched_from_its_box(play_bot):
    episode = play_bot("KeyInBox", 1, 0.0)
    assert solved([episode])
    assert np.count_nonzero(episode.action == TOGGLE) == 2  # the box, then the door
