"""Atari: all 57 games on the real emulator, its settings, and scores on a common scale."""

import importlib
import sys

import ale_py
import numpy as np
import pytest

from r2a.config import AtariConfig
from r2a.environments.atari import GAMES, human_normalised
from r2a.environments.atari.console import Console
from r2a.environments.atari.lanes import make_atari
from r2a.environments.atari.screen import shrink
from r2a.errors import UserError

HISTORY_LEAKS = ("amidar", "beam_rider", "qbert", "surround")
"""Games whose episodes depend on those before after a reset alone, or after loading a snapshot alone."""

WITHOUT_FIRE = ("skiing",)
"""Games in which the emulator lets nobody press the button."""


def begin(config, number=0):
    console = Console(config)
    console.begin(np.random.SeedSequence(number))
    return console


def film(console, actions):
    """What is seen and won along some actions."""
    return [(console.act(action), console.observation().tobytes()) for action in actions]


def random_actions(count, kinds, seed=0):
    return np.random.default_rng(seed).integers(kinds, size=count).tolist()


@pytest.mark.parametrize("game", GAMES)
def test_every_game_loads_moves_and_can_be_played_again(game):
    console = begin(AtariConfig(game=game))
    kinds = len(console.action_names)
    assert kinds == (9 if game in WITHOUT_FIRE else 18)
    assert console.action_names[0] == "NOOP"
    actions = random_actions(100, kinds)  # some stand still for the first seconds
    once = film(console, actions)
    assert len({screen for _, screen in once}) > 1
    assert console.observation().shape == (84, 84)
    assert console.observation().std() > 0
    console.begin(np.random.SeedSequence(0))
    assert film(console, actions) == once


def test_there_are_57_games_and_every_one_has_scores():
    assert len(GAMES) == 57
    for game in GAMES:
        assert human_normalised(game, 0.0) < human_normalised(game, 1.0)


def test_scores_are_normalised_by_chance_and_people():
    assert human_normalised("breakout", 1.7) == 0.0
    assert human_normalised("breakout", 30.5) == 1.0
    # The paper's table: 52268 points of R2D2 in Alien.
    assert human_normalised("alien", 52268.0) == pytest.approx((52268 - 227.8) / (7127.7 - 227.8))
    with pytest.raises(UserError, match="choose breakout"):
        human_normalised("brekout", 1.0)


@pytest.mark.parametrize("game", HISTORY_LEAKS)
def test_an_episode_does_not_depend_on_what_was_played_before(game):
    console, fresh = begin(AtariConfig(game=game)), begin(AtariConfig(game=game))
    expected = film(fresh, random_actions(60, 18))
    for past in (3, 100):
        for action in random_actions(past, 18, seed=past):
            console.act(action)
        console.begin(np.random.SeedSequence(0))
        assert film(console, random_actions(60, 18)) == expected


@pytest.mark.parametrize("game", ["pong", "seaquest"])
def test_frames_and_rewards_are_those_of_ale_pys_own_vector_environment(game):
    settings = dict(num_envs=1, stack_num=1, frameskip=4, maxpool=True, noop_max=2, use_fire_reset=False)
    upstream = ale_py.AtariVectorEnv(game, **settings, reward_clipping=False, repeat_action_probability=0.0)
    for seed in range(1, 20):
        _, info = upstream.reset(seed=seed)
        if info["frame_number"][0] == 1:
            break
    console = begin(AtariConfig(game=game, noops=1, all_actions=False))
    for action in random_actions(150, len(console.action_names)):
        observation, reward, terminated, *_ = upstream.step(np.array([action]))
        outcome = console.act(action)
        assert outcome.reward == reward[0]
        assert outcome.over == terminated[0]
        difference = observation[0, 0].astype(int) - console.observation()
        assert np.abs(difference).max() <= 1  # of 255: they round differently
        if outcome.over:
            break


def test_shrinking_takes_the_mean_of_an_area():
    screen = np.random.default_rng(0).integers(0, 256, (210, 160)).astype(np.uint8)
    fine = screen.astype(float).repeat(2, axis=0).repeat(21, axis=1)  # every small pixel lies in one pixel of either
    expected = fine.reshape(84, 5, 84, 40).mean(axis=(1, 3))
    assert np.abs(shrink(screen) - expected).max() <= 0.5001
    assert np.abs(shrink(screen, 42) - expected.reshape(42, 2, 42, 2).mean(axis=(1, 3))).max() <= 0.5001
    assert (shrink(np.full((210, 160), 255, np.uint8)) == 255).all()


