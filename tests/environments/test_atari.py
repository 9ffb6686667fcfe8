"""Atari: all 57 games on the real emulator, its settings, and scores on a common scale."""

import ale_py
import numpy as np
import pytest

from r2a.environments.atari import AtariSettings
from r2a.environments.atari.env import AtariEnv
from r2a.environments.atari.scores import GAMES, human_normalised
from r2a.environments.atari.screen import shrink
from r2a.environments.registry import make
from r2a.errors import UserError

HISTORY_LEAKS = ("amidar", "beam_rider", "qbert", "surround")
"""Games whose episodes depend on those before after a reset alone, or after loading a snapshot alone."""

WITHOUT_FIRE = ("skiing",)
"""Games in which the emulator lets nobody press the button."""


def begin(config, number=0):
    env = AtariEnv(config)
    env.reset(seed=np.random.SeedSequence(number))
    return env


def film(env, actions):
    """What is seen and won along some actions."""
    steps = [env.step(action) for action in actions]
    return [(seen.tobytes(), reward, over) for seen, reward, over, *_ in steps]


def random_actions(count, kinds, seed=0):
    return np.random.default_rng(seed).integers(kinds, size=count).tolist()


@pytest.mark.parametrize("game", GAMES)
def test_every_game_loads_moves_and_can_be_played_again(game):
    env = begin(AtariSettings(game=game))
    kinds = len(env.action_names)
    assert kinds == env.action_space.n == (9 if game in WITHOUT_FIRE else 18)
    assert env.action_names[0] == "NOOP"
    actions = random_actions(100, kinds)  # some stand still for the first seconds
    once = film(env, actions)
    assert len({screen for screen, *_ in once}) > 1
    assert env.observation().shape == (84, 84)
    assert env.observation().std() > 0
    env.reset(seed=np.random.SeedSequence(0))
    assert film(env, actions[:60]) == once[:60]
    if game in HISTORY_LEAKS:
        for past in (3, 100):
            film(env, random_actions(past, kinds, seed=past))
            env.reset(seed=np.random.SeedSequence(0))
            assert film(env, actions[:60]) == once[:60]


def test_there_are_57_games_and_every_one_has_scores():
    assert len(GAMES) == 57
    for game in GAMES:
        assert human_normalised(game, 0.0) < human_normalised(game, 1.0)


def test_scores_are_normalised_by_chance_and_people():
    assert human_normalised("breakout", 1.7) == 0.0
    assert human_normalised("breakout", 30.5) == 1.0
    # The paper's table: 52268 points of R2D2 in Alien.
    assert human_normalised("alien", 52268.0) == pytest.approx((52268 - 227.8) / (7127.7 - 227.8))
    with pytest.raises(UserError, match="did you mean breakout"):
        human_normalised("brekout", 1.0)


@pytest.mark.parametrize("game", ["pong", "seaquest"])
def test_frames_and_rewards_are_those_of_ale_pys_own_vector_environment(game):
    settings = dict(num_envs=1, stack_num=1, frameskip=4, maxpool=True, noop_max=2, use_fire_reset=False)
    upstream = ale_py.AtariVectorEnv(game, **settings, reward_clipping=False, repeat_action_probability=0.0)
    for seed in range(1, 20):
        _, info = upstream.reset(seed=seed)
        if info["frame_number"][0] == 1:
            break
    env = begin(AtariSettings(game=game, noops=1, all_actions=False))
    for action in random_actions(150, len(env.action_names)):
        theirs, paid, ended, *_ = upstream.step(np.array([action]))
        seen, reward, over, *_ = env.step(action)
        assert reward == paid[0]
        assert over == ended[0]
        assert np.abs(theirs[0, 0].astype(int) - seen).max() <= 1  # of 255: they round differently
        if over:
            break


def test_shrinking_takes_the_mean_of_an_area():
    screen = np.random.default_rng(0).integers(0, 256, (210, 160)).astype(np.uint8)
    fine = screen.astype(float).repeat(2, axis=0).repeat(21, axis=1)  # every small pixel lies in one pixel of either
    expected = fine.reshape(84, 5, 84, 40).mean(axis=(1, 3))
    assert np.abs(shrink(screen) - expected).max() <= 0.5001
    assert np.abs(shrink(screen, 42) - expected.reshape(42, 2, 42, 2).mean(axis=(1, 3))).max() <= 0.5001
    assert (shrink(np.full((210, 160), 255, np.uint8)) == 255).all()


