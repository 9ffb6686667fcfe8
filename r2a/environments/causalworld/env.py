"""One CausalWorld task for Gymnasium, and rows of tasks: simulators in this process."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import EnvSpec
from r2a.environments.causalworld import CausalWorldSettings, kinematics, layout
from r2a.environments.causalworld.tasks import OPTIONS, TASK_NAMES, TASKS, draw_start, solved
from r2a.environments.causalworld.upstream import CausalWorld, generate_task, pybullet, seeded
from r2a.errors import UserError

MOVES = 9
PIXELS = 128
PICTURE_HEIGHT, PICTURE_WIDTH = 240, 320
SIMULATION_RATE = 250  # steps of the physics per second
SLACK = 1e-6  # float32 rounding of an action at the end of its range


class ActionError(UserError, ValueError):
    """An action that the robot cannot be given."""


class CausalWorldEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One task of a three-fingered robot; every reset draws a new goal, and an episode ends by its time alone.

    An action is nine numbers in [-1, 1]: how far the fingertips are sent from where they are, finger by finger along x,
    y and z, in units of 5 cm. The joint positions that bring them there are held for `skip_frame` steps of a simulation
    at 250 Hz. The observation is `layout`'s vector or, with `cameras`, their pictures followed by those of the goal;
    each camera costs rendering time. `info["scores"]` says whether the task is solved, and how much of the goal is
    covered. A step takes 2.7 ms of processor time, a reset 35 ms: causal_world builds the world anew, without which
    episodes would not be repeatable to the bit.
    """

    def __init__(self, task: str, settings: CausalWorldSettings = CausalWorldSettings()):
        self.task, self.settings = task, settings
        self.max_steps = episode_length(task, settings)
        with seeded(0):
            self._world: Any = CausalWorld(
                task=generate_task(task, variables_space=settings.goals, **OPTIONS.get(task, {})),
                skip_frame=settings.skip_frame,
                seed=0,
                observation_mode="pixel" if settings.cameras else "structured",
                normalize_observations=not settings.cameras,
                max_episode_length=self.max_steps,
                camera_indicies=np.array(settings.cameras or (0, 1, 2)),
            )
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a goal (and a start, where the task has several) from the environment's own random generator."""
        super().reset(seed=seed)
        with seeded(int(self.np_random.integers(2**31))):
            draw_start(self._world, self.settings.goals)
        self._steps = 0
        self._world.get_task().get_reward()  # measures the success
        return self._observe(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Send the fingertips where the action says; the reward is causal_world's own, and nothing ends early."""
        tips = self._world.get_robot().get_latest_full_state()["end_effector_positions"].reshape(3, 3)
        joints = kinematics.joints(tips + kinematics.REACH * _checked(action).reshape(3, 3))
        _, reward, _, _ = self._world.step(layout.scale(joints, kinematics.JOINT_LOW, kinematics.JOINT_HIGH))
        self._steps += 1
        return self._observe(), float(reward), False, self._steps >= self.max_steps, self._info()

    def render(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The table seen from above, drawn without a display."""
        _, _, pixels, _, _ = pybullet.getCameraImage(
            width=PICTURE_WIDTH,
            height=PICTURE_HEIGHT,
            viewMatrix=self._world.view_matrix,
            projectionMatrix=self._world.proj_matrix,
            renderer=pybullet.ER_TINY_RENDERER,
            physicsClientId=self._world.get_stage()._rigid_objects_client_instances[0],
        )
        return np.reshape(np.asarray(pixels, np.uint8), (PICTURE_HEIGHT, PICTURE_WIDTH, 4))[..., :3].copy()

    def numbers(self) -> np.ndarray:
        """`layout`'s vector of this moment, whatever the observation is."""
        return layout.observe(self._world, 1.0 - self._steps / self.max_steps)

    def close(self) -> None:
        """Give the simulation's memory back."""
        self._world.close()

    def _observe(self) -> np.ndarray:
        """The vector, or pictures each of whose pixels is the mean of those it takes the place of."""
        if not self.settings.cameras:
            return self.numbers()
        now = self._world.get_robot().get_current_camera_observations()
        goal = self._world.get_stage().get_current_goal_image()
        pictures, size = np.concatenate([now, goal]).astype(np.uint8), self.settings.image_size
        times = PIXELS // size
        blocks = pictures.reshape(len(pictures), size, times, size, times, 3)
        return np.round(blocks.mean((2, 4))).astype(np.uint8)

    def _info(self) -> dict[str, Any]:
        fraction = float(self._world.get_task().get_info()["fractional_success"])
        return {"scores": (float(solved(fraction)), fraction)}


def _checked(action: np.ndarray) -> np.ndarray:
    moves = np.asarray(action, float)
    if moves.shape != (MOVES,):
        raise ActionError(f"An action is {MOVES} numbers, three per fingertip, not an array of shape {moves.shape}.")
    wrong = ~(np.abs(moves) <= 1.0 + SLACK)  # also true for NaN
    if wrong.any():
        raise ActionError(f"An action's numbers must lie in [-1, 1], not be {moves[wrong][0]:g}.")
    return np.clip(moves, -1.0, 1.0)


def episode_length(task: str, settings: CausalWorldSettings) -> int:
    """Steps of an episode, which by default lasts as long for any `skip_frame`."""
    return settings.max_steps or max(1, TASKS[task] * 10 // settings.skip_frame)


def make(settings: CausalWorldSettings, num_envs: int, render: bool = False) -> FromGymnasium:
    """So many simulators in this process; each is made when its task is known, and can be drawn."""
    observation = Box(-layout.LIMIT, layout.LIMIT, (layout.SIZE,), np.float32)
    if settings.cameras:
        shape = (2 * len(settings.cameras), settings.image_size, settings.image_size, 3)
        observation = Box(0, 255, shape, np.uint8)
    spec = EnvSpec(
        id="causalworld",
        tasks=TASK_NAMES,
        observation=observation,
        action=Box(-1.0, 1.0, (MOVES,), np.float32),
        max_steps=max(episode_length(task, settings) for task in TASKS),
        scores=("success", "fraction"),
        fps=SIMULATION_RATE / settings.skip_frame,  # at its speed in the world
    )
    return FromGymnasium(spec, partial(CausalWorldEnv, settings=settings), num_envs)
