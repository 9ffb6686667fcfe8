"""What runs in the processes of a cluster: players with games, the replay, the learner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import ray

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.replay import SequenceReplay
from r2a.environments.api import EnvSpec
from r2a.environments.registry import make
from r2a.training.learning import Learner, draw, draw_to_read, run_keys
from r2a.training.online import Actors, Chunk, epsilon_ladder, load_learner, make_replay, mean_metrics
from r2a.training.rollout import Finished
from r2a.types import EncodedBatch, LearnerState


class Player:
    """Some of a run's environments, and the agents in them."""

    def __init__(self, config: RunConfig, number: int, players: int, life: int):
        """`life` tells a player from those of the same number before it: no two play the same games."""
        count = config.acting.num_envs // players
        seed = np.random.SeedSequence(config.seed, spawn_key=(number, life))
        self.config = config
        self.env, self.seed = make(config.environment, config.env, count), int(seed.generate_state(1)[0])
        self.epsilon = epsilon_ladder(config.acting)[number * count : (number + 1) * count]
        self.key = jax.random.fold_in(jax.random.fold_in(run_keys(config.seed)[2], number), life)
        self.actors: Actors | None = None

    def play(self, agent: Agent, encoded: EncodedBatch | None, turn: int) -> tuple[list[Finished], Chunk]:
        """One turn: the episodes that came to their end, and all that was done."""
        if self.actors is None:
            self.actors = Actors(self.env, self.config, self.epsilon, agent, self.key, self.seed)
        steps = self.config.acting.steps_per_turn
        chunk = self.actors.play(agent, encoded, steps, turn * steps)
        return self.actors.rollout.finished(), chunk


class ReplayServer:
    """The replay, for all the others."""

    def __init__(self, config: RunConfig, spec: EnvSpec, state_size: int, scratch: Path | None):
        self.replay = make_replay(config, spec, state_size, scratch)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives of the replay."""
        return function(self.replay, *arguments)


def add_chunks(replay: SequenceReplay, *chunks: Chunk | None) -> tuple[int, bool]:
    """Write a turn; of players that are away, nothing. Returns how many sequences are new, and whether to learn."""
    ready = replay.add(*put_together(list(chunks)))
    return len(ready.numbers), replay.ready


class LearnerServer:
    """The learner; it draws from the replay by itself."""

    def __init__(self, config: RunConfig, spec: EnvSpec, replay: Any, checkpoint: Path | None):
        self.learner, self.replay, self.config = Learner(config, spec), replay, config
        self.updates = 0
        self.drawn_at, self.encoded = -1, None
        if checkpoint is not None:
            self.learner.state, extra = load_learner(checkpoint, self.learner.state)
            self.updates = extra["updates"]

    def learn(self, count: int, turn: int) -> tuple[tuple[int, int, dict[str, float]], Agent, EncodedBatch | None]:
        """Some updates, each drawn while the one before is done; then what players need for their next turn."""
        metrics = []
        coming: Any = self.replay.call.remote(draw, self.config, self.updates) if count else None
        for i in range(count):
            drawn: Any = ray.get(coming)
            if i + 1 < count:
                coming = self.replay.call.remote(draw, self.config, self.updates + 1)
            step, priority = self.learner.update(drawn)
            self.replay.call.remote(SequenceReplay.update_priorities, drawn.learnt.drawn.ids, priority)
            self.updates += 1
            metrics.append(step)
        if self.drawn_at < 0 or turn % self.config.acting.refresh_turns == 0:
            read: Any = ray.get(self.replay.call.remote(draw_to_read, self.config, turn))
            self.encoded = jax.tree.map(np.asarray, self.learner.encode(read))
            self.drawn_at = turn
        agent = jax.tree.map(np.asarray, self.learner.agent)
        return (self.updates, self.drawn_at, mean_metrics(metrics)), agent, self.encoded

    def state(self) -> LearnerState:
        """All of it, to be saved."""
        return self.learner.state._replace(key=jax.random.key_data(self.learner.state.key))


def put_together(chunks: list[Chunk | None]) -> Chunk:
    """Chunks of all players as one: environment after environment, and rows that not all have are not present."""
    given = [chunk for chunk in chunks if chunk is not None]
    rows, envs = max(chunk.reward.shape[1] for chunk in given), given[0].reward.shape[0]
    shape = len(chunks) * envs, rows
    whole = Chunk(*(np.zeros((*shape, *column.shape[2:]), column.dtype) for column in given[0]))
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            for column, part in zip(whole, chunk, strict=True):
                column[i * envs : (i + 1) * envs, : part.shape[1]] = part
    return whole
