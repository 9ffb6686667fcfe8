"""Many games of MinAtar side by side."""

from __future__ import annotations

import numpy as np

from r2a.config import MinAtarConfig
from r2a.environments.games import GameLanes
from r2a.environments.lanes import LanesSpec, require_lanes
from r2a.environments.minatar import NAME
from r2a.environments.minatar.board import SIDE, Board


def make_minatar(config: MinAtarConfig, num_lanes: int, seed: int) -> GameLanes:
    """`num_lanes` boards with the same game, in this process."""
    require_lanes(num_lanes, seed)
    boards = [Board(config) for _ in range(num_lanes)]
    spec = LanesSpec(
        name=NAME,
        game=config.game,
        observation_shape=(SIDE, SIDE, boards[0].channels),
        observation_dtype=np.dtype(bool),
        action_names=boards[0].action_names,
        max_steps=config.max_steps,
    )
    return GameLanes(spec, boards, lambda: Board(config), seed)
