"""Acting and learning in turns, in one process (Sec. 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import optax
from safetensors.numpy import load_file

from r2a.agents.agent import Agent
from r2a.config import OnlineConfig
from r2a.data.replay import ReplaySpec, SequenceReplay, needs_file
from r2a.data.replay_files import load_replay, save_replay
from r2a.environments.lanes import FinishedEpisode, LanesSpec
from r2a.training.checkpoint import load_checkpoint, save_arrays, save_checkpoint
from r2a.training.course import refuse_nan
from r2a.training.online.acting import Actors, epsilon_ladder
from r2a.training.online.learning import Learner, draw, draw_to_read, run_keys
from r2a.training.online.worlds import make_lanes
from r2a.types import EncodedBatch, LearnerState

GAMES = "games.safetensors"
REPLAY = "replay"


class Counts(NamedTuple):
    """How far a run is."""

    turns: int = 0
    sequences: int = 0
    updates: int = 0


def updates_due(config: OnlineConfig, counts: Counts) -> int:
    """How many updates may follow now: none before there is enough to learn from, then as many as the ratio says."""
    beyond = counts.sequences - config.replay.minimum
    owed = beyond * config.acting.samples_per_insert / config.batch_size
    return max(int(owed) - counts.updates, 0)


def mean_figures(steps: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over learner steps; nothing, if there were none."""
    return {name: float(np.mean([figures[name] for figures in steps])) for name in (steps[0] if steps else ())}


def make_replay(config: OnlineConfig, spec: LanesSpec, state_size: int, scratch: Path | None) -> SequenceReplay:
    """An empty replay for the games of a run; frames that are too many for the memory are kept in `scratch`."""
    frame = ReplaySpec(spec.observation_shape, spec.observation_dtype, state_size=state_size)
    large = needs_file(config.replay, frame, config.acting.lanes)
    return SequenceReplay(config.replay, frame, config.acting.lanes, scratch if large else None)


