"""MinAtar: its five games, against the package's own wrapper of them."""

import sys

import minatar
import numpy as np
import pytest

from r2a.config import MinAtarConfig
from r2a.environments.minatar import GAMES
from r2a.environments.minatar.board import Board
from r2a.environments.minatar.lanes import make_minatar
from r2a.errors import UserError

CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}


@pytest.mark.parametrize("game", GAMES)
def test_a_game_is_played_by_the_packages_rules(game):
    lanes = make_minatar(MinAtarConfig(game=game), 1, seed=3)
    first = lanes.reset()
    assert first.shape == (1, 10, 10, CHANNELS[game])
    assert first.dtype == bool
    upstream = minatar.Environment(game)
    upstream.random = upstream.env.random = np.random.RandomState(
        np.random.MT19937(np.random.SeedSequence(3, spawn_key=(0, 0)))
    )
    upstream.reset()
    assert np.array_equal(upstream.state(), first[0])
    for action in np.random.default_rng(0).integers(6, size=300).tolist():
        reward, over = upstream.act(action)
        step = lanes.step(np.array([action]))
        assert np.array_equal(upstream.state(), step.observation[0])
        assert (reward, over) == (step.reward[0], step.terminated[0])
        if over:
            break


def test_the_last_action_does_not_stick_into_the_next_episode():
    fresh, used = (Board(MinAtarConfig(sticky=0.9)) for _ in range(2))
    for _ in range(3):
        used.act(3)
    for board in (fresh, used):
        board.begin(np.random.SeedSequence(0))
        for _ in range(4):
            board.act(1)
    assert np.array_equal(fresh.observation(), used.observation())


def test_defaults_are_the_packages():
    assert (MinAtarConfig().sticky, MinAtarConfig().ramping) == (0.1, True)


@pytest.mark.parametrize("game", GAMES)
def test_the_small_set_of_actions_is_the_games_own(game):
    board = Board(MinAtarConfig(game=game, all_actions=False))
    assert board.action_names[0] == "NOOP"
    assert len(board.action_names) == len(minatar.Environment(game).minimal_action_set())


def test_games_get_harder_only_if_told_to():
    calm, ramping = (Board(MinAtarConfig(game="asterix", ramping=ramp, sticky=0.0)) for ramp in (False, True))
    assert calm._game.ramping is False
    assert ramping._game.ramping is True


def test_an_episode_is_truncated_after_its_steps():
    lanes = make_minatar(MinAtarConfig(game="freeway", max_steps=7), 2, seed=0)
    lanes.reset()
    for number in range(1, 8):
        step = lanes.step(np.zeros(2, int))
        assert step.truncated.tolist() == [number == 7] * 2
        assert not step.terminated.any()


def test_pictures_have_a_colour_for_every_kind_of_thing():
    lanes = make_minatar(MinAtarConfig(game="seaquest"), 1, seed=0)
    picture = list(lanes.pictures(0, 0, b"\0"))[-1]
    assert picture.shape == (160, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) >= 4  # nothing, the submarine's two ends, oxygen


def test_an_unknown_game_is_told_all_five():
    with pytest.raises(UserError, match="asterix or breakout or freeway or seaquest or space_invaders"):
        Board(MinAtarConfig(game="pong"))


def test_settings_that_make_no_game_are_refused():
    with pytest.raises(UserError, match=r"minatar\.max-steps is 0"):
        MinAtarConfig(max_steps=0)
    with pytest.raises(UserError, match=r"minatar\.sticky is -0\.1"):
        MinAtarConfig(sticky=-0.1)


def test_without_minatar_the_install_line_is_told(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "minatar"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(UserError, match=r"pip install 'r2a\[minatar\]'"):
        Board(MinAtarConfig())