def test_rewards_are_unclipped_by_default_and_scores_always():
    assert AtariConfig().clip_rewards is False
    raw, clipped = (
        make_atari(AtariConfig(game="ms_pacman", clip_rewards=clip, max_frames=600), 1, seed=0)
        for clip in (False, True)
    )
    raw.reset(), clipped.reset()
    wins = []
    for action in random_actions(150, 18):
        one, other = raw.step(np.array([action])), clipped.step(np.array([action]))
        wins.append(float(one.reward[0]))
        assert other.reward[0] == np.sign(one.reward[0])
    assert max(wins) >= 10
    assert raw.finished() == clipped.finished()
    assert raw.state()["score"][0] == sum(wins)


def test_actions_stick_only_if_told_to():
    assert AtariConfig().sticky == 0.0
    actions = random_actions(80, 18)

    def films(sticky):
        config = AtariConfig(game="seaquest", noops=1, sticky=sticky)
        return [film(begin(config, number), actions) for number in (0, 1)]

    plain, other_seed = films(0.0)
    assert plain == other_seed
    sticky, other_seed = films(0.25)
    assert sticky != other_seed
    assert sticky != plain
    assert films(0.25)[0] == sticky


def test_the_start_is_up_to_thirty_frames_late():
    frames = set()
    console = Console(AtariConfig())
    for number in range(60):
        console.begin(np.random.SeedSequence(number))
        frames.add(console._ale.getEpisodeFrameNumber())
    assert min(frames) == 1
    assert max(frames) == 30


def test_an_episode_is_truncated_after_its_frames_and_can_be_bootstrapped_from():
    lanes = make_atari(AtariConfig(max_frames=41), 2, seed=0)
    lanes.reset()
    for number in range(1, 11):
        step = lanes.step(np.array([1, 3]))
        assert step.truncated.tolist() == [number == 10] * 2
        assert not step.terminated.any()
    assert [episode.length for episode in lanes.finished()] == [10, 10]
    assert AtariConfig().max_frames // AtariConfig().frame_skip == 27_000


def lives_of_a_game(life_ends_episode):
    """Ends that are seen in one game of Breakout, and what is told of it."""
    lanes = make_atari(AtariConfig(life_ends_episode=life_ends_episode, all_actions=False), 1, seed=0)
    lanes.reset()
    ends = 0
    for action in random_actions(2000, 4):
        step = lanes.step(np.array([action]))
        if step.terminated[0]:
            ends += 1
            if told := lanes.finished():
                return ends, told
            assert np.array_equal(lanes.restart(step.ended), step.observation)  # the game goes on
    raise AssertionError("the game did not end")


def test_a_lost_life_ends_the_episode_only_if_told_to_and_never_the_score():
    assert AtariConfig().life_ends_episode is False
    (one, whole), (five, by_lives) = lives_of_a_game(False), lives_of_a_game(True)
    assert (one, five) == (1, 5)
    assert whole == by_lives


def test_the_small_set_of_actions_is_the_games_own():
    names = begin(AtariConfig(game="breakout", all_actions=False)).action_names
    assert names == ("NOOP", "FIRE", "RIGHT", "LEFT")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noops": 0}, "atari.noops is 0"),
        ({"frame_skip": 0}, "atari.frame-skip is 0"),
        ({"sticky": 1.0}, "atari.sticky is 1.0"),
        ({"max_frames": 3}, "atari.max-frames is 3"),
    ],
)
def test_settings_that_make_no_game_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        AtariConfig(**settings)


@pytest.mark.parametrize(
    ("game", "advice"), [("MsPacman", "ms_pacman"), ("space-invader", "space_invaders"), ("zzz", "57")]
)
def test_an_unknown_game_is_told_what_comes_close(game, advice):
    with pytest.raises(UserError, match=rf"atari.game is '{game}'.*{advice}"):
        Console(AtariConfig(game=game))


def test_without_ale_py_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.delitem(sys.modules, "r2a.environments.atari.console")
    with pytest.raises(UserError, match=r"pip install 'r2a\[atari\]'"):
        importlib.import_module("r2a.environments.atari.console")
