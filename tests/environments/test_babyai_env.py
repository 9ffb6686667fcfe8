"""Every level against real minigrid: the same missions, observations, rewards and ends, seed for seed."""

from __future__ import annotations

import contextlib
import io

import gymnasium
import numpy as np
import pytest
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling

from r2a.environments.api import NoEpisodeError, seed_number
from r2a.environments.babyai import BabyAISettings
from r2a.environments.babyai.env import BabyAI
from r2a.environments.babyai.levels import LEVEL_NAMES, LEVELS
from r2a.environments.babyai.missions import OUR_OWN, CannotDrawError, make_mission
from r2a.environments.babyai.view import LARGEST_WORLD
from r2a.environments.babyai.vocabulary import as_text
from r2a.errors import UserError

# Unlock and GoToImpUnlock have missions that nobody can solve; ours are drawn anew there.
REDRAWN = ("Unlock", "GoToImpUnlock")
# Likelihoods of left, right, forward, pickup, drop, toggle, done: an agent that gets about.
WANDERING = (0.15, 0.15, 0.3, 0.13, 0.12, 0.14, 0.01)
ENDLESS = BabyAISettings(max_steps=10_000)
"""Cut off by minigrid alone."""
LEFT = 0
ROWS = 2


def minigrids_own(name):
    """The level as minigrid itself has it (or as our own class, without any of our changes)."""
    minigrid_id = LEVELS[name]
    if minigrid_id is None:
        level_class, settings = OUR_OWN[name]
        return level_class(**settings)
    return gymnasium.make(minigrid_id, disable_env_checker=True).unwrapped


def start(reference, seed):
    with contextlib.redirect_stdout(io.StringIO()):
        return reference.reset(seed=seed)[0]


def flat(observation):
    return np.append(observation["image"].reshape(-1), observation["direction"]).astype(np.uint8)


@pytest.mark.parametrize("name", LEVEL_NAMES)
def test_random_steps_are_minigrids(name):
    generator = np.random.default_rng(LEVEL_NAMES.index(name))
    references = [minigrids_own(name) for _ in range(ROWS)]
    env = BabyAI(ENDLESS, ROWS)
    assert references[0].width <= LARGEST_WORLD
    assert references[0].action_space.n == 7
    seeds = generator.integers(2**31, size=ROWS).tolist()
    now = env.reset([name] * ROWS, seeds)
    first = [start(reference, seed) for reference, seed in zip(references, seeds, strict=True)]
    alive = [row for row in range(ROWS) if first[row]["mission"] == env.missions[row].mission]
    assert name in REDRAWN or len(alive) == ROWS
    for row in alive:
        assert as_text(now.instruction[row]) == first[row]["mission"]
        assert env.missions[row].max_steps == references[row].max_steps
        np.testing.assert_array_equal(now.observation[row], flat(first[row]))
    for _ in range(150):
        actions = generator.choice(7, ROWS, p=WANDERING)
        now = env.step(actions)
        for row in list(alive):
            theirs, paid, ended, cut, _ = references[row].step(int(actions[row]))
            np.testing.assert_array_equal(now.observation[row], flat(theirs))
            assert (now.reward[row], now.terminated[row]) == (np.float32(paid), ended)
            assert now.truncated[row] == (cut and not ended)
            assert (now.discount[row], now.scores[row, 0]) == (1.0 - ended, float(paid > 0))
            if ended or cut:
                alive.remove(row)


@pytest.mark.parametrize("name", LEVEL_NAMES)
def test_the_steps_of_a_noisy_expert_are_minigrids(play_bot, name):
    reference = minigrids_own(name)
    played = 0
    for seed in range(100, 103):
        episode = play_bot(name, seed, 0.2, max_steps=150)
        first = start(reference, seed)
        if isinstance(episode, NoEpisodeError):
            continue
        if name in REDRAWN and first["mission"] != as_text(episode.instruction):
            continue
        assert as_text(episode.instruction) == first["mission"]
        np.testing.assert_array_equal(episode.observation[0], flat(first))
        for moment, action in enumerate(episode.action.tolist()):
            theirs, paid, ended, _, _ = reference.step(action)
            np.testing.assert_array_equal(episode.observation[moment + 1], flat(theirs))
            assert episode.reward[moment] == np.float32(paid)
            assert ended == (episode.terminated and moment == len(episode.action) - 1)
        played += 1
    assert played >= 2


