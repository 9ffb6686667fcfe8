"""What every game that is played online offers: lanes, each of which goes through episodes on its own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Integer, Shaped, UInt8

from r2a.errors import UserError

Observations = Shaped[np.ndarray, "B ..."]
Flags = Bool[np.ndarray, " B"]
Picture = UInt8[np.ndarray, "h w 3"]


@dataclass(frozen=True)
class LanesSpec:
    """The shapes and names that agents, replay and evaluation need to know of a game."""

    name: str
    game: str
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    action_names: tuple[str, ...]
    max_steps: int

    @property
    def num_actions(self) -> int:
        return len(self.action_names)


class LaneStep(NamedTuple):
    """What an action led to; the observation is the one after it, at an episode's end too."""

    observation: Observations
    reward: Float32[np.ndarray, " B"]
    terminated: Flags
    truncated: Flags

    @property
    def ended(self) -> Flags:
        """The lanes that have to be restarted."""
        return self.terminated | self.truncated


class FinishedEpisode(NamedTuple):
    """A game from its start to its end: all lives of it, and all rewards as the game gave them."""

    lane: int
    episode: int
    score: float
    length: int


@runtime_checkable
class Lanes(Protocol):
    """B games side by side. Nothing restarts by itself: a lane that ended takes no step before `restart`.

    An episode is a function of the run's seed, its lane, its number in that lane, and its actions.
    """

    @property
    def spec(self) -> LanesSpec: ...

    @property
    def num_lanes(self) -> int: ...

    def reset(self) -> Observations:
        """Begin the next episode in every lane; what was going on is given up."""
        ...

    def step(self, actions: Integer[np.ndarray, " B"]) -> LaneStep:
        """Do one action in every lane."""
        ...

    def restart(self, ended: Flags) -> Observations:
        """Begin new episodes in lanes that ended; the rows of the others are as they were."""
        ...

    def finished(self) -> list[FinishedEpisode]:
        """The games that came to their end since this was asked last."""
        ...

    def pictures(self, lane: int, episode: int, actions: bytes) -> Iterator[Picture]:
        """An episode of these lanes in colour, from its first observation to the one after its last action."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """All that other lanes need to go on from here."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on where `state` was taken, bit by bit the same."""
        ...

    def close(self) -> None:
        """Let go of the games."""
        ...


def require_lanes(num_lanes: int, seed: int) -> None:
    """Refuse numbers that make no lanes."""
    if num_lanes < 1:
        raise UserError(f"The number of lanes is {num_lanes}, but it must be greater than zero.")
    if seed < 0:
        raise UserError(f"The seed is {seed}, but it must not be negative.")


def require_game(name: str, games: Sequence[str], option: str) -> None:
    """Refuse an unknown game with the names that come close, or all where there are few."""
    if name in games:
        return
    simple = name.lower().replace("-", "_").replace(" ", "_")
    close = games if len(games) < 10 else difflib.get_close_matches(simple, games, n=3, cutoff=0.5)
    advice = f"choose {' or '.join(close)}" if close else f"choose one of the {len(games)} games, such as {games[0]}"
    raise UserError(f"{option} is {name!r}, but there is no such game: {advice}.")
