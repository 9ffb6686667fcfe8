"""MinAtar: its five games, against the package's own wrapper of them."""

import minatar
import numpy as np
import pytest

from r2a.environments.minatar import GAMES, MinAtarSettings
from r2a.environments.minatar.env import MinAtarEnv
from r2a.environments.registry import make
from r2a.errors import UserError

CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_played_by_the_packages_rules(game):
    env = make("minatar", MinAtarSettings(game=game), 1)
    assert env.spec.tasks == (game,)
    now = env.reset([game], [(3, 0, 1)])
    assert now.observation.shape == (1, 10, 10, CHANNELS[game])
    assert now.observation.dtype == bool
    upstream = minatar.Environment(game)
    upstream.random = upstream.env.random = np.random.RandomState(
        np.random.MT19937(np.random.SeedSequence(3, spawn_key=(0, 1)))
    )
    upstream.reset()
    assert np.array_equal(upstream.state(), now.observation[0])
    score = 0.0
    for action in np.random.default_rng(0).integers(6, size=300).tolist():
        reward, over = upstream.act(action)
        now = env.step(np.array([action]))
        score += reward
        assert np.array_equal(upstream.state(), now.observation[0])
        assert (reward, over, score) == (now.reward[0], now.terminated[0], now.scores[0, 0])
        if over:
            break


def test_the_last_action_does_not_stick_into_the_next_episode():
    fresh, used = (MinAtarEnv(MinAtarSettings(sticky=0.9)) for _ in range(2))
    used.reset(seed=1)
    for _ in range(3):
        used.step(3)
    for env in (fresh, used):
        env.reset(seed=np.random.SeedSequence(0))
        for _ in range(4):
            env.step(1)
    assert np.array_equal(fresh.observation(), used.observation())


def test_defaults_are_the_packages():
    assert (MinAtarSettings().sticky, MinAtarSettings().ramping) == (0.1, True)


@pytest.mark.parametrize("game", GAMES)
def test_the_small_set_of_actions_is_the_games_own(game):
    spec = make("minatar", MinAtarSettings(game=game, all_actions=False)).spec
    assert spec.action_names[0] == "NOOP"
    assert spec.action_size == len(spec.action_names) == len(minatar.Environment(game).minimal_action_set())


def test_games_get_harder_only_if_told_to():
    calm, ramping = (MinAtarEnv(MinAtarSettings(game="asterix", ramping=ramp, sticky=0.0)) for ramp in (False, True))
    assert calm._game.ramping is False
    assert ramping._game.ramping is True


def test_an_episode_is_truncated_after_its_steps_and_can_be_bootstrapped_from():
    env = make("minatar", MinAtarSettings(game="freeway", max_steps=7), 2)
    env.reset(["freeway"] * 2, [0, 1])
    for number in range(1, 8):
        now = env.step(np.zeros(2, int))
        assert now.truncated.tolist() == [number == 7] * 2
        assert not now.terminated.any()
        assert now.discount.tolist() == [1.0, 1.0]


def test_pictures_have_a_colour_for_every_kind_of_thing():
    env = make("minatar", MinAtarSettings(game="seaquest"), 1)
    env.reset(["seaquest"], [0])
    picture = env.render(0)
    assert picture.shape == (160, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) >= 4  # nothing, the submarine's two ends, oxygen


@pytest.mark.parametrize(
    ("game", "advice"),
    [("pong", "asterix, breakout, freeway, seaquest, space_invaders"), ("space-invader", "space_invaders")],
)
def test_an_unknown_game_is_told_what_there_is(game, advice):
    with pytest.raises(UserError, match=f"no MinAtar game '{game}'.*{advice}"):
        make("minatar", MinAtarSettings(game=game))


def test_settings_that_make_no_game_are_refused():
    with pytest.raises(UserError, match=r"env\.max-steps is 0"):
        MinAtarSettings(max_steps=0)
    with pytest.raises(UserError, match=r"env\.sticky is -0\.1"):
        MinAtarSettings(sticky=-0.1)