def test_rows_may_have_any_levels_and_change_them():
    env, seeds = BabyAI(ENDLESS, 40), [7] * 40
    together = env.reset(LEVEL_NAMES, seeds)
    np.testing.assert_array_equal(env.reset(LEVEL_NAMES[::-1], seeds).observation, together.observation[::-1])
    alone = BabyAI(ENDLESS, 1)
    for row, name in enumerate(LEVEL_NAMES):
        now = alone.reset([name], [7])
        np.testing.assert_array_equal(now.observation[0], together.observation[row])
        np.testing.assert_array_equal(now.instruction[0], together.instruction[row])


def test_an_episode_is_cut_off_after_its_steps_or_by_minigrid():
    for longest, ours in ((3, 3), (10_000, 5)):
        env = BabyAI(BabyAISettings(max_steps=longest), 1)
        env.reset(["GoToObj"], [0])
        env.missions[0].max_steps = 5
        cuts = [env.step(np.array([LEFT])).truncated[0] for _ in range(ours)]
        assert cuts == [False] * (ours - 1) + [True]
        assert env.missions[0].step_count == ours


def test_a_seed_of_several_numbers_is_one_for_minigrid():
    env, mission = BabyAI(ENDLESS, 1), make_mission("BossLevel")
    env.reset(["BossLevel"], [(3, 1, 4)])
    mission.draw(seed_number((3, 1, 4)))
    assert env.missions[0].mission == mission.mission
    assert env.missions[0].np_random_seed == seed_number((3, 1, 4))  # no other seed was needed


def test_pictures_are_minigrids():
    env, reference = BabyAI(ENDLESS, 2), minigrids_own("UnlockPickup")
    env.reset(["GoToObj", "UnlockPickup"], [0, 3])
    env.step(np.array([LEFT, LEFT]))
    start(reference, 3)
    reference.step(LEFT)
    np.testing.assert_array_equal(env.render(1), reference.get_frame())
    assert env.render(0).shape == (8 * 32, 8 * 32, 3)


def test_drawing_prints_nothing(capfd):
    env = BabyAI(ENDLESS, 40)
    for name in ("PutNextLocal", "PickupLoc"):
        env.reset([name] * 40, range(40))
    assert capfd.readouterr() == ("", "")
    reference = minigrids_own("PutNextLocal")
    for seed in range(40):
        reference.reset(seed=seed)
    assert "Sampling rejected" in capfd.readouterr().out  # so there was something to be silent about


def test_missions_nobody_can_solve_are_drawn_anew():
    level = "GoToImpUnlock"
    reference, ours = minigrids_own(level), make_mission(level)
    redrawn = 0
    for seed in range(25):
        mission = start(reference, seed)["mission"]
        unsolvable = not is_solvable(level, seed)
        ours.draw(seed)
        assert unsolvable or ours.mission == mission
        redrawn += unsolvable
        assert ours.np_random_seed == seed  # the seed's own stream goes on: no other seed was needed
    assert redrawn > 0


def is_solvable(level, seed):
    """Whether minigrid's own first draw that it accepts for this seed passes our test."""
    mission = make_mission(level)
    rejected = []

    def note():
        try:
            type(mission)._require_solvable(mission)
        except RejectSampling:
            rejected.append(seed)

    mission._require_solvable = note
    mission.draw(seed)
    return not rejected


def test_a_seed_without_a_mission_gives_way_to_the_next():
    mission = make_mission("GoToObj")
    draws = []

    def never(keep=mission.gen_mission):
        draws.append(1)
        if len(draws) <= 1_500:
            raise RecursionError
        keep()

    mission.gen_mission = never
    mission.draw(3)
    assert mission.np_random_seed == 4
    assert len(draws) == 1_501
    mission.gen_mission = lambda: (_ for _ in ()).throw(RecursionError)
    with pytest.raises(CannotDrawError, match="any of the 20 seeds from 3 on") as caught:
        mission.draw(3)
    assert isinstance(caught.value, NoEpisodeError)


def test_settings_that_make_no_mission_are_refused():
    with pytest.raises(UserError, match=r"env\.max-steps is 0"):
        BabyAISettings(max_steps=0)
