"""What every vectorised environment offers: pure functions of one state, to be vmapped by the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, UInt32

State = TypeVar("State")
PRNGKey = Key[Array, ""] | UInt32[Array, "2"]
Integer = Int[ArrayLike, ""]


@dataclass(frozen=True)
class EnvironmentSpec:
    """The shapes and names that agents and data sets need to know of an environment."""

    name: str
    observation_shape: tuple[int, ...]
    num_actions: int
    episode_length: int
    task_names: tuple[str, ...]

    @property
    def num_tasks(self) -> int:
        return len(self.task_names)


class Environment(Protocol[State]):
    """A multi-task environment without a batch axis: every method is pure, can be jitted and vmapped.

    Episodes have exactly `spec.episode_length` steps. The end is a truncation, never a termination: callers
    count the steps and bootstrap from the last observation.
    """

    @property
    def spec(self) -> EnvironmentSpec: ...

    def reset(self, key: PRNGKey) -> State:
        """Draw a start state; consumes `key`."""
        ...

    def observe(self, state: State) -> Any:
        """What the agent sees of `state`."""
        ...

    def step(self, state: State, action: Integer, task: Integer) -> tuple[State, Float[Array, ""]]:
        """The next state, and the reward of `task` in that next state; both integers may be traced."""
        ...
