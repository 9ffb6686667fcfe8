"""How games and simulators are set up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from r2a.config.rules import require, require_positive


def require_share(section: str, name: str, value: float) -> None:
    """Refuse what is no probability below one."""
    require(0.0 <= value < 1.0, f"{section}{name}", value, "it must lie between 0 and 1, 1 excluded")


def require_cameras(section: str, cameras: tuple[int, ...]) -> None:
    """Refuse cameras that CausalWorld does not have, and the same one twice."""
    known = set(cameras) <= {0, 1, 2} and len(set(cameras)) == len(cameras)
    require(known, f"{section}cameras", cameras, "it must name some of 0, 1 and 2, or none")


@dataclass(frozen=True)
class AtariConfig:
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
    side: Literal[84, 42] = 84  # NGU Table 8: 84 x 84
    """Pixels of a picture's side; 42 is for CPUs."""
    sticky: float = 0.0  # NGU Table 8; Machado et al. 2018 recommend 0.25
    """Probability, frame by frame, that the action before goes on."""
    clip_rewards: bool = False  # R2D2 Sec. 2.3: h(x) of the Q-values in place of clipped rewards
    """Rewards for learning are -1, 0 or 1; scores are counted unclipped either way."""
    all_actions: bool = True  # NGU Table 8: the full set
    """All 18 actions (in Skiing, which knows no button, 9), or those that do something in this game."""
    life_ends_episode: bool = False  # R2D2 Sec. 2.3 disables it
    """A lost life ends the episode for learning; the game itself, and its score, go on."""
    max_frames: int = 108_000  # NGU Table 8: 30 minutes
    """After this many frames, those at the start not counted, an episode is truncated."""

    def __post_init__(self) -> None:
        # One frame at least: the screen is only drawn by playing.
        require_positive(self, "noops", "frame_skip", section="atari.")
        require_share("atari.", "sticky", self.sticky)
        require(
            self.max_frames >= self.frame_skip,
            "atari.max-frames",
            self.max_frames,
            f"one action lasts atari.frame-skip = {self.frame_skip} frames",
        )


@dataclass(frozen=True)
class MinAtarConfig:
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
        require_positive(self, "max_steps", section="minatar.")
        require_share("minatar.", "sticky", self.sticky)


@dataclass(frozen=True)
class CausalWorldConfig:
    """The simulator that agents of CausalWorld are evaluated in (Sec. 3.4)."""

    skip_frame: int = 10  # causal_world's default
    """Steps of the simulation, at 250 a second, that an action lasts; data were collected with the same."""
    max_steps: int = 0
    """Steps of an episode (0: as many as the task has, 75 to 150)."""
    goals: Literal["space_a", "space_b"] = "space_a"
    """Where goals lie: space_a, as in the data; space_b, outside of that."""
    cameras: tuple[int, ...] = ()  # App. CausalWorld: "visual observations"; ours are numbers by default
    """Cameras (0, 1, 2) whose pictures of table and goal the agent sees in place of numbers, as the data have them;
    encoder.features must then be one for pictures, such as strided_half."""
    side: Literal[128, 64, 32] = 64  # causal_world's has 128
    """Pixels of a picture's side."""
    processes: int = 1
    """Processes of simulators; the outcome does not depend on it."""

    def __post_init__(self) -> None:
        require_positive(self, "skip_frame", "processes", section="causalworld.")
        require(self.max_steps >= 0, "causalworld.max-steps", self.max_steps, "it must be 0 (the task's own) or more")
        require_cameras("causalworld.", self.cameras)
