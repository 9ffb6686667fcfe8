"""CausalWorld: the layout of observations, repeatable episodes, the fingers' geometry, and the scripted expert."""

from __future__ import annotations

import builtins
import importlib
import logging
import sys
import warnings

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from r2a.environments.causalworld import (
    GYMNASIUM_ID,
    SOLVED,
    TASK_NAMES,
    controller,
    kinematics,
    layout,
    solved,
    task_entry,
)
from r2a.environments.causalworld.controller import advise
from r2a.environments.causalworld.expert import STALL, STALLED, Expert, play_expert
from r2a.environments.causalworld.grasp import Grasp, coverage
from r2a.environments.causalworld.gym import ActionError, CausalWorldEnv
from r2a.environments.causalworld.upstream import INSTALL
from r2a.errors import UserError
from r2a.networks.encoders import CLOCK_AND_SPEEDS, pose_features


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


@pytest.mark.parametrize("task", TASK_NAMES)
def test_check_env_has_nothing_to_say(task):
    environment = gymnasium.make(GYMNASIUM_ID, task=task, max_steps=4, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(environment.unwrapped)


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
    assert len(blocks) == task_entry(task).blocks
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
    assert scene.obstacle is None


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


@pytest.mark.parametrize("task", ["pushing", "stacked_blocks"])
def test_a_seed_is_an_episode_to_the_bit(worlds, task):
    def episode(environment, seed):
        generator = np.random.default_rng(0)
        seen = [environment.reset(seed=seed)[0]]
        seen += [environment.step(generator.uniform(-1, 1, 9))[0] for _ in range(20)]
        return np.stack(seen)

    first = episode(worlds(task), 5)
    other = episode(worlds(task), 6)
    np.testing.assert_array_equal(first, episode(worlds(task), 5))
    fresh = CausalWorldEnv(task)
    np.testing.assert_array_equal(first, episode(fresh, 5))
    fresh.close()
    assert (first[0] != other[0]).any()


@pytest.mark.parametrize("task", TASK_NAMES)
def test_goals_differ_and_lie_in_their_space(worlds, task):
    def goals(environment):
        return np.array([layout.read(environment.reset(seed=seed)[0]).goals[0].position for seed in range(4)])

    inside = goals(worlds(task))
    assert len(np.unique(inside.round(5), axis=0)) == 4
    outside_world = CausalWorldEnv(task, goals="space_b")
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
    for seed in range(30):
        observation, info = environment.reset(seed=seed)
        scene = layout.read(observation)
        assert info["fractional_success"] == pytest.approx(coverage(scene.blocks[0], scene.goals[0]), abs=1e-4)


@pytest.mark.parametrize("bad", [np.full(9, 1.1), np.full(9, np.nan), np.zeros(8)])
def test_a_bad_action_is_refused(worlds, bad):
    environment = worlds("pushing")
    environment.reset(seed=0)
    with pytest.raises(ActionError, match="An action") as caught:
        environment.step(bad)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UserError)


def test_mistakes_are_one_clear_sentence():
    with pytest.raises(UserError, match="did you mean pushing"):
        CausalWorldEnv("pushin")
    with pytest.raises(UserError, match="goals must be one of"):
        CausalWorldEnv("pushing", goals="space_c")
    with pytest.raises(UserError, match="cameras"):
        CausalWorldEnv("pushing", observation="pixels", cameras=(3,))
    with pytest.raises(UserError, match="side must be one of 128, 64, 32"):
        CausalWorldEnv("pushing", observation="pixels", side=50)
    with pytest.raises(UserError, match="noise"):
        Expert(noise=-1.0)
    environment = CausalWorldEnv("pushing")
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(9))
    environment.close()


def test_a_missing_package_is_told_with_its_install_line(monkeypatch):
    name = "r2a.environments.causalworld.upstream"
    kept = sys.modules.pop(name)
    importing = importlib.import_module

    def without(module, package=None):
        if module == "pybullet":
            raise ModuleNotFoundError("No module named 'pybullet'")
        return importing(module, package)

    monkeypatch.setattr(importlib, "import_module", without)
    try:
        with pytest.raises(UserError, match="pip install --no-deps causal_world"):
            builtins.__import__(name)
    finally:
        sys.modules[name] = kept
    assert "pip install pybullet==3.2.7" in INSTALL


