"""A scripted controller for all five tasks: pinch a block with two fingers, carry it to its goal, let go.

It is a function of the observation alone. What to do next is read off where the fingers and the blocks are: fingers
that are away from the block go to either side of it; fingers beside it close; a block between two fingers is carried; a
block that covers its goal is let go, unless the goal is in the air. Lower goals come first. As a policy it has noise in
what is done, but not in what is recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import Seed, seed_number
from r2a.environments.causalworld import CausalWorldExpert, kinematics
from r2a.environments.causalworld.grasp import (
    GRIP_UP,
    OPEN,
    TIP,
    Grasp,
    choose,
    coverage,
    distance,
    half_extent,
    half_width,
    misaligned,
    open_gap,
)
from r2a.environments.causalworld.layout import Scene, Solid, read, yaw_of

SQUEEZE = 0.008  # how far a closed fingertip is sent into the block; the motors yield
LEAD = 0.05  # how far ahead of a free fingertip its target is
PULL = 0.01  # the same for a carried block, sideways
LIFT = 0.015  # upwards
SINK = 0.01  # downwards
TWIST = 0.1  # and in yaw, in radians
LOW = 0.012  # height of a block that is moved along the floor, or turned above its goal
LANDED = 0.006  # height at which a block may be let go
STRAIGHTEN = 0.1  # share of the angle between fingertips and faces that is taken back at each step
OVER = 0.04  # of a carried block above the wall: it hangs askew
TRAVEL = 0.11  # height of fingertips that pass over blocks
DONE = 0.93  # coverage at which a block is left alone
RELEASE = 0.965  # coverage at which a block is let go
# Where idle fingertips wait: as at the start, but higher.
IDLE = kinematics.tips(np.array([0.0, np.pi / 4, -np.pi / 4] * 3)) * [1, 1, 0] + [0, 0, 0.1]


def advise(observation: np.ndarray) -> np.ndarray:
    """The expert's action (9,) in [-1, 1] at an observation."""
    scene = read(observation)
    return np.clip((_targets(scene) - scene.tips).ravel() / kinematics.REACH, -1.0, 1.0)


def _targets(scene: Scene) -> np.ndarray:
    """Where to send the fingertips (3, 3)."""
    for block, aim in _assignment(scene):
        goal, grasp = _plan(scene, block, aim)
        held = _is_held(grasp, scene.tips, block)
        if _is_done(block, goal) and not held and not _in_the_air(scene, block, goal):
            continue
        targets = _walk(scene, IDLE)
        pair = [grasp.one, grasp.two]
        closing = _closing(grasp, scene.tips, block)
        gap = open_gap(grasp, block.position, _others(scene, block))
        if held:
            targets[pair] = _carry(scene, block, goal, grasp)
        elif closing > 0:
            targets[pair] = grasp.place(block.position, gap - closing * (gap + SQUEEZE))
        else:
            waiting = IDLE.copy()
            waiting[pair] = grasp.place(block.position, gap)
            targets[pair] = _walk(scene, waiting)[pair]
        return targets
    return _walk(scene, IDLE)


def _plan(scene: Scene, block: Solid, goal: Solid) -> tuple[Solid, Grasp]:
    """The goal, moved to where the block can stand if a wall is in its place, and the grasp to bring it there."""
    grasp = choose(block, goal, scene.tips, _others(scene, block), scene.walls)
    for solid in scene.walls:
        yaw = yaw_of(block.orientation) + grasp.turn
        deep = (block.size[0] * abs(np.sin(yaw)) + block.size[1] * abs(np.cos(yaw)) + solid.size[1]) / 2 + 0.001
        x, y, z = goal.position
        goal = goal._replace(position=np.array([x, np.sign(y) * max(abs(y), deep), z]))
    return goal, grasp


def _others(scene: Scene, block: Solid) -> list[Solid]:
    """What a finger beside a block must not touch."""
    return [*(other for other in scene.blocks if other is not block), *scene.walls]


