"""CausalWorld: the layout of observations, the fingers' geometry, and the scripted expert."""

from __future__ import annotations

import logging
import sys

import gymnasium
import numpy as np
import pytest

from r2a.environments.causalworld import CausalWorldExpert, CausalWorldSettings, expert, kinematics, layout
from r2a.environments.causalworld.env import ActionError, CausalWorldEnv
from r2a.environments.causalworld.expert import STALL, STALLED, Expert, advise
from r2a.environments.causalworld.grasp import Grasp, coverage
from r2a.environments.causalworld.tasks import SOLVED, TASK_NAMES, TASKS, solved
from r2a.environments.registry import check_data, make_here, spec_of
from r2a.errors import UserError
from r2a.training.rollout import View, play


@pytest.fixture(scope="module")
def worlds():
    made: dict[str, CausalWorldEnv] = {}

    def world(task: str) -> CausalWorldEnv:
        if task not in made:
            made[task] = CausalWorldEnv(task)
        return made[task]

    yield world
    for environment in made.values():
        environment.close()


def test_nobody_else_notices_the_import(worlds):
    worlds("pushing")
    assert "gym" not in sys.modules
    assert logging.getLogger().level != logging.INFO
    before = np.random.get_state()[1].copy()
    worlds("pushing").reset(seed=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_layout_against_the_state_of_causal_world(worlds, task):
    environment = worlds(task)
    environment.reset(seed=1)
    observation = environment.step(np.full(9, 0.1))[0]
    state = environment._world.get_current_state_variables()
    assert observation[0] == np.float32(1 - 2 / environment.max_steps)
    np.testing.assert_allclose(observation[1], 2 * (state["joint_positions"][0] + 1.57) / 2.57 - 1, atol=1e-6)
    np.testing.assert_allclose(observation[10:19], state["joint_velocities"], atol=1e-6)
    blocks = [name for name in environment._world.get_stage().get_rigid_objects() if name != "obstacle"]
    for index, name in enumerate(blocks):
        block = observation[28 + 18 * index :][:18]
        goal = observation[64 + 12 * index :][:12]
        theirs = state[name.replace("tool", "goal")]
        assert block[0] == goal[0] == 1
        np.testing.assert_allclose(block[2:5], np.asarray(state[name]["size"]) / 0.065 - 1, atol=1e-6)
        np.testing.assert_allclose(block[5:7], 10 * state[name]["cartesian_position"][:2], atol=1e-6)
        np.testing.assert_allclose(block[7], 10 * state[name]["cartesian_position"][2] - 1, atol=1e-6)
        np.testing.assert_allclose(block[8:12], state[name]["orientation"], atol=1e-6)
        np.testing.assert_allclose(block[12:15], np.clip(state[name]["linear_velocity"] / 0.1, -10, 10), atol=1e-6)
        np.testing.assert_allclose(goal[5:7], 10 * theirs["cartesian_position"][:2], atol=1e-6)
    assert len(blocks) == (2 if task in ("stacking2", "stacked_blocks") else 1)
    if len(blocks) == 1:
        assert not observation[46:64].any()
        assert not observation[76:88].any()
    assert observation[88] == (task == "pick_and_place")
    assert observation[88:100].any() == (task == "pick_and_place")


def test_reading_an_observation_undoes_the_layout(worlds):
    environment = worlds("stacked_blocks")
    scene = layout.read(environment.reset(seed=2)[0])
    stage = environment._world.get_stage()
    for block, item in zip(scene.blocks, stage.get_rigid_objects().values(), strict=True):
        np.testing.assert_allclose(block.position, item.get_state()["cartesian_position"], atol=1e-6)
        np.testing.assert_allclose(block.size, item.get_state()["size"], atol=1e-6)
    assert scene.walls == []


def test_more_blocks_than_the_layout_holds_are_told():
    class Stage:
        def get_rigid_objects(self):
            return {}

        def get_visual_objects(self):
            class Goal:
                def get_state(self):
                    return {}

            return dict.fromkeys("abc", Goal())

    class World:
        def get_stage(self):
            return Stage()

    with pytest.raises(UserError, match="holds 2 blocks"):
        layout.observe(World(), 1.0)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_goals_differ_and_lie_in_their_space(worlds, task):
    def goals(environment):
        return np.array([layout.read(environment.reset(seed=seed)[0]).goals[0].position for seed in range(4)])

    inside = goals(worlds(task))
    assert len(np.unique(inside.round(5), axis=0)) == 4
    outside_world = CausalWorldEnv(task, CausalWorldSettings(goals="space_b"))
    outside = goals(outside_world)
    outside_world.close()
    if task == "picking":
        assert (inside[:, 2] <= 0.2).all()
        assert (outside[:, 2] >= 0.2).all()
    elif task != "stacked_blocks":
        border = 0.12 if task == "pick_and_place" else 0.11
        assert (np.linalg.norm(inside[:, :2], axis=1) <= border + 1e-6).all()
        assert (np.linalg.norm(outside[:, :2], axis=1) >= border - 1e-6).all()
        assert (np.linalg.norm(outside[:, :2], axis=1) <= 0.13 + 1e-6).all()


def test_kinematics_against_the_simulation(worlds):
    environment = worlds("pushing")
    environment.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(5):
        scene = layout.read(environment.step(generator.uniform(-1, 1, 9))[0])
        np.testing.assert_allclose(kinematics.tips(scene.joints), scene.tips, atol=1e-6)


def test_inverse_kinematics_undo_kinematics():
    generator = np.random.default_rng(1)
    for joints in generator.uniform([-0.8, -0.3, -2.5] * 3, [0.8, 1.3, -0.3] * 3, (50, 9)):
        np.testing.assert_allclose(kinematics.joints(kinematics.tips(joints)), joints, atol=1e-9)
    far = kinematics.joints(np.full((3, 3), 2.0))
    assert np.isfinite(far).all()


def test_relations_say_in_centimetres_what_the_rest_says_in_decimetres(worlds):
    environment = worlds("stacked_blocks")
    observation, _ = environment.reset(seed=4)
    scene = layout.read(observation)
    for index in range(2):
        relations = observation[100 + 24 * index :][:24].astype(float)
        block, goal = scene.blocks[index], scene.goals[index]
        lengths = np.sinh(4 * relations[:18]) * 0.01
        yaw, turn = layout.yaw_of(block.orientation), layout.yaw_of(goal.orientation) - layout.yaw_of(block.orientation)
        for finger, tip in enumerate(scene.tips):
            x, y, z = tip - block.position
            np.testing.assert_allclose(lengths[3 * finger : 3 * finger + 3], [x, y, z], atol=1e-5)
            along = [x * np.cos(yaw) + y * np.sin(yaw), y * np.cos(yaw) - x * np.sin(yaw)]
            np.testing.assert_allclose(lengths[9 + 2 * finger : 11 + 2 * finger], along, atol=1e-5)
        np.testing.assert_allclose(lengths[15:], goal.position - block.position, atol=1e-5)
        angles = np.array([4 * yaw, 2 * turn, 4 * turn])
        np.testing.assert_allclose(relations[18:], [*np.sin(angles), *np.cos(angles)], atol=1e-4)
    assert not worlds("pushing").reset(seed=0)[0][124:].any()


def test_an_action_sends_the_fingertips(worlds):
    environment = worlds("picking")
    observation, _ = environment.reset(seed=0)
    before = layout.read(observation).tips
    move = np.zeros((3, 3))
    move[0, 2], move[1, 2] = 0.4, -0.2  # up by 2 cm, down by 1
    after = layout.read(environment.step(move.ravel())[0]).tips
    # In the 40 ms of a step the motors go most of the way.
    assert 0.01 < after[0, 2] - before[0, 2] < 0.02
    assert -0.01 < after[1, 2] - before[1, 2] < -0.005
    np.testing.assert_allclose(after[2], before[2], atol=0.003)


def test_coverage_is_the_measure_of_causal_world(worlds):
    environment = worlds("pushing")
    for seed in range(10):
        observation, info = environment.reset(seed=seed)
        scene = layout.read(observation)
        assert info["scores"][1] == pytest.approx(coverage(scene.blocks[0], scene.goals[0]), abs=1e-4)


@pytest.mark.parametrize("bad", [np.full(9, 1.1), np.full(9, np.nan), np.zeros(8)])
def test_a_bad_action_is_refused(worlds, bad):
    environment = worlds("pushing")
    environment.reset(seed=0)
    with pytest.raises(ActionError, match="An action") as caught:
        environment.step(bad)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UserError)


