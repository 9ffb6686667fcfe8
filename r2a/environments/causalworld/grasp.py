"""Which two fingers pinch a block across which two faces, and how far it is turned on the way to its goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from r2a.environments.causalworld import kinematics
from r2a.environments.causalworld.layout import Solid, yaw_of

TIP = 0.0105  # from a fingertip's centre to its skin
GRIP_UP = 0.015  # of the fingertips above the block's centre: hanging is stable, and fingers reach farther up there
OPEN = 0.025  # between a fingertip's skin and the face before it closes
WIDE = 0.04  # half of what two fingers hold well; wider faces cost more
PAIRS = ((0, 1), (1, 2), (2, 0))
HIPS = -kinematics.HIP_RADIUS * np.stack([np.cos(kinematics.YAW), np.sin(kinematics.YAW)], axis=1)
STRAIGHT = 0.4  # cost of a radian by which a long block is askew
STRAIN = 0.12  # cost of a square radian by which two fingers are turned about each other at the goal
AT_HAND = 0.06  # travel of two fingers that are in a grasp already
ROOM = 20.0  # cost of a metre by which a fingertip would be inside something
TURNS = np.deg2rad(np.arange(-60, 61, 5))


def rotation(solid: Solid) -> np.ndarray:
    """A solid's orientation as a matrix (3, 3)."""
    x, y, z, w = solid.orientation
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def half_extent(solid: Solid) -> np.ndarray:
    """Half the sides of a solid's axis-aligned bounding box."""
    return np.abs(rotation(solid)) @ solid.size / 2


def half_width(solid: Solid, axis: np.ndarray) -> float:
    """Half of what a solid measures along a horizontal axis (2,)."""
    return float(np.abs(axis @ rotation(solid)[:2]) @ solid.size / 2)


def coverage(block: Solid, goal: Solid, axes: slice = slice(0, 3)) -> float:
    """How much of a goal's bounding box a block's covers: causal_world's measure of success, along some axes."""
    mine, theirs = half_extent(block), half_extent(goal)
    low = np.maximum(block.position - mine, goal.position - theirs)
    high = np.minimum(block.position + mine, goal.position + theirs)
    return float(np.prod((np.maximum(high - low, 0.0) / (2 * theirs))[axes]))


def coverage_turned(block: Solid, goal: Solid) -> np.ndarray:
    """The coverage at the goal's place if the block were turned by each of `TURNS`; askew long blocks count less."""
    yaw = yaw_of(block.orientation) + TURNS
    cosine, sine = np.abs(np.cos(yaw)), np.abs(np.sin(yaw))
    wide, deep = block.size[:2] / 2
    theirs = half_extent(goal)
    across = np.minimum((wide * cosine + deep * sine) / theirs[0], 1)
    along = np.minimum((wide * sine + deep * cosine) / theirs[1], 1)
    return across * along - STRAIGHT * misaligned(block, goal, TURNS)


def misaligned(block: Solid, goal: Solid, turn: np.ndarray | float = 0.0) -> np.ndarray:
    """The angle between a long block and its goal: askew, it may cover the goal but supports nothing. 0 for cubes."""
    if abs(block.size[0] - block.size[1]) < 0.01:
        return np.zeros_like(turn)
    angle = yaw_of(block.orientation) + turn - yaw_of(goal.orientation)
    return np.abs((angle + np.pi / 2) % np.pi - np.pi / 2)