def _assignment(scene: Scene) -> list[tuple[Solid, Solid]]:
    """Which block goes where, lower goals first; equal blocks are exchangeable, and the nearer one goes below."""
    blocks, goals = list(scene.blocks), list(scene.goals)
    if len(blocks) == 2 and np.allclose(blocks[0].size, blocks[1].size, atol=1e-3):
        low = min(goals, key=lambda goal: goal.position[2]).position
        away = [max(np.linalg.norm((block.position - low)[:2]), 0.02) + 0.05 * block.position[2] for block in blocks]
        if away[1] < away[0]:
            blocks.reverse()
    return sorted(zip(blocks, goals, strict=True), key=lambda pair: pair[1].position[2])


def _is_done(block: Solid, goal: Solid) -> bool:
    return coverage(block, goal) >= DONE and bool(misaligned(block, goal) < 0.3)


def _is_held(grasp: Grasp, tips: np.ndarray, block: Solid) -> bool:
    out, along, up = np.abs(grasp.offsets(tips, block.position)).T
    return bool((out < half_width(block, grasp.axis) + TIP + 0.004).all() and max(*along, *up) < 0.035)


def _closing(grasp: Grasp, tips: np.ndarray, block: Solid) -> float:
    """How far fingers may close, from 0 to 1: the better they stand to their faces, the further.

    By degrees: where one command dies away before the next sets in, a cloned policy would come to rest.
    """
    out, along, up = grasp.offsets(tips, block.position).T
    askew = np.maximum(np.abs(along), np.abs(up - GRIP_UP))
    near = np.clip((grasp.half + TIP + OPEN + 0.02 - out) / 0.01, 0, 1) * (out > grasp.half)
    return float((near * np.clip((0.016 - askew) / 0.008, 0, 1)).min())


def _in_the_air(scene: Scene, block: Solid, goal: Solid) -> bool:
    """Whether nothing is below a goal that a block could stand on."""
    bottom = goal.position[2] - goal.size[2] / 2
    if bottom < 0.01:
        return False
    for other in scene.blocks:
        beside = np.abs(other.position - goal.position)[:2].max()
        if other is not block and beside < 0.05 and abs(other.position[2] + half_extent(other)[2] - bottom) < 0.02:
            return False
    return True


def _carry(scene: Scene, block: Solid, goal: Solid, grasp: Grasp) -> np.ndarray:
    """Where to send two fingers that hold a block: along with it towards the goal, or apart."""
    tips = scene.tips[[grasp.one, grasp.two]]
    error = goal.position - block.position
    away = float(np.linalg.norm(error[:2]))
    airborne = _in_the_air(scene, block, goal)
    turned = abs(grasp.turn) < 0.1
    there = turned and (coverage(block, goal, slice(0, 2)) > RELEASE or away < 0.004)
    slow = np.linalg.norm(block.velocity) < 0.02 and away < 0.008 and (turned or _is_done(block, goal))
    # Of its lowest corner above what it shall stand on: a block that hangs askew lands with its centre too high.
    height = block.position[2] - half_extent(block)[2] - (goal.position[2] - half_extent(goal)[2])
    if not airborne and (there or slow) and height < LANDED:
        return grasp.place(block.position, OPEN) * [1, 1, 0] + tips * [0, 0, 1]
    # Down only where and as it shall stand: on the floor it would not turn.
    above = _clearance(scene, block, goal) * np.clip((away - 0.008) / 0.03, 0, 1) + (0.0 if turned else LOW)
    error[2] += above - (0 if airborne else 0.003)
    if error[2] > 0.01 and away > 0.05:  # up first
        error[:2] *= np.clip(1 - (error[2] - 0.01) / 0.015, 0, 1)
    sideways = min(1.0, PULL / max(float(np.linalg.norm(error[:2])), 1e-9))
    move = np.append(error[:2] * sideways, np.clip(error[2], -SINK, LIFT))
    if height < LANDED and move[2] < 0:  # what stands cannot sink, but fingers would slide down
        move[2] = block.position[2] + GRIP_UP - tips[:, 2].mean()
    # Only the middle of the fingertips follows them: their distance, and any skew between them, is commanded.
    line = tips[0] - tips[1]
    angle = np.arctan2(line[1], line[0])
    slip = kinematics.wrapped(np.arctan2(grasp.axis[1], grasp.axis[0]) - angle)
    angle += STRAIGHTEN * slip + np.clip(grasp.turn, -TWIST, TWIST)
    axis = np.array([np.cos(angle), np.sin(angle)])
    arm = np.append(axis * (grasp.half + TIP - SQUEEZE), 0.0)
    return tips.mean(axis=0) + move + np.stack([arm, -arm])