def settle(**values):
    """Settings that the type checks of tests would refuse before the settings themselves do."""
    settings = CausalWorldSettings()
    for name, value in values.items():
        object.__setattr__(settings, name, value)
    settings.__post_init__()


def test_mistakes_are_one_clear_sentence():
    environment = make_here("causalworld", CausalWorldSettings(), False, 1)
    with pytest.raises(UserError, match="did you mean pushing"):
        environment.reset(["pushin"], [0])
    with pytest.raises(UserError, match="goals must be one of space_a, space_b, not 'space_c'"):
        settle(goals="space_c")
    with pytest.raises(UserError, match=r"env\.cameras is \(3,\)"):
        CausalWorldSettings(cameras=(3,))
    with pytest.raises(UserError, match="image_size must be one of 128, 64, 32"):
        settle(image_size=50)
    with pytest.raises(UserError, match=r"env\.cameras is \(0, 0\)"):
        CausalWorldSettings(cameras=(0, 0))
    with pytest.raises(UserError, match=r"env\.processes is 0"):
        CausalWorldSettings(processes=0)
    with pytest.raises(UserError, match=r"expert\.stalls is 1"):
        CausalWorldExpert(stalls=1.0)
    environment = gymnasium.make("r2a/CausalWorld-v0", task="pushing", disable_env_checker=True).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(9))
    environment.close()