class Grasp(NamedTuple):
    """Fingers `one` and `two` on opposite faces, `half` from the centre; `axis` points from two to one."""

    one: int
    two: int
    axis: np.ndarray
    half: float
    turn: float

    def offsets(self, tips: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Of both fingertips (2, 3) from the block's centre: outwards from their face, along it, up."""
        relative = tips[[self.one, self.two]] - centre
        outwards = relative[:, :2] @ self.axis * [1, -1]
        along = relative[:, :2] @ np.array([-self.axis[1], self.axis[0]])
        return np.stack([outwards, along, relative[:, 2]], axis=1)

    def place(self, centre: np.ndarray, gap: float) -> np.ndarray:
        """Where both fingertips (2, 3) are when their skin is `gap` away from their faces."""
        out = np.append(self.axis * (self.half + TIP + gap), 0.0)
        up = np.array([0.0, 0.0, GRIP_UP])
        return np.stack([centre + out + up, centre - out + up])


def distance(points: np.ndarray, solid: Solid) -> np.ndarray:
    """How far points (n, 2 or more) are from a solid, seen from above."""
    yaw = yaw_of(solid.orientation)
    turned = (points[:, :2] - solid.position[:2]) @ np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    return np.hypot(*np.maximum(np.abs(turned) - solid.size[:2] / 2, 0).T)


def open_gap(grasp: Grasp, centre: np.ndarray, solids: list[Solid]) -> float:
    """How far from the faces fingertips wait: `OPEN`, or less where something else stands close by."""
    for gap in (OPEN, OPEN * 0.7, OPEN * 0.45):
        if all((distance(grasp.place(centre, gap), solid) > TIP).all() for solid in solids):
            return gap
    return OPEN * 0.25


def choose(block: Solid, goal: Solid, tips: np.ndarray, others: list[Solid], wall: list[Solid]) -> Grasp:
    """The grasp that is nearest to the fingers, within reach here and at the goal, and turns the block as needed.

    Room for the fingers is needed beside `others` here, and beside the `wall`, which is among them, at the goal.
    Fingers that already stand at a block's faces are nearest to the grasp they are in, so the choice does not change
    half-way, and needs no memory.
    """
    covered = coverage_turned(block, goal) - 0.06 * np.abs(TURNS)
    yaw, candidates = yaw_of(block.orientation), []
    for quarter in range(4):
        half = block.size[quarter % 2] / 2
        angle = yaw + quarter * np.pi / 2
        axis = np.array([np.cos(angle), np.sin(angle)])
        for one, two in PAIRS:
            natural = np.arctan2(*(HIPS[one] - HIPS[two])[::-1])
            start = kinematics.wrapped(angle - natural)
            grasp = Grasp(one, two, axis, half, 0.0)
            travel = np.linalg.norm(tips[[one, two]] - grasp.place(block.position, 0.0), axis=1).sum()
            if abs(start) > 1.2 and travel > AT_HAND:
                continue
            strain = 0.06 * kinematics.wrapped(start + TURNS) ** 2
            turn = TURNS[np.argmax(covered - strain)]
            bent = kinematics.wrapped(start + turn)
            cost = travel + 0.08 * start**2 + STRAIN * bent**2 - 0.3 * np.max(covered - strain)
            if half > WIDE:
                cost += 0.15
            if travel < AT_HAND:
                cost -= 1.0
            candidates.append((float(cost), grasp._replace(turn=float(turn))))
    best, lowest = None, np.inf
    for cost, grasp in sorted(candidates, key=lambda candidate: candidate[0]):
        if cost >= lowest:  # what is left to be added is never negative, and takes most of the time
            break
        cosine, sine = np.cos(grasp.turn), np.sin(grasp.turn)
        there = grasp._replace(axis=np.array([[cosine, -sine], [sine, cosine]]) @ grasp.axis)
        cost += 15 * (_out_of_reach(grasp, block.position) + _out_of_reach(there, goal.position))
        cost += ROOM * (_obstructed(grasp, block.position, others) + _obstructed(there, goal.position, wall))
        if cost < lowest:
            best, lowest = grasp, cost
    assert best is not None
    return best


def _out_of_reach(grasp: Grasp, centre: np.ndarray) -> float:
    targets = np.zeros((3, 3)) + centre
    targets[[grasp.one, grasp.two]] = grasp.place(centre, OPEN / 2)
    missed = kinematics.tips(kinematics.joints(targets)) - targets
    return float(np.linalg.norm(missed[[grasp.one, grasp.two]], axis=1).sum())


def _obstructed(grasp: Grasp, centre: np.ndarray, solids: list[Solid]) -> float:
    points = np.concatenate([grasp.place(centre, gap) for gap in (0.003, OPEN / 4, OPEN / 2)])
    return float(sum(np.maximum(TIP + 0.006 - distance(points, solid), 0).sum() for solid in solids))
