"""Atari: 57 games of the Arcade Learning Environment.

    scores   the games, and what chance and people score in them
    screen   from the emulator's screen to what an agent sees
    env      the emulator (needs ale-py: `pip install 'r2a[atari]'`)

One frame per observation: who wants a stack of frames makes it from a sequence of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from r2a.config import EnvSettings, require, require_positive
from r2a.environments.registry import World


@dataclass(frozen=True)
class AtariSettings(EnvSettings):
    """One of the 57 Atari games (Sec. 3.1).

    The paper follows CoBERL and R2D2 and names no settings of its own. What R2D2's paper leaves open is taken from
    NGU (Badia et al. 2020, Table 8), R2D2's descendant, which lists all of them.
    """

    game: str = "breakout"
    """Its name in ale-py: ms_pacman, not MsPacman."""
    noops: int = 30  # R2D2, NGU Table 8
    """An episode starts after 1 to this many frames in which nothing is done."""
    frame_skip: int = 4  # NGU Table 8: action repeats
    """Frames that an action lasts."""
    pool_frames: bool = True  # NGU Table 8: frames 3 and 4
    """See the brighter of the last two frames, pixel by pixel: some games draw a thing in every other frame only."""
    image_size: Literal[84, 42] = 84  # NGU Table 8: 84 x 84
    """Pixels of a picture's side; 42 is for CPUs."""
    sticky: float = 0.0  # NGU Table 8; Machado et al. 2018 recommend 0.25
    """Probability, frame by frame, that the action before goes on."""
    clip_rewards: bool = False  # R2D2 Sec. 2.3: h(x) of the Q-values in place of clipped rewards
    """Rewards for learning are -1, 0 or 1; scores are counted unclipped either way."""
    all_actions: bool = True  # NGU Table 8: the full set
    """All 18 actions (in Skiing, which knows no button, 9), or those that do something in this game."""
    life_ends_episode: bool = False  # R2D2 Sec. 2.3 disables it
    """A lost life counts as an end for learning (discount 0); the game itself, and its score, go on."""
    max_frames: int = 108_000  # NGU Table 8: 30 minutes
    """After this many frames, those at the start not counted, an episode is truncated."""

    def __post_init__(self) -> None:
        # One frame at least: the screen is only drawn by playing.
        require_positive(self, "noops", "frame_skip", section="env.")
        require(0.0 <= self.sticky < 1.0, "env.sticky", self.sticky, "it must lie between 0 and 1, 1 excluded")
        rule = f"one action lasts env.frame-skip = {self.frame_skip} frames"
        require(self.max_frames >= self.frame_skip, "env.max-frames", self.max_frames, rule)


WORLD = World(name="atari", make="r2a.environments.atari.env:make", settings=AtariSettings())