def test_pictures_are_the_screen_in_colour():
    env = make("atari", AtariSettings(image_size=42), 1, render=True)
    seen = env.reset(["breakout"], [0])
    assert seen.observation.shape == (1, 42, 42)
    picture = env.render(0)
    assert picture.shape == (210, 160, 3)
    assert (picture[..., 0] != picture[..., 2]).any()
    plain = make("atari", AtariSettings(), 1)
    plain.reset(["breakout"], [0])
    with pytest.raises(UserError, match="atari draws no pictures"):
        plain.render(0)


def test_rewards_are_unclipped_by_default_and_scores_always():
    assert AtariSettings().clip_rewards is False
    raw, clipped = (
        make("atari", AtariSettings(game="ms_pacman", clip_rewards=clip, max_frames=600), 1) for clip in (False, True)
    )
    for env in (raw, clipped):
        assert env.spec.scores == ("score", "human_normalised")
        env.reset(["ms_pacman"], [0])
    won = []
    for action in random_actions(150, 18):
        one, other = raw.step(np.array([action])), clipped.step(np.array([action]))
        won.append(float(one.reward[0]))
        assert other.reward[0] == np.sign(one.reward[0])
        assert one.scores.tolist() == other.scores.tolist() == [[sum(won), human_normalised("ms_pacman", sum(won))]]
    assert max(won) >= 10
    assert one.truncated[0]
    assert other.truncated[0]


def test_actions_stick_only_if_told_to():
    assert AtariSettings().sticky == 0.0
    actions = random_actions(80, 18)

    def films(sticky):
        env, played = AtariEnv(AtariSettings(game="seaquest", noops=1, sticky=sticky)), []
        for number in (0, 1, 0):
            env.reset(seed=np.random.SeedSequence(number))
            played.append(film(env, actions))
        return played

    plain, other_seed, _ = films(0.0)
    assert plain == other_seed
    sticky, other_seed, again = films(0.25)
    assert sticky != other_seed
    assert sticky != plain
    assert sticky == again


def test_the_start_is_up_to_thirty_frames_late():
    frames = set()
    env = AtariEnv(AtariSettings())
    for number in range(60):
        env.reset(seed=np.random.SeedSequence(number))
        frames.add(env._ale.getEpisodeFrameNumber())
    assert min(frames) == 1
    assert max(frames) == 30


def test_an_episode_is_truncated_after_its_frames_and_can_be_bootstrapped_from():
    env = make("atari", AtariSettings(max_frames=41), 2)
    env.reset(["breakout"] * 2, [0, 1])
    for number in range(1, 11):
        now = env.step(np.array([1, 3]))
        assert now.truncated.tolist() == [number == 10] * 2
        assert not now.terminated.any()
        assert now.discount.tolist() == [1.0, 1.0]
    assert AtariSettings().max_frames // AtariSettings().frame_skip == 27_000


def test_a_lost_life_counts_as_an_end_for_learning_if_told_to_and_the_game_goes_on():
    assert AtariSettings().life_ends_episode is False
    whole, by_lives = (
        make("atari", AtariSettings(life_ends_episode=ends, all_actions=False), 1) for ends in (False, True)
    )
    for env in (whole, by_lives):
        env.reset(["breakout"], [0])
    discounts = []
    for action in random_actions(2000, 4):
        one, other = whole.step(np.array([action])), by_lives.step(np.array([action]))
        discounts.append((one.discount[0], other.discount[0]))
        for name in ("observation", "reward", "terminated", "truncated", "scores"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        if one.terminated[0]:
            break
    assert one.terminated[0]
    ends = (1 - np.array(discounts)).sum(0)
    assert ends.tolist() == [1, 5]  # the game's end, and that of each of its five lives
    assert discounts[-1] == (0.0, 0.0)
    assert one.scores[0, 0] > 0


def test_the_small_set_of_actions_is_the_games_own():
    assert AtariEnv(AtariSettings(all_actions=False)).action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noops": 0}, "env.noops is 0"),
        ({"frame_skip": 0}, "env.frame-skip is 0"),
        ({"sticky": 1.0}, "env.sticky is 1.0"),
        ({"max_frames": 3}, "env.max-frames is 3"),
    ],
)
def test_settings_that_make_no_game_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        AtariSettings(**settings)


@pytest.mark.parametrize(
    ("game", "advice"), [("MsPacman", "ms_pacman"), ("space-invader", "space_invaders"), ("zzz", "alien, amidar")]
)
def test_an_unknown_game_is_told_what_comes_close(game, advice):
    with pytest.raises(UserError, match=rf"no Atari game '{game}'.*{advice}"):
        make("atari", AtariSettings(game=game))
