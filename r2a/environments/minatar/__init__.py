"""MinAtar: five Atari games on a board of 10 x 10, one channel for each kind of thing on it.

env       the games (needs MinAtar: `pip install 'r2a[minatar]'`)
features  its convolution
"""

from __future__ import annotations

from dataclasses import dataclass

from r2a.config import EnvSettings, require, require_positive
from r2a.environments.registry import World

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


@dataclass(frozen=True)
class MinAtarSettings(EnvSettings):
    """One of the five games of MinAtar (Young and Tian 2019): Atari's dynamics on a board of 10 x 10."""

    game: str = "breakout"
    """asterix, breakout, freeway, seaquest or space_invaders."""
    sticky: float = 0.1  # MinAtar's default
    """Probability that the action before is done once more."""
    ramping: bool = True  # MinAtar's default
    """The game gets harder as it goes on, where it knows how to."""
    all_actions: bool = True  # MinAtar's default
    """All 6 actions, or those that do something in this game."""
    max_steps: int = 10_000  # ours: MinAtar itself sets no limit, and a perfect player of breakout needs one
    """After this many steps an episode is truncated."""

    def __post_init__(self) -> None:
        require_positive(self, "max_steps", section="env.")
        require(0.0 <= self.sticky < 1.0, "env.sticky", self.sticky, "it must lie between 0 and 1, 1 excluded")


WORLD = World(
    name="minatar",
    make="r2a.environments.minatar.env:make",
    settings=MinAtarSettings(),
    features="r2a.environments.minatar.features",
)
