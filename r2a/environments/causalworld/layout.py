"""One flat observation for all five tasks: the robot, two blocks, two goals, one obstacle; what is absent is zero.

    robot     time left 1, joint positions 9, joint velocities 9, fingertip positions 9 (x, y, z of each finger)
    block     present 1, type 1, size 3, position 3, orientation 4, linear velocity 3, angular velocity 3   (twice)
    goal      present 1, type 1, size 3, position 3, orientation 4                                          (twice)
    obstacle  present 1, type 1, size 3, position 3, orientation 4
    relations fingertips from the block 9, the same along the block's own x and y 6, its goal from the block 3,
              sine and cosine of 4 times the block's yaw, and of 2 and 4 times the goal's yaw from it 6     (twice)

Everything before the relations says all there is to say; the relations say it so that a network can use it: whether a
finger touches a face is a matter of millimetres, between positions that differ by decimetres. Lengths among them grow
as the logarithm beyond a centimetre. Numbers are scaled to about [-1, 1] over what happens, not over causal_world's
bounds; the time left runs from 1 to -1 over the episode (causal_world subtracts seconds from steps).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from r2a.environments.causalworld.kinematics import JOINT_HIGH, JOINT_LOW
from r2a.errors import UserError

MAX_BLOCKS = 2
ROBOT_SIZE, BLOCK_SIZE, GOAL_SIZE = 28, 18, 12
BLOCKS_AT = ROBOT_SIZE
GOALS_AT = BLOCKS_AT + MAX_BLOCKS * BLOCK_SIZE
OBSTACLE_AT = GOALS_AT + MAX_BLOCKS * GOAL_SIZE
RELATIONS_AT, RELATION_SIZE = OBSTACLE_AT + GOAL_SIZE, 24
SIZE = RELATIONS_AT + MAX_BLOCKS * RELATION_SIZE
LIMIT = 10.0  # of any number: a block that is thrown, or falls off the table, must not leave the space

PLACE_LOW, PLACE_HIGH = np.array([-0.1, -0.1, 0.0]), np.array([0.1, 0.1, 0.2])
SIDE_LOW, SIDE_HIGH = 0.0, 0.13
JOINT_SPEED, SPEED, TURN, TYPE = 1.0, 0.1, np.pi, 10.0
TOUCH = 0.01  # metres up to which a relation's lengths are in proportion


class Solid(NamedTuple):
    """A block, goal or obstacle: its sides, place and orientation (x, y, z, w), and its speed if it can move."""

    size: np.ndarray
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray


class Scene(NamedTuple):
    """An observation in metres and radians."""

    joints: np.ndarray
    tips: np.ndarray
    blocks: list[Solid]
    goals: list[Solid]
    walls: list[Solid]
    """The obstacle, if there is one."""


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
    tips = robot["end_effector_positions"].reshape(3, 3)
    flat = np.zeros(SIZE)
    flat[0] = 2.0 * time_left - 1.0
    flat[1:10] = scale(robot["positions"], JOINT_LOW, JOINT_HIGH)
    flat[10:19] = robot["velocities"] / JOINT_SPEED
    flat[19:28] = scale(tips, PLACE_LOW, PLACE_HIGH).ravel()
    for index, block in enumerate(blocks):
        speeds = np.asarray(block["linear_velocity"]) / SPEED, np.asarray(block["angular_velocity"]) / TURN
        flat[BLOCKS_AT + index * BLOCK_SIZE :][:BLOCK_SIZE] = np.concatenate([_solid(block), *speeds])
    for index, goal in enumerate(goals):
        flat[GOALS_AT + index * GOAL_SIZE :][:GOAL_SIZE] = _solid(goal)
    for obstacle in obstacles:
        flat[OBSTACLE_AT:RELATIONS_AT] = _solid(obstacle)
    for index, (block, goal) in enumerate(zip(blocks, goals, strict=True)):
        flat[RELATIONS_AT + index * RELATION_SIZE :][:RELATION_SIZE] = _relations(tips, block, goal)
    return np.clip(flat, -LIMIT, LIMIT).astype(np.float32)


def _solid(state: dict[str, Any]) -> np.ndarray:
    size = scale(state["size"], SIDE_LOW, SIDE_HIGH)
    position = scale(state["cartesian_position"], PLACE_LOW, PLACE_HIGH)
    return np.concatenate([[1.0, state["type"] / TYPE], size, position, state["orientation"]])


def _relations(tips: np.ndarray, block: dict[str, Any], goal: dict[str, Any]) -> np.ndarray:
    place, yaw = np.asarray(block["cartesian_position"]), yaw_of(block["orientation"])
    turn = yaw_of(goal["orientation"]) - yaw
    apart = tips - place
    own = apart[:, :2] @ np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    lengths = np.concatenate([apart.ravel(), own.ravel(), np.asarray(goal["cartesian_position"]) - place])
    angles = np.array([4 * yaw, 2 * turn, 4 * turn])
    return np.concatenate([np.arcsinh(lengths / TOUCH) / 4, np.sin(angles), np.cos(angles)])


def yaw_of(orientation: Any) -> float:
    """The angle of an orientation's x axis in the plane; of its y axis less a right angle where x points up."""
    x, y, z, w = orientation
    if np.hypot(1 - 2 * (y * y + z * z), 2 * (x * y + w * z)) > 0.7:
        return float(np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)))
    return float(np.arctan2(-(1 - 2 * (x * x + z * z)), 2 * (x * y - w * z)) + np.pi)


def read(observation: np.ndarray) -> Scene:
    """What an observation says, in metres and radians."""
    flat = np.asarray(observation, float)

    def solids(start: int, end: int, size: int) -> list[Solid]:
        parts = flat[start:end].reshape(-1, size)
        return [
            Solid(
                size=unscale(part[2:5], SIDE_LOW, SIDE_HIGH),
                position=unscale(part[5:8], PLACE_LOW, PLACE_HIGH),
                orientation=part[8:12],
                velocity=part[12:15] * SPEED,
            )
            for part in parts
            if part[0] >= 0.5
        ]

    return Scene(
        joints=unscale(flat[1:10], JOINT_LOW, JOINT_HIGH),
        tips=unscale(flat[19:28].reshape(3, 3), PLACE_LOW, PLACE_HIGH),
        blocks=solids(BLOCKS_AT, GOALS_AT, BLOCK_SIZE),
        goals=solids(GOALS_AT, OBSTACLE_AT, GOAL_SIZE),
        walls=solids(OBSTACLE_AT, RELATIONS_AT, GOAL_SIZE),
    )