def test_pictures(worlds):
    environment = CausalWorldEnv("pick_and_place", render_mode="rgb_array")
    environment.reset(seed=0)
    picture = environment.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (240, 320, 3)
    assert picture.std() > 5
    environment.close()
    pixels = CausalWorldEnv("pushing", observation="pixels", cameras=(0,))
    observation, info = pixels.reset(seed=0)
    assert pixels.observation_space.contains(observation)
    assert observation.shape == (2, 128, 128, 3)
    assert (observation[0] != observation[1]).any()
    np.testing.assert_array_equal(pixels.numbers(), worlds("pushing").reset(seed=0)[0])
    assert info["fractional_success"] == worlds("pushing").reset(seed=0)[1]["fractional_success"]
    pixels.close()
    small = CausalWorldEnv("pushing", observation="pixels", cameras=(0,), side=32, max_steps=2)
    assert small.observation_space.contains(small.reset(seed=0)[0])
    # A pixel is the mean of those it takes the place of.
    assert small.reset(seed=0)[0][1, 5, 7, 2] == round(observation[1, 20:24, 28:32, 2].mean())
    episode = play_expert(small, 0)
    assert episode.observation.shape == (3, 2, 32, 32, 3)
    numbers = CausalWorldEnv("pushing", max_steps=2)
    np.testing.assert_array_equal(episode.advice, play_expert(numbers, 0).advice)
    for environment in (small, numbers):
        environment.close()


@pytest.mark.parametrize("task", ["picking", "stacking2"])
def test_the_expert_reaches_its_goals(worlds, task):
    episode = play_expert(worlds(task), 0)
    assert episode.fractional_success[-1] > 0.5
    assert episode.observation.shape == (worlds(task).max_steps + 1, layout.SIZE)
    np.testing.assert_array_equal(episode.action, episode.advice)


def test_the_expert_has_no_memory_and_its_noise_is_the_seeds(worlds):
    environment = CausalWorldEnv("pushing", max_steps=20)
    noisy = play_expert(environment, 3, noise=0.05, stalls=0.2)
    again = play_expert(environment, 3, noise=0.05, stalls=0.2)
    environment.close()
    np.testing.assert_array_equal(noisy.action, again.action)
    np.testing.assert_array_equal(
        noisy.advice, np.stack([advise(seen) for seen in noisy.observation[:-1]]).astype("f4")
    )
    assert (noisy.action != noisy.advice).any()
    assert (np.abs(noisy.action) <= 1).all()


def test_an_expert_that_stalls_does_a_little_of_what_it_advises(worlds):
    observation, _ = worlds("pushing").reset(seed=3)
    expert = Expert(stalls=0.5, seed=0)
    acts = [expert.act(observation) for _ in range(2000)]
    stalled = np.array([not np.array_equal(action, advice) for action, advice in acts])
    assert 0.25 < stalled.mean() < 0.5
    first = int(np.argmax(stalled))
    assert stalled[first : first + STALL].all()
    for action, advice in (acts[first], acts[first + STALL - 1]):
        np.testing.assert_allclose(action, STALLED * advice, rtol=1e-5)


def test_fingers_close_by_degrees():
    """As fingers come to stand to their faces the command grows from nothing, without a jump."""
    cube = layout.Solid(np.full(3, 0.065), np.array([0, 0, 0.0325]), np.array([0, 0, 0, 1.0]), np.zeros(3), np.zeros(3))
    grasp = Grasp(0, 1, np.array([1.0, 0.0]), 0.0325, 0.0)

    def closing(askew: float, gap: float = 0.01) -> float:
        tips = np.zeros((3, 3))
        tips[:2] = grasp.place(cube.position, gap) + np.array([0, askew, 0])
        return controller._closing(grasp, tips, cube)

    assert closing(0.0) == 1.0
    assert closing(0.02) == 0.0
    assert closing(0.0, gap=0.1) == 0.0
    values = [closing(askew) for askew in np.linspace(0, 0.02, 101)]
    assert np.all(np.diff(values) <= 0)
    assert np.abs(np.diff(values)).max() < 0.03


def test_poses_leave_out_clock_and_speeds_alone(worlds):
    hidden = [0, *range(10, 19)]
    for block in range(layout.MAX_BLOCKS):
        start = layout.BLOCKS_AT + block * layout.BLOCK_SIZE
        hidden += range(start + layout.GOAL_SIZE, start + layout.BLOCK_SIZE)
    assert list(CLOCK_AND_SPEEDS) == hidden
    observation = worlds("stacking2").reset(seed=0)[0]
    np.testing.assert_array_equal(pose_features(jnp.asarray(observation)), np.delete(observation, hidden))


def test_solved_is_above_the_limit():
    assert not solved(SOLVED)
    assert solved(0.91)
