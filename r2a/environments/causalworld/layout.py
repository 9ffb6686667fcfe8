"""One flat observation for all five tasks: the robot, two blocks, two goals, one obstacle; what is absent is zero.

    robot     time left 1, joint positions 9, joint velocities 9, fingertip positions 9 (x, y, z of each finger)
    block     present 1, type 1, size 3, position 3, orientation 4, linear velocity 3, angular velocity 3   (twice)
    goal      present 1, type 1, size 3, position 3, orientation 4                                          (twice)
    obstacle  present 1, type 1, size 3, position 3, orientation 4

Numbers are scaled to about [-1, 1] by causal_world's bounds, with four exceptions: quaternions are left as they are
(causal_world divides them by ten, where a network would hardly see a yaw), types are divided by ten, joint velocities
by 10 rad/s (causal_world: 50, far above what happens), and the time left runs from 1 to -1 over the episode
(causal_world subtracts seconds from steps).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from r2a.errors import UserError

MAX_BLOCKS = 2
ROBOT_SIZE, BLOCK_SIZE, GOAL_SIZE = 28, 18, 12
BLOCKS_AT = ROBOT_SIZE
GOALS_AT = BLOCKS_AT + MAX_BLOCKS * BLOCK_SIZE
OBSTACLE_AT = GOALS_AT + MAX_BLOCKS * GOAL_SIZE
SIZE = OBSTACLE_AT + GOAL_SIZE
LIMIT = 10.0  # of any number: a block that is thrown, or falls off the table, must not leave the space

JOINT_LOW = np.array([-1.57, -1.2, -3.0] * 3)
JOINT_HIGH = np.array([1.0, 1.57, 3.0] * 3)
PLACE_LOW, PLACE_HIGH = np.array([-0.5, -0.5, 0.0]), np.array([0.5, 0.5, 0.5])
SIDE_LOW, SIDE_HIGH = 0.03, 0.1
JOINT_SPEED, SPEED, TURN, TYPE = 10.0, 0.5, np.pi, 10.0


class Solid(NamedTuple):
    """A block, goal or obstacle: its sides, place and orientation (x, y, z, w), and speeds if it can move."""

    size: np.ndarray
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray


class Scene(NamedTuple):
    """An observation in metres and radians."""

    joints: np.ndarray
    joint_velocities: np.ndarray
    tips: np.ndarray
    blocks: list[Solid]
    goals: list[Solid]
    obstacle: Solid | None


def scale(value: Any, low: Any, high: Any) -> np.ndarray:
    """From [low, high] to [-1, 1]."""
    return 2.0 * (np.asarray(value, float) - low) / (np.asarray(high) - low) - 1.0


def unscale(value: Any, low: Any, high: Any) -> np.ndarray:
    """From [-1, 1] to [low, high]."""
    return low + (np.asarray(value, float) + 1.0) / 2.0 * (np.asarray(high) - low)


def observe(world: Any, time_left: float) -> np.ndarray:
    """The observation of a causal_world world; `time_left` is the share of the episode that is left."""
    stage = world.get_stage()
    solids = [item.get_state() for item in stage.get_rigid_objects().values()]
    blocks = [solid for solid in solids if "linear_velocity" in solid]
    obstacles = [solid for solid in solids if "linear_velocity" not in solid]
    goals = [item.get_state() for item in stage.get_visual_objects().values()]
    if max(len(blocks), len(goals)) > MAX_BLOCKS or len(obstacles) > 1:
        raise UserError(
            f"The observation holds {MAX_BLOCKS} blocks, {MAX_BLOCKS} goals and one obstacle; this world has "
            f"{len(blocks)}, {len(goals)} and {len(obstacles)}: choose a task of fewer blocks."
        )
    robot = world.get_robot().get_latest_full_state()
    flat = np.zeros(SIZE)
    flat[0] = 2.0 * time_left - 1.0
    flat[1:10] = scale(robot["positions"], JOINT_LOW, JOINT_HIGH)
    flat[10:19] = robot["velocities"] / JOINT_SPEED
    flat[19:28] = scale(robot["end_effector_positions"].reshape(3, 3), PLACE_LOW, PLACE_HIGH).ravel()
    for index, block in enumerate(blocks):
        start = BLOCKS_AT + index * BLOCK_SIZE
        flat[start : start + GOAL_SIZE] = _solid(block)
        flat[start + GOAL_SIZE : start + BLOCK_SIZE] = np.concatenate(
            [np.asarray(block["linear_velocity"]) / SPEED, np.asarray(block["angular_velocity"]) / TURN]
        )
    for index, goal in enumerate(goals):
        start = GOALS_AT + index * GOAL_SIZE
        flat[start : start + GOAL_SIZE] = _solid(goal)
    for obstacle in obstacles:
        flat[OBSTACLE_AT:] = _solid(obstacle)
    return np.clip(flat, -LIMIT, LIMIT).astype(np.float32)


def _solid(state: dict[str, Any]) -> np.ndarray:
    return np.concatenate(
        [
            [1.0, state["type"] / TYPE],
            scale(state["size"], SIDE_LOW, SIDE_HIGH),
            scale(state["cartesian_position"], PLACE_LOW, PLACE_HIGH),
            state["orientation"],
        ]
    )


def read(observation: np.ndarray) -> Scene:
    """What an observation says, in metres and radians."""
    flat = np.asarray(observation, float)
    blocks = [_read_solid(flat[BLOCKS_AT + i * BLOCK_SIZE :][:BLOCK_SIZE]) for i in range(MAX_BLOCKS)]
    goals = [_read_solid(flat[GOALS_AT + i * GOAL_SIZE :][:GOAL_SIZE]) for i in range(MAX_BLOCKS)]
    return Scene(
        joints=unscale(flat[1:10], JOINT_LOW, JOINT_HIGH),
        joint_velocities=flat[10:19] * JOINT_SPEED,
        tips=unscale(flat[19:28].reshape(3, 3), PLACE_LOW, PLACE_HIGH),
        blocks=[block for block in blocks if block is not None],
        goals=[goal for goal in goals if goal is not None],
        obstacle=_read_solid(flat[OBSTACLE_AT:]),
    )


def _read_solid(part: np.ndarray) -> Solid | None:
    if part[0] < 0.5:
        return None
    size, position = unscale(part[2:5], SIDE_LOW, SIDE_HIGH), unscale(part[5:8], PLACE_LOW, PLACE_HIGH)
    return Solid(size, position, part[8:12], part[12:15] * SPEED, part[15:18] * TURN)
