"""CausalWorld for Gymnasium: `gymnasium.make("r2a/CausalWorld-v0", task="pushing")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import EnvSpec
from r2a.environments.causalworld import CausalWorldSettings, kinematics, layout
from r2a.environments.causalworld.tasks import GOALS, TASK_NAMES, TASKS, draw_start, solved, task_entry
from r2a.environments.causalworld.upstream import CausalWorld, generate_task, pybullet, seeded
from r2a.errors import UserError

MOVES = 9
PIXELS = 128
SIZES = (PIXELS, PIXELS // 2, PIXELS // 4)
PICTURE_HEIGHT, PICTURE_WIDTH = 240, 320
SIMULATION_RATE = 250  # steps of the physics per second
SLACK = 1e-6  # float32 rounding of an action at the end of its range


class ActionError(UserError, ValueError):
    """An action that the robot cannot be given."""


class CausalWorldEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One task of a three-fingered robot; every reset draws a new goal, and an episode lasts `max_steps` steps.

    An action is nine numbers in [-1, 1]: how far the fingertips are sent from where they are, finger by finger along x,
    y and z, in units of 5 cm. The joint positions that bring them there are held for `skip_frame` steps of a simulation
    at 250 Hz. The observation is `layout`'s vector or, with observation="pixels", the pictures of the chosen cameras
    followed by their pictures of the goal, `image_size` pixels wide and high; each camera costs rendering time.
    `info["fractional_success"]` says how much of the goal is covered. A step takes 2.7 ms of processor time, a reset 35
    ms: causal_world builds the world anew, without which episodes would not be repeatable to the bit.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        task: str = "pushing",
        skip_frame: int = 10,
        max_steps: int | None = None,
        goals: str = "space_a",
        observation: str = "structured",
        cameras: Sequence[int] = (0, 1, 2),
        image_size: int = PIXELS,
        render_mode: str | None = None,
    ):
        entry = task_entry(task)
        _require("goals", goals, GOALS)
        _require("observation", observation, ("structured", "pixels"))
        _require("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if not cameras or not set(cameras) <= {0, 1, 2}:
            raise UserError(f"cameras must be some of 0, 1 and 2, not {tuple(cameras)}.")
        _require("image_size", image_size, SIZES)
        if skip_frame < 1 or (max_steps is not None and max_steps < 1):
            raise UserError(f"skip_frame and max_steps must be at least 1, not {skip_frame} and {max_steps}.")
        self.task, self.observation, self.image_size, self.render_mode = (
            entry.name,
            observation,
            image_size,
            render_mode,
        )
        self.goals = goals
        # The default lasts as long for any skip_frame.
        self.max_steps = max_steps if max_steps is not None else max(1, entry.max_steps * 10 // skip_frame)
        self.metadata = {**self.metadata, "render_fps": SIMULATION_RATE / skip_frame}
        with seeded(0):
            self._world: Any = CausalWorld(
                task=generate_task(entry.name, variables_space=goals, **entry.options),
                skip_frame=skip_frame,
                seed=0,
                observation_mode="pixel" if observation == "pixels" else "structured",
                normalize_observations=observation == "structured",
                max_episode_length=self.max_steps,
                camera_indicies=np.array(cameras),
            )
        self._steps: int | None = None
        if observation == "pixels":
            shape = (2 * len(cameras), image_size, image_size, 3)
            self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        else:
            self.observation_space = gymnasium.spaces.Box(-layout.LIMIT, layout.LIMIT, (layout.SIZE,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (MOVES,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a goal (and a start, where the task has several) from the environment's own random generator."""
        super().reset(seed=seed)
        with seeded(int(self.np_random.integers(2**31))):
            draw_start(self._world, self.goals)
        self._steps = 0
        self._world.get_task().get_reward()  # measures the success
        return self._observe(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Send the fingertips where the action says; the reward is causal_world's own, and nothing ends early."""
        if self._steps is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        tips = self._world.get_robot().get_latest_full_state()["end_effector_positions"].reshape(3, 3)
        joints = kinematics.joints(tips + kinematics.REACH * _checked(action).reshape(3, 3))
        _, reward, _, _ = self._world.step(layout.scale(joints, kinematics.JOINT_LOW, kinematics.JOINT_HIGH))
        self._steps += 1
        return self._observe(), float(reward), False, self._steps >= self.max_steps, self._info()

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The table seen from above, drawn without a display, if the render mode asks for a picture."""
        if self._steps is None:
            raise gymnasium.error.ResetNeeded("call reset before the first picture")
        if self.render_mode != "rgb_array":
            return None
        world = self._world
        _, _, pixels, _, _ = pybullet.getCameraImage(
            width=PICTURE_WIDTH,
            height=PICTURE_HEIGHT,
            viewMatrix=world.view_matrix,
            projectionMatrix=world.proj_matrix,
            renderer=pybullet.ER_TINY_RENDERER,
            physicsClientId=world.get_stage()._rigid_objects_client_instances[0],
        )
        return np.reshape(np.asarray(pixels, np.uint8), (PICTURE_HEIGHT, PICTURE_WIDTH, 4))[..., :3].copy()

    def numbers(self) -> np.ndarray:
        """`layout`'s vector of this moment, whatever the observation is."""
        if self._steps is None:
            raise gymnasium.error.ResetNeeded("call reset before the first observation")
        return layout.observe(self._world, 1.0 - self._steps / self.max_steps)

    def close(self) -> None:
        """Give the simulation's memory back."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _observe(self) -> np.ndarray:
        if self.observation == "pixels":
            now = self._world.get_robot().get_current_camera_observations()
            goal = self._world.get_stage().get_current_goal_image()
            return _reduced(np.concatenate([now, goal]).astype(np.uint8), self.image_size)
        return self.numbers()

    def _info(self) -> dict[str, Any]:
        fraction = float(self._world.get_task().get_info()["fractional_success"])
        won = solved(fraction)
        return {"task": self.task, "fractional_success": fraction, "solved": won, "scores": (float(won), fraction)}


def _reduced(pictures: np.ndarray, size: int) -> np.ndarray:
    """Pictures with so many pixels to a side, each the mean of those it takes the place of."""
    times = PIXELS // size
    if times == 1:
        return pictures
    blocks = pictures.reshape(len(pictures), size, times, size, times, 3)
    return np.round(blocks.mean((2, 4))).astype(np.uint8)


def _checked(action: np.ndarray) -> np.ndarray:
    moves = np.asarray(action, float)
    if moves.shape != (MOVES,):
        raise ActionError(f"An action is {MOVES} numbers, three per fingertip, not an array of shape {moves.shape}.")
    if not np.all(np.abs(moves) <= 1.0 + SLACK):  # also false for NaN
        worst = moves[~(np.abs(moves) <= 1.0 + SLACK)][0]
        raise ActionError(f"An action's numbers must lie in [-1, 1], not be {worst:g}.")
    return np.clip(moves, -1.0, 1.0)


def _require(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}.")


def make(settings: CausalWorldSettings, num_envs: int, render: bool = False) -> FromGymnasium:
    """So many simulators in this process; each is made when its task is known."""
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    space = gymnasium.spaces.Box(-layout.LIMIT, layout.LIMIT, (layout.SIZE,), np.float32)
    if settings.cameras:
        options |= {"observation": "pixels", "cameras": settings.cameras, "image_size": settings.image_size}
        shape = (2 * len(settings.cameras), settings.image_size, settings.image_size, 3)
        space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
    longest = settings.max_steps or max(1, max(task.max_steps for task in TASKS) * 10 // settings.skip_frame)
    spec = EnvSpec(
        id="causalworld",
        tasks=TASK_NAMES,
        observation=space,
        action=gymnasium.spaces.Box(-1.0, 1.0, (MOVES,), np.float32),
        max_steps=longest,
        scores=("success", "fraction"),
        fps=SIMULATION_RATE / settings.skip_frame,  # at its speed in the world
    )

    def one(task: str) -> CausalWorldEnv:
        return CausalWorldEnv(task, settings.skip_frame, settings.max_steps or None, settings.goals, **options)

    return FromGymnasium(spec, one, num_envs)
