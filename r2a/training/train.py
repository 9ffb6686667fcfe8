"""A run from its first step, or its last checkpoint, to its end: evaluated, recorded and saved as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import optax

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.errors import UserError
from r2a.training.checkpoint import save_checkpoint
from r2a.training.course import Interrupted, Progress, Turn, refuse_nan, stop_on_signal
from r2a.training.learning import NotFiniteError
from r2a.training.metrics import MetricsWriter, require_tensorboard, start_run
from r2a.training.runs import checkpoint_to_resume

OFFENDING = "not_finite"
"""Folder in a run's in which the batch is kept that led to a loss which is no number."""


@runtime_checkable
class Run(Protocol):
    """A training run, whatever it learns from and wherever its parts are."""

    config: RunConfig
    saved: dict[str, Any]
    """What a run that goes on has to agree with: settings, and the fingerprint of the data, if any."""

    @property
    def steps(self) -> int:
        """Steps so far, as the run counts them."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether it can be saved now."""
        return True

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        ...

    def turn(self) -> Turn:
        """Go on for a while."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics of whole episodes that the agent plays as it is now."""
        ...

    def save(self, folder: str | Path, seconds: float, previous: Path | None) -> Path:
        """Write a checkpoint; `previous` is the one before, if any."""
        ...

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training."""
        ...

    def close(self) -> None:
        """Let go of everything."""


def train(
    run: Run,
    folder: str | Path,
    *,
    resume: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
    tensorboard: bool = False,
) -> Run:
    """Go through a run (or go on with it); everything about it ends up in `folder`, and it is closed."""
    try:
        _go_on(run, Path(folder), resume, watch, tensorboard)
    except NotFiniteError as broken:
        # What led there is kept; the last checkpoint is left as it is.
        kept = save_checkpoint(Path(folder) / OFFENDING, broken.batch, step=broken.update, config=run.saved)
        raise UserError(
            f"{broken.name} became {broken.value} in update {broken.update}; the run has stopped, its last good state "
            f"is kept in {folder}, and the batch that led there in {kept}: try a lower learner.learning-rate."
        ) from broken
    finally:
        run.close()
    return run


def _go_on(run: Run, folder: Path, resume: bool, watch: Callable[[Progress], None], tensorboard: bool) -> None:
    """All turns that are left."""
    config = run.config
    seconds, newest = 0.0, None
    # All that can be refused is refused before the run folder is made.
    if tensorboard:
        require_tensorboard()
    if resume:
        newest = checkpoint_to_resume(folder, run.saved)
        seconds = 0.0 if newest is None else run.restore(newest)
    else:
        start_run(folder, run.saved)
    first = run.steps
    with MetricsWriter(folder, first if resume else None, tensorboard=tensorboard) as writer, stop_on_signal() as stop:
        while run.steps < config.steps:
            began, before = time.perf_counter(), run.steps
            metrics, compiled = run.turn()
            turn_seconds = time.perf_counter() - began
            seconds += 0.0 if compiled else turn_seconds
            done, last = run.steps, run.steps >= config.steps
            refuse_nan(metrics, done, folder)
            if done % config.evaluate_every == 0 or last:
                metrics |= run.evaluate()
            metrics["time/train_seconds"] = seconds
            writer.write(done, metrics)
            if run.fresh and (done % config.checkpoint_every == 0 or last or stop.requested):
                writer.sync()
                refuse_nan({"the norm of the parameters": float(optax.tree.norm(run.agent))}, done, folder)
                newest = run.save(folder, seconds, newest)
            watch(Progress(done, (done - before) / turn_seconds, metrics))
            if stop.requested and run.fresh and not last:
                raise Interrupted
