"""What an agent that learns while it acts keeps of what it saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from r2a.config.rules import require, require_positive


@dataclass(frozen=True)
class ReplayConfig:
    """The replay of sequences (App. Atari, Table 3; R2D2)."""

    kind: Literal["prioritised", "uniform"] = "prioritised"  # Table 3
    """uniform: every sequence is as likely as any other."""
    capacity: int = 100_000  # Table 3
    """Blocks of `period` steps that are kept; a sequence begins with each."""
    minimum: int = 5_000  # Table 3
    """Sequences that must be there before anything is learnt."""
    trace: int = 80  # Table 3
    """Steps in a sequence."""
    period: int = 40  # Table 3
    """Steps between the starts of two sequences."""
    burn_in: int = 0  # ours: not listed in the paper
    """Steps before a sequence, over which the memory is brought up to date and nothing is learnt."""
    stack: int = 1  # ours
    """Frames that make one observation: the newest and those just before it, put together when a sequence is read."""
    priority_exponent: float = 0.9  # Table 3
    """How much likelier a sequence with a larger error is drawn (0: not at all)."""
    importance_exponent: float = 0.6  # Table 3
    """How much of that is undone by the weight of a sequence in the loss (0: nothing, 1: all)."""
    priority_floor: float = 1e-6  # ours
    """Lowest priority, so that a sequence without any error may be drawn again."""
    memory_share: float = 0.5  # ours
    """Share of the machine's memory that frames may take; more of them need a file."""

    def __post_init__(self) -> None:
        positive = ("capacity", "minimum", "trace", "period", "stack", "priority_floor", "memory_share")
        require_positive(self, *positive, section="replay.")
        require(
            self.minimum <= self.capacity,
            "replay.minimum",
            self.minimum,
            f"there is only room for replay.capacity = {self.capacity} sequences",
        )
        require(
            self.trace >= self.period,
            "replay.trace",
            self.trace,
            f"it must not be less than replay.period = {self.period}, or steps would be left out",
        )
        require(self.burn_in >= 0, "replay.burn-in", self.burn_in, "it must not be negative")
        for name in ("priority_exponent", "importance_exponent"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"replay.{name.replace('_', '-')}", value, "it must lie between 0 and 1")
        require(self.memory_share <= 1, "replay.memory-share", self.memory_share, "it must not be more than 1")
