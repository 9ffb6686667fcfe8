"""Many Atari games side by side."""

from __future__ import annotations

import numpy as np

from r2a.config import AtariConfig
from r2a.environments.atari import NAME
from r2a.environments.atari.console import Console
from r2a.environments.games import GameLanes
from r2a.environments.lanes import LanesSpec, require_lanes


def make_atari(config: AtariConfig, num_lanes: int, seed: int) -> GameLanes:
    """`num_lanes` consoles with the same game, in this process."""
    require_lanes(num_lanes, seed)
    consoles = [Console(config) for _ in range(num_lanes)]
    spec = LanesSpec(
        name=NAME,
        game=config.game,
        observation_shape=(config.side, config.side),
        observation_dtype=np.dtype(np.uint8),
        action_names=consoles[0].action_names,
        max_steps=config.max_frames // config.frame_skip,
    )
    return GameLanes(
        spec,
        consoles,
        lambda: Console(config, in_colour=True),
        seed,
        clip_rewards=config.clip_rewards,
        life_ends_episode=config.life_ends_episode,
    )