@runtime_checkable
class Run(Protocol):
    """An online run, wherever its parts are."""

    config: OnlineConfig
    counts: Counts

    @property
    def steps(self) -> int:
        """Steps of the environment so far, all lanes together."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether what actors read has just been drawn: a run can be saved then."""
        ...

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        ...

    @property
    def encoded(self) -> EncodedBatch | None:
        """What actors read."""
        ...

    def turn(self) -> dict[str, float]:
        """Act, keep what was done, and learn as often as the ratio of samples to inserts allows."""
        ...

    def finished(self) -> list[FinishedEpisode]:
        """The games that came to their end since this was asked last."""
        ...

    def save(self, folder: str | Path, saved: Mapping[str, Any], seconds: float, previous: Path | None) -> Path:
        """Write a checkpoint; `previous` is the one before, if any."""
        ...

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training."""
        ...

    def close(self) -> None:
        """Let go of the games."""
        ...


def replay_before(previous: Path | None) -> Path | None:
    """The replay of the checkpoint before, if it is still there: what has not changed since is not written again."""
    return previous / REPLAY if previous is not None and previous.is_dir() else None


class OnlineRun:
    """All that changes in the course of a run: learner, replay, games, and where each of them is."""

    def __init__(self, config: OnlineConfig, scratch: Path | None = None):
        """`scratch` is a folder for frames that are too many for the memory."""
        self.config = config
        lanes = make_lanes(config, config.acting.lanes, config.seed)
        self.learner = Learner(config, lanes.spec)
        self.replay = make_replay(config, lanes.spec, self.learner.stored_states.size, scratch)
        self.actors = Actors(lanes, config.replay.stack, epsilon_ladder(config.acting), self.learner.agent)
        self.counts = Counts()
        self.encoded: EncodedBatch | None = None
        self.act_key = run_keys(config.seed)[2]
        self.refresh()

    @property
    def steps(self) -> int:
        """Steps of the environment so far, all lanes together."""
        return self.counts.turns * self.config.steps_per_turn

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        return self.learner.agent

    @property
    def fresh(self) -> bool:
        """Whether what actors read has just been drawn: a run can be saved then."""
        return self.counts.turns % self.config.acting.refresh_turns == 0

    def turn(self) -> dict[str, float]:
        """Act, keep what was done, and learn as often as the ratio of samples to inserts allows."""
        config, turns = self.config, self.counts.turns
        per_turn = config.acting.steps_per_turn
        chunk = self.actors.play(self.agent, self.encoded, per_turn, self.act_key, turns * per_turn)
        ready = self.replay.add(*chunk)
        self.counts = self.counts._replace(turns=turns + 1, sequences=self.counts.sequences + ready.indices.size)
        metrics = mean_figures(self.learn())
        if self.encoded is not None:
            # How old, in steps of all lanes together, what actors read was at the end of the turn.
            metrics["retrieval/age"] = float((turns % config.acting.refresh_turns + 1) * config.steps_per_turn)
        if self.fresh:
            self.refresh()
        return metrics

    def learn(self) -> list[dict[str, float]]:
        """The updates that are due; the figures of each."""
        figures = []
        for _ in range(updates_due(self.config, self.counts) if self.replay.ready else 0):
            drawn = draw(self.replay, self.config, self.counts.updates)
            step, priority = self.learner.update(drawn)
            self.replay.update_priorities(drawn.learnt.drawn.ids, priority)
            self.counts = self.counts._replace(updates=self.counts.updates + 1)
            figures.append(step)
        return figures

    def refresh(self) -> None:
        """Draw and encode the actors' retrieval batch anew; before there is enough to read, it is empty."""
        self.encoded = self.learner.encode(draw_to_read(self.replay, self.config, self.counts.turns))

    def read_from(self, replay: SequenceReplay) -> None:
        """Have the actors read from another run's replay; another agent's memory of it means nothing to this one."""
        read = draw_to_read(replay, self.config, self.counts.turns)
        assert read is not None
        self.encoded = self.learner.encode(read._replace(state=np.zeros_like(read.state)))

    def finished(self) -> list[FinishedEpisode]:
        """The games that came to their end since this was asked last."""
        return self.actors.lanes.finished()

    def close(self) -> None:
        """Let go of the games."""
        self.actors.lanes.close()

    def save(self, folder: str | Path, saved: Mapping[str, Any], seconds: float, previous: Path | None) -> Path:
        """Learner, games, replay and counts of this moment, in one checkpoint."""

        def attach(partial: Path) -> None:
            save_arrays(self.actors.lanes.state(), partial / GAMES)
            save_replay(self.replay, partial / REPLAY, replay_before(previous))

        state = (self.learner.state, self.actors.standing)
        return save_run(folder, state, self.steps, saved, seconds, self.counts, attach)

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training.

        A run on a cluster saves no games: those begin anew.
        """
        if (checkpoint / GAMES).is_file():
            like = (self.learner.state, self.actors.standing)
            (self.learner.state, self.actors.standing), extra = load_checkpoint(checkpoint, like)
            self.actors.lanes.restore(load_file(checkpoint / GAMES))
        else:
            self.learner.state, extra = load_learner(checkpoint, self.learner.state)
        self.counts = Counts(*(extra[name] for name in Counts._fields))
        load_replay(self.replay, checkpoint / REPLAY)
        self.refresh()
        return extra["train_seconds"]


def save_run(
    folder: str | Path,
    state: tuple[LearnerState, Any],
    steps: int,
    saved: Mapping[str, Any],
    seconds: float,
    counts: Counts,
    attach: Callable[[Path], None],
) -> Path:
    """The checkpoint of an online run: its learner, and what else changes; never of parameters that are no numbers."""
    refuse_nan({"the norm of the parameters": float(optax.tree.norm(state[0].params))}, steps, folder)
    extra = {"train_seconds": seconds, **counts._asdict()}
    return save_checkpoint(folder, state, step=steps, config=saved, extra=extra, attach=attach)


def load_learner(checkpoint: Path, like: LearnerState) -> tuple[LearnerState, dict[str, Any]]:
    """The learner of an online run's checkpoint alone, wherever it was saved."""
    (state, _), extra = load_checkpoint(checkpoint, (like, ()), whole=False)
    return state, extra