def _clearance(scene: Scene, block: Solid, goal: Solid) -> float:
    """How high above its goal a block is carried."""
    half = block.size[2] / 2
    for wall in scene.walls:
        beyond = block.position[1] * np.sign(goal.position[1]) - (half_extent(block)[1] + wall.size[1] / 2)
        if beyond < 0:
            return float(wall.size[2] + half + OVER - goal.position[2])
    return 0.045 if goal.position[2] > 2 * half else LOW


def _walk(scene: Scene, goals: np.ndarray) -> np.ndarray:
    """Where to send free fingertips on their way to `goals`: straight, or over what is in between."""
    targets = goals.copy()
    for finger, (tip, goal) in enumerate(zip(scene.tips, goals, strict=True)):
        if _blocked(scene, tip, goal):
            if tip[2] > TRAVEL - 0.02:
                targets[finger, 2] = TRAVEL
            else:
                targets[finger] = [*tip[:2], TRAVEL]
        step = targets[finger] - tip
        targets[finger] = tip + step * min(1.0, LEAD / max(np.linalg.norm(step), 1e-9))
    return targets


def _blocked(scene: Scene, tip: np.ndarray, goal: np.ndarray) -> bool:
    """Whether a block or the wall stands between a low fingertip, or its goal, and the other."""
    points = tip + (goal - tip) * np.linspace(0, 1, 16)[:, None]
    margin = TIP + np.linspace(0.004, -0.003, 16)  # the way may be long, but the goal is where it has to be
    for solid in [*scene.blocks, *scene.walls]:
        low = points[:, 2] < solid.position[2] + solid.size[2] / 2 + TIP + 0.01
        if (low & (distance(points, solid) < margin)).any():
            return True
    return False


STALL, STALLED = 5, 0.15
"""How many steps a stall lasts, and how much of what is advised is done then."""


class Expert:
    """The controller, with noise of standard deviation `noise`, and hardly moving now and then (CausalWorldExpert).

    A stall begins with probability `stalls / STALL`, in episodes with noise. What is recorded of an action is what the
    controller advises: that is what is to be imitated.
    """

    def __init__(
        self, env: FromGymnasium, task: str, seed: Seed, noise: float = 0.0, settings: Any = CausalWorldExpert()
    ):
        self._env, self._noise, self._stalls = env, noise, settings.stalls if noise else 0.0
        self._generator = np.random.default_rng(seed_number(seed))
        self._left = 0

    def act(self, view: Any, step: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """What to do, and what is recorded; it reads numbers, whatever is observed."""
        sees_pictures = len(self._env.spec.observation.shape) > 1
        advice = advise(self._env.env(0).numbers() if sees_pictures else view.observation[0])
        if self._left == 0 and self._generator.random() < self._stalls / STALL:
            self._left = STALL
        vigour = STALLED if self._left else 1.0
        self._left = max(self._left - 1, 0)
        action = np.clip(vigour * advice + self._noise * self._generator.normal(size=9), -1.0, 1.0)
        return action.astype(np.float32)[None], {"recorded": advice.astype(np.float32)[None]}
