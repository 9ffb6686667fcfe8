"""CausalWorld: a three-fingered robot that pushes, picks, places and stacks blocks (causal_world's implementation).

    tasks       the five tasks of the paper, what varies from episode to episode, what counts as solved
    layout      one observation for all of them
    kinematics  from joints to fingertips and back
    grasp       which fingers hold a block where
    controller  a scripted solution of all tasks, a function of the observation alone
    expert      its episodes, with noise
    gym         one task for Gymnasium
    worlds      many of those at once, in processes that are replaced when they die
    upstream    what is used of causal_world

Only the last four need pybullet and causal_world, and none needs jax.
"""

from r2a.environments.causalworld.tasks import SOLVED, TASK_NAMES, TASKS, solved, task_entry

__all__ = ["GYMNASIUM_ID", "NAME", "SOLVED", "TASKS", "TASK_NAMES", "solved", "task_entry"]

NAME = "causalworld"
GYMNASIUM_ID = "r2a/CausalWorld-v0"
