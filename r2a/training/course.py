"""What all training runs have in common: somebody watches, may stop them, and no broken state is ever saved."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax

from r2a.errors import UserError


class Progress(NamedTuple):
    """Where a run stands, for whoever watches it."""

    step: int
    steps_per_second: float
    metrics: dict[str, Any]


class Turn(NamedTuple):
    """What came of a turn of a run: its metrics, and whether programs were compiled in it."""

    metrics: dict[str, Any]
    compiled: bool


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """The run was asked to stop and has saved its state."""


def refuse_nan(metrics: dict[str, Any], step: int, folder: str | Path) -> None:
    """Stop before a broken state overwrites a good one."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise UserError(
                f"{name} became {value} before step {step}; the run has stopped and its last good state is kept in "
                f"{folder}: try a lower learner.learning-rate."
            )


class StopRequest:
    """Set by the first Ctrl-C (or SIGTERM); the loop looks at it between compiled calls."""

    requested = False


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a request, because an exception inside a call would lose the donated state."""
    stop = StopRequest()

    def request(number: int, frame: object) -> None:
        stop.requested = True

    # Only the main thread may handle signals: whoever runs us elsewhere handles them.
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM) if here}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def use_compilation_cache() -> None:
    """Keep compiled programs on disk, so that a second start takes seconds; R2A_CACHE says where."""
    folder = os.environ.get("R2A_CACHE", str(Path.home() / ".cache" / "r2a" / "jax"))
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
