"""The three fingers' geometry: from joint positions to fingertips and back, in closed form.

A finger's frame has its hip on the z axis at `HIP_HEIGHT`, x along the hip's axis. The hip turns about -x, knee and
ankle about y, and the two links of `LINK` metres lie `SIDE` metres beside the hip's axis (trifinger_edu.urdf).
Everything is in metres above the table's floor, radians, and fingers in causal_world's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FINGERS = 3
FLOOR = 0.011
HIP_HEIGHT = 0.34 - FLOOR
HIP_RADIUS = 0.0455  # of the hips from the centre
LINK = 0.16
SIDE = 0.014 + 0.03745 + 0.008
# Where a finger's x axis points: the robot is turned by -90 degrees, the fingers by -120 each.
YAW = -np.pi / 2 - np.arange(FINGERS) * 2 * np.pi / 3
_COS, _SIN = np.cos(YAW), np.sin(YAW)
REACH = 0.05  # how far along an axis an action of 1 sends a fingertip
JOINT_LOW = np.tile([-1.57, -1.2, -3.0], FINGERS)  # hip, knee, ankle of each finger
JOINT_HIGH = np.tile([1.0, 1.57, 3.0], FINGERS)


def tips(joints: np.ndarray) -> np.ndarray:
    """Where the fingertips (3, 3) are at joint positions (9,)."""
    hip, knee, ankle = np.reshape(joints, (FINGERS, 3)).T
    x = -LINK * (np.sin(knee) + np.sin(knee + ankle))
    down = LINK * (np.cos(knee) + np.cos(knee + ankle))
    y = -SIDE * np.cos(hip) - down * np.sin(hip)
    z = SIDE * np.sin(hip) - down * np.cos(hip)
    x = x - HIP_RADIUS
    return np.stack([_COS * x - _SIN * y, _SIN * x + _COS * y, HIP_HEIGHT + z], axis=1)


def wrapped(angle: Any) -> Any:
    """The same angle between -pi and pi."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def joints(targets: np.ndarray) -> np.ndarray:
    """Joint positions (9,) that bring the fingertips to (3, 3), or as near as links and joints allow."""
    x = _COS * targets[:, 0] + _SIN * targets[:, 1] + HIP_RADIUS
    y = -_SIN * targets[:, 0] + _COS * targets[:, 1]
    z = targets[:, 2] - HIP_HEIGHT
    down = np.sqrt(np.maximum(y**2 + z**2 - SIDE**2, 1e-12))
    hip = wrapped(np.arctan2(-down, -SIDE) - np.arctan2(z, y))
    # Of the two ways to bend, the one with the knee outwards: so the robot rests, and so the fingers do not meet.
    ankle = -np.arccos(np.clip((x**2 + down**2) / (2 * LINK**2) - 1.0, -1.0, 1.0))
    knee = np.arctan2(-x, down) - ankle / 2
    return np.clip(np.stack([hip, knee, ankle], axis=1).ravel(), JOINT_LOW, JOINT_HIGH)
