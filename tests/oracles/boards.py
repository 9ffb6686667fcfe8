"""What boards of gridroboman solve, task by task."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from r2a.environments.gridroboman.dynamics import State
from r2a.environments.gridroboman.tasks import TASKS


def solved_tasks(state: State) -> jax.Array:
    """For every task whether `state` solves it."""
    return jnp.stack([task.solved(state) for task in TASKS.values()])
