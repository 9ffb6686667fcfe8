"""What networks see of CausalWorld's observation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from r2a.environments.causalworld import layout
from r2a.environments.causalworld.env import CausalWorldEnv
from r2a.environments.causalworld.features import CLOCK_AND_SPEEDS, pose_features


def test_poses_leave_out_clock_and_speeds_alone():
    hidden = [0, *range(10, 19)]
    for block in range(layout.MAX_BLOCKS):
        start = layout.BLOCKS_AT + block * layout.BLOCK_SIZE
        hidden += range(start + layout.GOAL_SIZE, start + layout.BLOCK_SIZE)
    assert list(CLOCK_AND_SPEEDS) == hidden
    environment = CausalWorldEnv("stacking2")
    observation = environment.reset(seed=0)[0]
    environment.close()
    np.testing.assert_array_equal(pose_features(jnp.asarray(observation)), np.delete(observation, hidden))
