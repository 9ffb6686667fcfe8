"""CausalWorld: a three-fingered robot that pushes, picks, places and stacks blocks (causal_world's implementation).

    tasks       the five tasks of the paper, what varies from episode to episode, what counts as solved
    layout      one observation for all of them
    kinematics  from joints to fingertips and back
    grasp       which fingers hold a block where
    expert      a scripted solution of all tasks, and the same as a policy, with noise
    features    what networks see of the observation
    env         one task for Gymnasium, and many of those
    upstream    what is used of causal_world

Only the last two need pybullet and causal_world, and none but features needs jax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from r2a.config import CollectConfig, EnvSettings, ExpertSettings, require, require_positive
from r2a.environments.causalworld.layout import SIZE
from r2a.environments.registry import World
from r2a.errors import UserError


@dataclass(frozen=True)
class CausalWorldSettings(EnvSettings):
    """The simulated robot (Sec. 3.4)."""

    skip_frame: int = 10  # causal_world's default
    """Steps of the simulation, at 250 a second, that an action lasts; a run's is that of its data."""
    max_steps: int = 0
    """Steps of an episode (0: as many as the task has, 75 to 150)."""
    goals: Literal["space_a", "space_b"] = "space_a"
    """Where goals lie: space_a, as in the data; space_b, outside of that."""
    cameras: tuple[int, ...] = ()  # App. CausalWorld: "visual observations"; ours are numbers by default
    """Cameras (0, 1, 2) whose pictures of table and goal the agent sees in place of numbers, as the data have them;
    encoder.features must then be one for pictures, such as strided_half."""
    image_size: Literal[128, 64, 32] = 64  # causal_world's has 128
    """Pixels of a picture's side."""
    processes: int = 1
    """Processes of simulators; the outcome does not depend on it."""

    def __post_init__(self) -> None:
        require_positive(self, "skip_frame", "processes", section="env.")
        require(self.max_steps >= 0, "env.max-steps", self.max_steps, "it must be 0 (the task's own) or more")
        known = set(self.cameras) <= {0, 1, 2} and len(set(self.cameras)) == len(self.cameras)
        require(known, "env.cameras", self.cameras, "it must name some of 0, 1 and 2, or none")
        for name, choices in (("goals", ("space_a", "space_b")), ("image_size", (128, 64, 32))):
            if getattr(self, name) not in choices:
                names = ", ".join(map(str, choices))
                raise UserError(f"{name} must be one of {names}, not {getattr(self, name)!r}.")


@dataclass(frozen=True)
class CausalWorldExpert(ExpertSettings):
    """The scripted expert; its noise is a standard deviation of where fingertips are sent, in units of 5 cm."""

    stalls: float = 0.3
    """In episodes with noise the expert now and then hardly moves for five steps; at each step that begins with a
    probability of a fifth of this (0.3: about a quarter of the steps). What is advised where fingers stand still would
    be missing otherwise, and a cloned policy that comes to rest would stay there."""

    def __post_init__(self) -> None:
        require(0 <= self.stalls < 1, "expert.stalls", self.stalls, "it must lie between 0 and 1")


def provenance() -> dict[str, Any]:
    """The simulator's version, and what is recorded."""
    from importlib.metadata import version

    note = (
        "Actions are what the expert advised; what was done had the episode's noise added, and hardly moved where the "
        "expert stalled. Episodes end by their time alone: truncations."
    )
    return {"causal_world": version("causal_world"), "note": note}


def check_data(settings: CausalWorldSettings, made: dict[str, Any], shape: tuple[int, ...], where: str) -> None:
    """Refuse data where actions last longer, or something else is seen, than in the run's worlds."""
    collected = made.get("settings", {})
    collected = collected.get("env", collected)  # data of before have all their settings side by side
    skipped, cameras = collected.get("skip_frame"), tuple(collected.get("cameras", ()))
    if skipped != settings.skip_frame:
        raise UserError(
            f"An action of {where} lasts {skipped} frames, and env.skip-frame is {settings.skip_frame}; "
            f"set it to {skipped}."
        )
    size = collected.get("image_size", collected.get("side"))
    if (cameras, size if cameras else 0) != (settings.cameras, settings.image_size if settings.cameras else 0):
        shows = f"pictures of cameras {cameras} with {size} pixels to a side" if cameras else "numbers"
        raise UserError(
            f"{where} shows {shows}, and the run's environments would not: set env.cameras and env.image-size to what "
            "the data were collected with."
        )
    if not cameras and shape != (SIZE,):
        raise UserError(
            f"An observation of {where} has shape {shape}, and CausalWorld's are {SIZE} numbers: collect the data anew."
        )


WORLD = World(
    name="causalworld",
    make="r2a.environments.causalworld.env:make",
    settings=CausalWorldSettings(),
    expert="r2a.environments.causalworld.expert:Expert",
    collect=CollectConfig(episodes=250, ladder=(0.0, 0.05, 0.1), env=CausalWorldSettings(), expert=CausalWorldExpert()),
    dataset="causalworld-expert",
    features="r2a.environments.causalworld.features",
    provenance="r2a.environments.causalworld:provenance",
    check_data="r2a.environments.causalworld:check_data",
    max_envs=80,  # each takes a tenth of a second to make, and some memory
    in_processes=True,  # so that a simulator that crashes takes nothing with it
)
