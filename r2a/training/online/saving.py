"""Online runs on disk: learner, games, replay and counts of one moment, in one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from r2a.data.replay.files import load_replay, save_replay
from r2a.training.checkpoint import load_checkpoint, save_checkpoint
from r2a.training.online.loop import Counts, OnlineRun

GAMES = "games.safetensors"
REPLAY = "replay"


def save(run: OnlineRun, folder: str | Path, saved: Mapping[str, Any], seconds: float, previous: Path | None) -> Path:
    """Save a run where its actors' retrieval batch is new; `previous` is the checkpoint saved before, if any."""

    def attach(partial: Path) -> None:
        save_file(run.actors.lanes.state(), partial / GAMES)
        before = previous / REPLAY if previous is not None and previous.is_dir() else None
        save_replay(run.replay, partial / REPLAY, before)

    return save_checkpoint(
        folder,
        (run.learner, run.actors.standing),
        step=run.steps,
        config=saved,
        extra={"train_seconds": seconds, **run.counts._asdict()},
        attach=attach,
    )


def restore(run: OnlineRun, checkpoint: Path) -> float:
    """Go on where a run of the same settings was saved; returns its seconds of training."""
    (run.learner, run.actors.standing), extra = load_checkpoint(checkpoint, (run.learner, run.actors.standing))
    run.counts = Counts(*(extra[name] for name in Counts._fields))
    run.actors.lanes.restore(load_file(checkpoint / GAMES))
    load_replay(run.replay, checkpoint / REPLAY)
    run.refresh()
    return extra["train_seconds"]