def test_pictures(worlds):
    environment = CausalWorldEnv("pick_and_place")
    environment.reset(seed=0)
    picture = environment.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (240, 320, 3)
    assert picture.std() > 5
    environment.close()
    settings = CausalWorldSettings(cameras=(0,), image_size=128)
    pixels = CausalWorldEnv("pushing", settings)
    observation, info = pixels.reset(seed=0)
    assert spec_of("causalworld", settings).observation.contains(observation)
    assert observation.shape == (2, 128, 128, 3)
    assert (observation[0] != observation[1]).any()
    np.testing.assert_array_equal(pixels.numbers(), worlds("pushing").reset(seed=0)[0])
    assert info == worlds("pushing").reset(seed=0)[1]
    pixels.close()
    small = make_here("causalworld", CausalWorldSettings(cameras=(0,), image_size=32, max_steps=2), False, 1)
    # A pixel is the mean of those it takes the place of.
    assert small.reset(["pushing"], [0]).observation[0, 1, 5, 7, 2] == round(observation[1, 20:24, 28:32, 2].mean())
    numbers = make_here("causalworld", CausalWorldSettings(max_steps=2), False, 1)
    seen, read = (play(env, Expert(env, "pushing", 0), "pushing", 0) for env in (small, numbers))
    assert seen.observation.shape == (3, 2, 32, 32, 3)
    np.testing.assert_array_equal(seen.action, read.action)  # the expert reads numbers, whatever is seen
    small.close()
    numbers.close()


class Noting:
    """A policy that remembers what was done, where something else is recorded."""

    def __init__(self, policy):
        self.policy, self.done = policy, []

    def act(self, view, step):
        action, extras = self.policy.act(view, step)
        self.done.append(action[0])
        return action, extras


@pytest.mark.parametrize("task", ["picking", "stacking2"])
def test_the_expert_reaches_its_goals(task):
    env = make_here("causalworld", CausalWorldSettings(), False, 1)
    policy = Noting(Expert(env, task, 0))
    episode = play(env, policy, task, 0)
    env.close()
    assert not episode.terminated
    success, fraction = episode.scores.tolist()
    assert fraction > 0.5
    assert success == solved(fraction)
    assert episode.observation.shape == (TASKS[task] + 1, layout.SIZE)
    np.testing.assert_array_equal(episode.action, policy.done)


