"""What all training runs have in common: somebody watches, may stop them, and no broken state is ever saved."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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

    try:
        before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
