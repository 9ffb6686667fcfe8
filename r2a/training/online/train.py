"""An online run from its first step, or its last checkpoint, to its end: evaluated, recorded and saved as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import numpy as np

from r2a.config import OnlineConfig, config_from_dict
from r2a.errors import UserError
from r2a.training.checkpoint import latest_checkpoint, save_checkpoint
from r2a.training.course import Interrupted, Progress, stop_on_signal
from r2a.training.metrics import MetricsWriter, read_run_config, require_tensorboard, start_run
from r2a.training.online.learning import NotFiniteError
from r2a.training.online.loop import OnlineRun, Run
from r2a.training.online.playing import play_games
from r2a.training.online.worlds import scores_of

OFFENDING = "not_finite"
"""Folder in a run's in which the batch is kept that led to a loss which is no number."""


def train(
    config: OnlineConfig,
    folder: str | Path,
    *,
    resume: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
    tensorboard: bool = False,
    make: Callable[[OnlineConfig, Path], Run] = OnlineRun,
) -> Run:
    """Run (or go on with) the training that `config` describes; everything about it ends up in `folder`.

    `make` decides where its parts are: all in this process, unless told otherwise. Frames that are too many for the
    memory are kept on the run folder's disk.
    """
    run = make(config, Path(folder).parent)
    try:
        go_on(run, Path(folder), resume, watch, tensorboard)
    except NotFiniteError as broken:
        keep_offending(broken, folder, config)
    finally:
        run.close()
    return run


def go_on(run: Run, folder: Path, resume: bool, watch: Callable[[Progress], None], tensorboard: bool) -> None:
    """All turns that are left."""
    config = run.config
    saved = {"config": asdict(config)}
    seconds, newest = 0.0, None
    # All that can be refused is refused before the run folder is made.
    if tensorboard:
        require_tensorboard()
    if resume:
        newest = checkpoint_to_resume(folder, config)
        seconds = 0.0 if newest is None else run.restore(newest)
    else:
        start_run(folder, saved)
    first, learnt_here = run.steps, False
    with MetricsWriter(folder, first if resume else None, tensorboard=tensorboard) as writer, stop_on_signal() as stop:
        while run.steps < config.steps:
            began = time.perf_counter()
            before = run.counts
            metrics = run.turn()
            turn_seconds = time.perf_counter() - began
            learns = run.counts.updates > before.updates
            compiled = before.turns * config.steps_per_turn == first or (learns and not learnt_here)
            seconds += 0.0 if compiled else turn_seconds
            learnt_here = learnt_here or learns
            done, last = run.steps, run.steps >= config.steps
            metrics |= pace_of(run) | training_scores(run)
            if done % config.evaluate_every == 0 or last:
                metrics |= evaluate(run)
            metrics["time/train_seconds"] = seconds
            writer.write(done, metrics)
            if run.fresh and (done % config.checkpoint_every == 0 or last or stop.requested):
                writer.sync()
                newest = run.save(folder, saved, seconds, newest)
            watch(Progress(done, config.steps_per_turn / turn_seconds, metrics))
            if stop.requested and run.fresh and not last:
                raise Interrupted


def pace_of(run: Run) -> dict[str, int | float]:
    """How far learning is, and how it keeps pace with acting."""
    counts, config = run.counts, run.config
    beyond = max(counts.sequences - config.replay.minimum, 1)
    ratio = counts.updates * config.batch_size / beyond
    return {"rl/updates": counts.updates, "rl/sequences": counts.sequences, "rl/samples_per_insert": ratio}


def training_scores(run: Run) -> dict[str, int | float]:
    """Of the games that ended in this turn, random actions and all; nothing, if none did."""
    finished = run.finished()
    if not finished:
        return {}
    return {
        "rl/score": float(np.mean([episode.score for episode in finished])),
        "rl/length": float(np.mean([episode.length for episode in finished])),
        "rl/episodes": len(finished),
    }


def evaluate(run: Run) -> dict[str, float]:
    """Scores of whole games that the agent plays as it is now."""
    played = play_games(run.agent, run.encoded, run.config)
    length = float(np.mean([episode.length for episode in played.episodes]))
    scores = scores_of(run.config, float(played.scores.mean())) | {"length": length}
    return {f"eval/{name}": value for name, value in scores.items()}


def keep_offending(broken: NotFiniteError, folder: str | Path, config: OnlineConfig) -> NoReturn:
    """Keep what led to a figure that is no number, and stop; the last checkpoint is left as it is."""
    saved = {"config": asdict(config)}
    kept = save_checkpoint(Path(folder) / OFFENDING, broken.batch, step=broken.update, config=saved)
    raise UserError(
        f"{broken.name} became {broken.value} in update {broken.update}; the run has stopped, its last good state "
        f"is kept in {folder}, and the batch that led there in {kept}: try a lower learner.learning-rate."
    ) from broken


def read_config(folder: str | Path) -> OnlineConfig:
    """The config of an online run's folder."""
    values = read_run_config(folder)
    if not is_online(folder):
        raise UserError(f"{folder} holds no online run.")
    return config_from_dict(OnlineConfig, values["config"])


def is_online(folder: str | Path) -> bool:
    """Whether a run folder's agent learnt while it acted, rather than from a data set."""
    values = read_run_config(folder).get("config")
    return isinstance(values, dict) and "acting" in values


def checkpoint_to_resume(folder: str | Path, config: OnlineConfig) -> Path | None:
    """The newest checkpoint of a run, provided that the run had the same settings; None if it has saved nothing yet."""
    if read_config(folder) != config:
        raise UserError(f"{folder} was started with other settings; it can only go on with those.")
    return latest_checkpoint(folder)


def load_run(folder: str | Path) -> OnlineRun:
    """A run as it was when it was saved last, games and replay and all."""
    run, newest = OnlineRun(read_config(folder), Path(folder).parent), latest_checkpoint(folder)
    if newest is None:
        raise UserError(f"{folder} has no checkpoint yet; let `r2a train --resume {folder}` go on for a while.")
    run.restore(newest)
    return run
