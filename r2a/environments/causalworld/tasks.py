"""The five tasks of the paper: how causal_world builds them, and what a seed decides.

| task           | block starts                              | goal                             | goal's yaw |
|----------------|-------------------------------------------|----------------------------------|------------|
| pushing        | (0, -0.08), yaw 0                         | on the floor, anywhere           | any        |
| picking        | the centre, yaw 0                         | above the centre, height only    | 0          |
| pick_and_place | 0.09 from the centre, on a side of a wall | on the floor beyond the wall     | any        |
| stacking2      | the centre and (0.01, 0.08), yaw 0        | a tower, anywhere                | 0          |
| stacked_blocks | anywhere, any yaw; 6.5 to 12 cm wide      | a wide tower, long sides along x | 0          |

Lengths in metres. All cubes have sides of 6.5 cm and all blocks weigh 20 g. causal_world ignores the yaw it draws for
the tower of stacking2. Goals (and whatever of the start causal_world's own `sample_new_goal` draws) are a function of
the seed, drawn from causal_world's "space A" or, outside the training range, from its "space B". Some goals of
pick_and_place reach into the wall: there, no block can cover all of the goal.

Limits of ours:
- stacked_blocks has two levels of one block each (causal_world: one to five levels of one or more), since the
  observation holds two blocks. Blocks start within 11 cm of the centre (its space A for blocks), and starts are drawn
  again until a finger fits between the blocks, and between the upper one and the goal of the lower (causal_world lets
  blocks start up to 3 cm inside each other, which throws them apart). They weigh what the blocks of the other tasks
  weigh (causal_world: 20 to 60 g, unseen by the agent).
- space B: goals lie up to 13 cm from the centre (causal_world: 15 cm), since a finger cannot reach around a block
  beyond that, and from 11 cm on (pick_and_place: 12), where space A ends; stacked_blocks gets larger blocks (6.5 to
  7.5 cm) instead of more levels, at the same places.

Success is `fractional_success`: the share of the goals' axis-aligned bounding boxes that the blocks' bounding boxes
cover. A task counts as solved if it is above 0.9 at the last step. A cube at 45 degrees has the largest bounding box:
it covers a goal of any yaw, while a cube at 0 degrees covers half of a goal at 45.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from r2a.errors import UserError

SOLVED = 0.9

CUBE = 0.065
BLOCK_MASS = 0.02
WIDEST_BLOCK = 0.12  # below twice the smallest side, so that causal_world never splits a level into two blocks
FARTHEST_START, FARTHEST_GOAL = 0.11, 0.13
FINGER_ROOM = 0.022  # between blocks at the start: the width of a fingertip
TRIES = 100

TASKS = {"pushing": 75, "picking": 75, "pick_and_place": 120, "stacking2": 150, "stacked_blocks": 150}
"""The tasks, and how many steps an episode has at 25 actions per second."""
TASK_NAMES: tuple[str, ...] = tuple(TASKS)

_SIDES = {"blocks_min_size": CUBE, "max_level_width": WIDEST_BLOCK}
OPTIONS = {"stacked_blocks": {"num_of_levels": 2, "tool_block_mass": BLOCK_MASS, **_SIDES}}
"""What causal_world is told of a task besides its name."""


def solved(fractional_success: float) -> bool:
    """Whether a task counts as solved at its last step."""
    return fractional_success > SOLVED


def draw_start(world: Any, goals: str) -> None:
    """Put a world at the start of an episode; everything random is drawn from numpy's global generator."""
    task = world.get_task()
    name = task.get_task_name()
    for _ in range(TRIES):
        # From the default start each time: a refused draw must leave no trace of the episode before.
        task._current_starting_state = task._default_starting_state
        goal = _stack_sizes(goals) if name == "stacked_blocks" else _near(name, task.sample_new_goal())
        accepted, _, changed = task.reset_task(goal, check_bounds=False)
        if changed:
            world._reset_observations_space()
        if accepted and (name != "stacked_blocks" or _scatter(world)):
            world._episode_length = 0
            task._set_task_state()
            return
    raise UserError(f"No start of {name} was accepted in {TRIES} draws; choose another seed.")


def _near(task: str, goal: dict[str, Any]) -> dict[str, Any]:
    """A goal no farther from the centre than the fingers reach around a block; one of space B stays outside of A."""
    for name, change in goal.items():
        place = change.get("cylindrical_position")
        if place is not None and name.startswith("goal") and place[0] > FARTHEST_GOAL:
            place[0] = np.random.uniform(0.12 if task == "pick_and_place" else 0.11, FARTHEST_GOAL)
    return goal


def _stack_sizes(goals: str) -> dict[str, Any]:
    """Which family of stacks to draw from; causal_world then draws the widths and the place."""
    smallest = CUBE if goals == "space_a" else np.random.uniform(CUBE, 0.075)
    return {"stack_levels": 2, "blocks_mass": BLOCK_MASS, **_SIDES, "blocks_min_size": smallest}


def _scatter(world: Any) -> bool:
    """Give the blocks of stacked_blocks places of their own, and say whether that worked."""
    stage = world.get_stage()
    names = list(stage.get_rigid_objects())
    sizes = [np.asarray(stage.get_object_state(name, "size"), float) for name in names]
    corner = [np.hypot(*size[:2]) / 2 for size in sizes]
    lower_goal = np.asarray(stage.get_object_state(names[0].replace("tool", "goal"), "cartesian_position"))[:2]
    for _ in range(TRIES):
        radius = FARTHEST_START * np.sqrt(np.random.uniform(size=2))
        angle, yaw = np.random.uniform(-np.pi, np.pi, (2, 2))
        places = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        apart = np.linalg.norm(places[0] - places[1]) > corner[0] + corner[1] + FINGER_ROOM
        if apart and np.linalg.norm(places[1] - lower_goal) > corner[0] + corner[1] + FINGER_ROOM:
            break
    else:
        return False
    for name, size, place, turn in zip(names, sizes, places, yaw, strict=True):
        upright = [0.0, 0.0, np.sin(turn / 2), np.cos(turn / 2)]
        stage.get_rigid_objects()[name].set_pose(np.array([*place, size[2] / 2]), upright)
    world.get_robot().reset_state()  # causal_world let the fingers fall while it placed blocks of its own
    return True
