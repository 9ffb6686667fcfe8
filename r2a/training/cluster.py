"""The run that is spread over a Ray cluster.

While players play a turn, the learner does the updates that the turns before have made due: it is never more than a
turn behind, which is what holds the ratio of samples to inserts. Parameters travel through Ray's object store.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.replay import SequenceReplay, ring_sizes
from r2a.data.replay_files import load_replay, save_replay
from r2a.environments.api import EnvSpec
from r2a.environments.registry import make, spec_of
from r2a.errors import UserError
from r2a.training import online
from r2a.training.course import Turn
from r2a.training.learning import Learner, NotFiniteError, draw, draw_to_read, run_keys
from r2a.training.rollout import Finished
from r2a.types import EncodedBatch, LearnerState

SEE_LOGS = "Ray keeps their logs in /tmp/ray/session_latest/logs."
ROUNDS = 3
"""So many times may all players, or the learner, die before they have done anything."""


class ClusterRun(online.ActingRun):
    """An online run whose parts are Ray's actors."""

    def __init__(
        self,
        config: RunConfig,
        scratch: Path | None = None,
        *,
        address: str = "local",
        players: int = 4,
        patience: float = 300.0,
    ):
        """Join the cluster at `address` (auto: the one on this machine), or have one of our own (local).

        A player or learner that shows no sign of life for `patience` seconds is replaced, as one that has died is.
        `scratch` is a folder for frames that are too many for the memory.
        """
        if players < 1 or config.acting.num_envs % players:
            raise UserError(
                f"acting.num-envs is {config.acting.num_envs}, but it must be a multiple of players = {players}."
            )
        super().__init__(config)
        self._pulse = Pulse(patience)
        self.spec = spec_of(config.environment, config.env)
        # What the replay's process would refuse is refused here, where it can be said in a sentence.
        ring_sizes(config.replay, config.acting.num_envs)
        connect(address)
        try:
            self._start(players, scratch)
        except BaseException:
            ray.shutdown()
            raise

    def _start(self, players: int, scratch: Path | None) -> None:
        """Have all processes, and have them begin."""
        # What is saved is written by the replay's process: it has to be where the run folder is.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        enough = ray.cluster_resources().get("CPU", 0) >= players + 2
        anywhere: dict[str, Any] = {"num_cpus": int(enough), "runtime_env": {"env_vars": process_settings()}}
        anywhere["max_concurrency"] = 2  # one thread to work, one to say that it does
        at_home: dict[str, Any] = {**anywhere, "scheduling_strategy": here}
        self._player_process: Any = ray.remote(**anywhere)(Player)
        self._learner_process: Any = ray.remote(**at_home)(LearnerServer)
        replay_process: Any = ray.remote(**{**at_home, "max_concurrency": 1})(ReplayServer)
        self.newest: Path | None = None
        self.replaced = {"players": 0, "learners": 0}
        self._deaths = 0
        state_size = Learner(self.config, self.spec).stored_states.size
        self.replay = replay_process.remote(self.config, self.spec, state_size, scratch and scratch.absolute())
        self.learner = self._new_learner()
        self.lives, self.players = [0] * players, {}
        for number in range(players):
            self._new_player(number, 0)
        self._begin()

    @property
    def agent(self) -> Agent:
        """With the newest parameters that players have."""
        return ray.get(self._agent)

    @property
    def encoded(self) -> EncodedBatch | None:
        """What players read."""
        return ray.get(self._encoded)

    def turn(self) -> Turn:
        """Collect what was played, have it kept, and let playing and learning go on at the same time."""
        before, played = self.counts, self._collect()
        # Of what was read in this turn: when it was drawn, the turn before the one before had just ended.
        age = float((before.turns + 1 - self._drawn_at) * self.config.from_replay.steps_per_turn)
        metrics = self._unreported | self._learnt()
        metrics |= {"retrieval/age": age} if self.config.agent.retrieval.reads else {}
        self._unreported = {}
        # What was done goes from the players to the replay; this process has but the address of it.
        new, ready = self._of_replay(add_chunks, *(player and player[1] for player in played))
        sequences = self.counts.sequences + new
        self.counts = self.counts._replace(turns=before.turns + 1, sequences=sequences)
        self._learn(self.updates_due() if ready else 0)
        self._play()
        metrics |= {f"rl/replaced_{name}": float(count) for name, count in self.replaced.items()}
        return self.ended_turn(before, metrics, [episode for player in played if player for episode in player[0]])

    def save(self, folder: str | Path, seconds: float, previous: Path | None) -> Path:
        """Learner, replay and counts of this moment, in one checkpoint; the games begin anew after a resume."""
        self._unreported = self._learnt()
        try:
            state: LearnerState = self._of_learner(self.learner.state.remote())
        except RayActorError:
            self._learner_died()
            state = self._of_learner(self.learner.state.remote())
        state = state._replace(key=jax.random.wrap_key_data(state.key))

        def attach(partial: Path) -> None:
            before = online.replay_before(previous)
            self._of_replay(save_replay, (partial / online.REPLAY).absolute(), before and before.absolute())

        # As in one process, but without the games: either can go on with what the other has saved.
        self.newest = self.save_with(folder, (state, ()), seconds, attach).absolute()
        return self.newest

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training."""
        self.newest = checkpoint.absolute()
        ray.kill(self.learner)
        self.learner = self._new_learner()
        _, extra = online.load_learner(checkpoint, Learner(self.config, self.spec).state)
        seconds = self.restore_counts(extra)
        self._of_replay(load_replay, self.newest / online.REPLAY)
        for number in self.players:
            self._new_player(number, 1 + self.counts.turns)
        self._begin()
        return seconds

    def close(self) -> None:
        """Stop all processes of the run."""
        for actor in (*self.players.values(), self.learner, self.replay):
            ray.kill(actor)
        ray.shutdown()

    def _begin(self) -> None:
        """Nothing has been played and nothing is being learnt."""
        self._playing: dict[Any, tuple[int, Any]] = {}
        self._drawn_at = self._first_turn = self.counts.turns
        self._learnt_here = False
        self._unreported: dict[str, float] = {}
        self._learn(0)
        self._learnt()
        self._play()

    def _new_learner(self) -> Any:
        return self._learner_process.remote(self.config, self.spec, self.replay, self.newest)

    def _new_player(self, number: int, life: int) -> None:
        """Have a player of that number, in place of one that has it already."""
        if number in self.players:
            ray.kill(self.players[number])
        self.lives[number] = life
        self.players[number] = self._player_process.remote(self.config, number, len(self.lives), life)

    def _play(self) -> None:
        """Have all players begin their next turn; successors that still play their first go on with that."""
        busy = {number for number, _ in self._playing.values()}
        for number in self.players:
            if number not in busy:
                self._playing |= self._playing_now(number)

    def _playing_now(self, number: int) -> dict[Any, tuple[int, Any]]:
        """A player's next turn: the address of its games, with the player's number and the address of the rest."""
        play = self.players[number].play.options(num_returns=2)
        finished, chunk = play.remote(self._agent, self._encoded, self.counts.turns)
        return {finished: (number, chunk)}

    def _collect(self) -> list[tuple[list[Finished], Any] | None]:
        """A turn of every player: episodes that came to their end, and the address of all that was done.

        None of those that have died, whose successors take part in the next turn.
        """
        played: list[tuple[list[Finished], Any] | None] = [None] * len(self.players)
        waiting, successors, rounds = self._playing, {}, 0
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=1.0)
            for reference in done:
                number, chunk = waiting.pop(reference)
                try:
                    played[number] = answer(reference), chunk
                except RayActorError:
                    successors |= self._succeed(number)
            for reference, (number, _) in list(waiting.items()):
                if self._pulse.stopped((number, self.lives[number]), self.players[number]):
                    del waiting[reference]
                    successors |= self._succeed(number)
            if not waiting and not any(played):  # all have died: nothing goes on before a successor is done
                waiting, successors, rounds = successors, {}, rounds + 1
                if rounds == ROUNDS:
                    raise UserError(f"All players have died {ROUNDS} times; {SEE_LOGS}")
        self._playing = successors
        return played

    def _succeed(self, number: int) -> dict[Any, tuple[int, Any]]:
        """Another player in place of one that is gone, playing already."""
        self.replaced["players"] += 1
        self._new_player(number, self.lives[number] + 1)
        return self._playing_now(number)

    def _learn(self, count: int) -> None:
        """Let the learner begin its next updates."""
        self._learning = self.learner.learn.options(num_returns=3).remote(count, self.counts.turns)

    def _learnt(self) -> dict[str, float]:
        """Wait for the updates under way; their metrics. A learner that has died goes on from its last checkpoint."""
        if self._learning is None:
            return {}
        done, agent, encoded = self._learning
        self._learning = None
        try:
            updates, self._drawn_at, metrics = self._of_learner(done)
        except RayActorError:
            self._learner_died()
            self._learn(0)
            return self._learnt()
        self._deaths = 0 if updates > self.counts.updates else self._deaths
        self.counts = self.counts._replace(updates=updates)
        self._agent, self._encoded = agent, encoded
        return metrics

    def _learner_died(self) -> None:
        """Another learner in place of one that is gone, from its last checkpoint."""
        self._of_replay(id)  # has it died, too?
        self.replaced["learners"] += 1
        self._deaths += 1
        if self._deaths > ROUNDS:
            raise UserError(f"The learner has died {self._deaths} times without getting any further; {SEE_LOGS}")
        self.learner = self._new_learner()
        try:
            answer(self.learner.__ray_ready__.remote())
        except RayActorError as gone:
            raise UserError(f"The learner's process dies as soon as it starts; {SEE_LOGS}") from gone

    def _of_learner(self, reference: Any) -> Any:
        """The learner's answer; one that shows no sign of life is ended."""
        while not ray.wait([reference], timeout=1.0)[0]:
            if self._pulse.stopped(("learner", self.replaced["learners"]), self.learner):
                ray.kill(self.learner)
        return answer(reference)

    def _of_replay(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives of the replay, in its process; without the replay there is nothing to go on with."""
        try:
            return answer(self.replay.call.remote(function, *arguments))
        except RayActorError as gone:
            kept = "go on from its last checkpoint with --resume" if self.newest else "it has saved nothing yet"
            raise UserError(f"The process that held the replay has died and the run has stopped; {kept}.") from gone


class Player:
    """Some of a run's environments, and the agents in them."""

    def __init__(self, config: RunConfig, number: int, players: int, life: int):
        """`life` tells a player from those of the same number before it: no two play the same games."""
        count = config.acting.num_envs // players
        seed = np.random.SeedSequence(config.seed, spawn_key=(number, life))
        self.config = config
        self.env, self.seed = make(config.environment, config.env, count), int(seed.generate_state(1)[0])
        self.epsilon = online.epsilon_ladder(config.acting)[number * count : (number + 1) * count]
        self.key = jax.random.fold_in(jax.random.fold_in(run_keys(config.seed)[2], number), life)
        self.actors: online.Actors | None = None

    def play(self, agent: Agent, encoded: EncodedBatch | None, turn: int) -> tuple[list[Finished], online.Chunk]:
        """One turn: the episodes that came to their end, and all that was done."""
        if self.actors is None:
            self.actors = online.Actors(self.env, self.config, self.epsilon, agent, self.key, self.seed)
        steps = self.config.acting.steps_per_turn
        chunk = self.actors.play(agent, encoded, steps, turn * steps)
        return self.actors.rollout.finished(), chunk


class ReplayServer:
    """The replay, for all the others."""

    def __init__(self, config: RunConfig, spec: EnvSpec, state_size: int, scratch: Path | None):
        self.replay = online.make_replay(config, spec, state_size, scratch)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives of the replay."""
        return function(self.replay, *arguments)


def add_chunks(replay: SequenceReplay, *chunks: online.Chunk | None) -> tuple[int, bool]:
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
            self.learner.state, extra = online.load_learner(checkpoint, self.learner.state)
            self.updates = extra["updates"]

    def learn(self, count: int, turn: int) -> tuple[tuple[int, int, dict[str, float]], Agent, EncodedBatch | None]:
        """Some updates, each drawn while the one before is done; then what players need for their next turn."""
        metrics = []
        coming: Any = self.replay.call.remote(draw, self.config, self.updates) if count else None
        for i in range(count):
            learnt, read = ray.get(coming)
            if i + 1 < count:
                coming = self.replay.call.remote(draw, self.config, self.updates + 1)
            step, priority = self.learner.update(learnt, read)
            self.replay.call.remote(SequenceReplay.update_priorities, learnt.drawn.ids, priority)
            self.updates += 1
            metrics.append(step)
        if self.drawn_at < 0 or turn % self.config.acting.refresh_turns == 0:
            read: Any = ray.get(self.replay.call.remote(draw_to_read, self.config, turn))
            self.encoded = jax.tree.map(np.asarray, self.learner.encode(read))
            self.drawn_at = turn
        agent = jax.tree.map(np.asarray, self.learner.agent)
        return (self.updates, self.drawn_at, online.mean_metrics(metrics)), agent, self.encoded

    def state(self) -> LearnerState:
        """All of it, to be saved."""
        return self.learner.state._replace(key=jax.random.key_data(self.learner.state.key))


def put_together(chunks: list[online.Chunk | None]) -> online.Chunk:
    """Chunks of all players as one: environment after environment, and rows that not all have are not present."""
    given = [chunk for chunk in chunks if chunk is not None]
    rows, envs = max(chunk.reward.shape[1] for chunk in given), given[0].reward.shape[0]
    shape = len(chunks) * envs, rows
    whole = online.Chunk(*(np.zeros((*shape, *column.shape[2:]), column.dtype) for column in given[0]))
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            for column, part in zip(whole, chunk, strict=True):
                column[i * envs : (i + 1) * envs, : part.shape[1]] = part
    return whole


def connect(address: str) -> None:
    """Join a cluster, or have one of our own for as long as this process lives."""
    if ray.is_initialized():
        raise UserError("This process is part of a Ray cluster already.")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray asks for it; there is no GPU to hide
    os.environ.setdefault("RAY_worker_niceness", "0")  # by default, whatever else runs on the machine comes first
    try:
        host, colon, port = address.rpartition(":")
        if colon:  # Ray itself would wait for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError) as reason:
        raise UserError(
            f"There is no Ray cluster at {address!r} that lets this run in: start one with `ray start --head`; if it "
            "is there and asks for a token, set RAY_AUTH_MODE=token first; or say --ray-address local."
        ) from reason


def process_settings() -> dict[str, str]:
    """One core for every process, the learner's too, and no GPU: there are as many processes as there is work."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {"XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false".strip(), "JAX_PLATFORMS": "cpu"}


def answer(reference: Any) -> Any:
    """What a process answers; what it refuses, or cannot go on with, is said here as it was there."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, UserError | NotFiniteError):
            raise error.cause from None
        raise


class Pulse:
    """Signs of life: every process is asked for one again and again, and must answer within `patience` seconds."""

    def __init__(self, patience: float):
        self.patience = patience
        self.asked: dict[Any, tuple[Any, float]] = {}

    def stopped(self, who: Any, process: Any) -> bool:
        """Whether a process, which `who` tells from all others, has not answered for too long."""
        question, since = self.asked.pop(who, None) or (process.__ray_ready__.remote(), time.monotonic())
        if ray.wait([question], timeout=0)[0]:  # with an error, if it has died: others hear of that anyway
            return False
        self.asked[who] = question, since
        return time.monotonic() - since > self.patience