def test_the_expert_has_no_memory_and_its_noise_is_the_seeds():
    env = make_here("causalworld", CausalWorldSettings(max_steps=15), False, 1)
    played = []
    for noise in (0.05, 0.05, 0.1):
        policy = Noting(Expert(env, "pushing", 3, noise, CausalWorldExpert(stalls=0.2)))
        played.append((play(env, policy, "pushing", 3), np.stack(policy.done)))
    env.close()
    (noisy, done), (_, again), (_, other) = played
    np.testing.assert_array_equal(done, again)
    assert (done != other).any()
    # What is recorded is what is advised at what is seen, not what was done.
    np.testing.assert_array_equal(noisy.action, np.stack([advise(s) for s in noisy.observation[:-1]]).astype("f4"))
    assert (done != noisy.action).any()
    assert (np.abs(done) <= 1).all()


def test_an_expert_that_stalls_does_a_little_of_what_it_advises(monkeypatch):
    advice = np.linspace(-1, 1, 9)
    monkeypatch.setattr("r2a.environments.causalworld.expert.advise", lambda observation: advice)
    env = make_here("causalworld", CausalWorldSettings(), False, 1)
    first = env.reset(["pushing"], [0])
    nothing = np.zeros((1, 9), np.float32), np.zeros(1, np.float32), np.zeros(1, bool), np.ones(1, bool)
    view = View(first.observation, first.instruction, *nothing)
    env.close()

    def acts(noise, count):
        policy = Expert(env, "pushing", 0, noise, CausalWorldExpert(stalls=0.5))
        return np.stack([policy.act(view, step)[0][0] for step in range(count)])

    done = acts(1e-9, 2000)
    stalled = ~np.isclose(done, advice, atol=1e-6).all(1)
    assert 0.25 < stalled.mean() < 0.5
    begun = int(np.argmax(stalled))
    assert stalled[begun : begun + STALL].all()
    np.testing.assert_allclose(done[stalled], np.tile(STALLED * advice, (stalled.sum(), 1)), atol=1e-6)
    np.testing.assert_array_equal(acts(0.0, 100), np.tile(advice.astype("f4"), (100, 1)))  # without noise it never does


def test_fingers_close_by_degrees():
    """As fingers come to stand to their faces the command grows from nothing, without a jump."""
    cube = layout.Solid(np.full(3, 0.065), np.array([0, 0, 0.0325]), np.array([0, 0, 0, 1.0]), np.zeros(3))
    grasp = Grasp(0, 1, np.array([1.0, 0.0]), 0.0325, 0.0)

    def closing(askew: float, gap: float = 0.01) -> float:
        tips = np.zeros((3, 3))
        tips[:2] = grasp.place(cube.position, gap) + np.array([0, askew, 0])
        return expert._closing(grasp, tips, cube)

    assert closing(0.0) == 1.0
    assert closing(0.02) == 0.0
    assert closing(0.0, gap=0.1) == 0.0
    values = [closing(askew) for askew in np.linspace(0, 0.02, 101)]
    assert np.all(np.diff(values) <= 0)
    assert np.abs(np.diff(values)).max() < 0.03


def test_solved_is_above_the_limit():
    assert not solved(SOLVED)
    assert solved(0.91)


def test_data_of_other_worlds_are_refused():
    def check(shape=(layout.SIZE,), environment="causalworld", run=CausalWorldSettings(), **env):
        collected = {"skip_frame": 10, "cameras": [], "image_size": 64, **env}
        manifest = {
            "environment": environment,
            "observation_shape": shape,
            "provenance": {"settings": {"env": collected}},
        }
        check_data("causalworld", run, manifest, "datasets/old")

    check()
    check((2, 64, 64, 3), run=CausalWorldSettings(cameras=(0,)), cameras=[0])
    with pytest.raises(UserError, match="datasets/old holds episodes of babyai, not of causalworld"):
        check(environment="babyai")
    with pytest.raises(UserError, match=r"lasts 5 frames, and env\.skip-frame is 10; set it to 5"):
        check(skip_frame=5)
    with pytest.raises(UserError, match="shows numbers"):
        check(run=CausalWorldSettings(cameras=(0,)))
    with pytest.raises(UserError, match=r"shows pictures of cameras \(0,\) with 32 pixels"):
        check(run=CausalWorldSettings(cameras=(0,)), cameras=[0], image_size=32)
    with pytest.raises(UserError, match="are 148 numbers: collect the data anew"):
        check((130,))
