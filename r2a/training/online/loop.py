"""Acting and learning in turns, in one process (Sec. 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objective import LearningBatch
from r2a.config import AtariConfig, LearnerConfig, MinAtarConfig, OnlineConfig
from r2a.data.replay.sequences import Sampled, SequenceReplay
from r2a.data.replay.store import ReplaySpec
from r2a.environments.atari.lanes import make_atari
from r2a.environments.lanes import Lanes, LanesSpec
from r2a.environments.minatar.lanes import make_minatar
from r2a.training.online.acting import Actors, epsilon_ladder
from r2a.training.online.batches import StoredStates, learning_batch, trajectories_of
from r2a.types import EncodedBatch, LearnerState, RetrievalBatch

DRAW, REFRESH = range(2)
"""What draws from the replay are for: each has random numbers of its own."""


def make_lanes(config: OnlineConfig, count: int, seed: int) -> Lanes:
    """Games of the run's world."""
    world: dict[str, tuple[Callable[..., Lanes], AtariConfig | MinAtarConfig]] = {
        "atari": (make_atari, config.atari),
        "minatar": (make_minatar, config.minatar),
    }
    make, settings = world[config.environment]
    return make(settings, count, seed)


def observation_shape(config: OnlineConfig, spec: LanesSpec) -> tuple[int, ...]:
    """What an agent sees at a step: one frame, or several."""
    return (config.replay.stack, *spec.observation_shape) if config.replay.stack > 1 else spec.observation_shape


def run_keys(seed: int) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    """Keys for the first parameters, for learning, and for acting."""
    agent_key, run_key, act_key = jax.random.split(jax.random.key(seed), 3)
    return agent_key, run_key, act_key


def initial_state(config: OnlineConfig, spec: LanesSpec) -> LearnerState:
    """The learner state before the first step, a function of the run's seed."""
    agent_key, run_key, _ = run_keys(config.seed)
    agent = build_agent(config.agent, observation_shape(config, spec), spec.num_actions, agent_key)
    return start_learning(agent, config.learner, run_key)


@partial(jax.jit, static_argnames="config", donate_argnames="state")
def learn(
    state: LearnerState, batch: LearningBatch, config: LearnerConfig
) -> tuple[LearnerState, dict[str, Float[Array, ""]], Float[Array, " b"]]:
    """One learner step; its randomness is a function of the run's key and the step's number."""
    state, metrics, priority = update(state, batch, jax.random.fold_in(state.key, state.step), config)
    return state, metrics, priority[0]


@jax.jit
def encode(agent: Agent, batch: RetrievalBatch) -> EncodedBatch | None:
    """A retrieval batch as actors hold it."""
    return agent.prepare(batch)[0]


class Counts(NamedTuple):
    """How far a run is."""

    turns: int = 0
    sequences: int = 0
    updates: int = 0


class OnlineRun:
    """All that changes in the course of a run: learner, replay, games, and where each of them is."""

    def __init__(self, config: OnlineConfig):
        self.config = config
        lanes = make_lanes(config, config.acting.lanes, config.seed)
        self.learner = initial_state(config, lanes.spec)
        self.reads = config.agent.retrieval.variant in ("full", "agent_query")
        self.states = StoredStates.of(self.learner.params)
        spec = lanes.spec
        frame = ReplaySpec(spec.observation_shape, spec.observation_dtype, state_size=self.states.size)
        self.replay = SequenceReplay(config.replay, frame, config.acting.lanes)
        self.actors = Actors(lanes, config.replay.stack, epsilon_ladder(config.acting), self.learner.params)
        self.counts = Counts()
        self.encoded: EncodedBatch | None = None
        self.act_key = run_keys(config.seed)[2]
        self.refresh()

    @property
    def steps(self) -> int:
        """Steps of the environment so far, all lanes together."""
        return self.counts.turns * self.config.steps_per_turn

    def turn(self) -> dict[str, float]:
        """Act, keep what was done, and learn as often as the ratio of samples to inserts allows."""
        config, turns = self.config, self.counts.turns
        per_turn = config.acting.steps_per_turn
        chunk = self.actors.play(self.learner.params, self.encoded, per_turn, self.act_key, turns * per_turn)
        ready = self.replay.add(*chunk)
        self.counts = self.counts._replace(turns=turns + 1, sequences=self.counts.sequences + ready.slots.size)
        metrics = self.learn()
        if self.counts.turns % config.acting.refresh_turns == 0:
            self.refresh()
        return metrics

    def learn(self) -> dict[str, float]:
        """The updates that are due; the mean of each metric."""
        totals: dict[str, float] = {}
        due = self.due()
        for _ in range(due):
            learnt, read = self.draw(self.config.batch.learning)
            batch = learning_batch(learnt, read, self.config.replay.burn_in, self.states)
            self.learner, metrics, priority = learn(self.learner, batch, self.config.learner)
            self.replay.update_priorities(learnt.drawn.ids, np.asarray(priority))
            self.counts = self.counts._replace(updates=self.counts.updates + 1)
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + float(value) / due
        return totals

    def due(self) -> int:
        """How many updates may follow now: none before the replay is ready, then as many as the ratio says."""
        if not self.replay.ready:
            return 0
        beyond = self.counts.sequences - self.config.replay.minimum
        owed = beyond * self.config.acting.samples_per_insert / self.config.batch.learning
        return max(int(owed) - self.counts.updates, 0)

    def draw(self, learning: int) -> tuple[Sampled, Sampled | None]:
        """Sequences to learn from and, for agents that read, others to retrieve from."""
        number = np.random.SeedSequence(self.config.seed, spawn_key=(DRAW, self.counts.updates))
        generator = np.random.default_rng(number)
        if not self.reads:
            return self.replay.sample(learning, generator), None
        first, second = self.replay.draw_apart(learning, self.config.batch.retrieval, generator)
        return self.replay.gather(first), self.replay.gather(second)

    def refresh(self) -> None:
        """Draw and encode the actors' retrieval batch anew; before there is enough to read, it is empty."""
        if not self.reads:
            return
        number = np.random.SeedSequence(self.config.seed, spawn_key=(REFRESH, self.counts.turns))
        count, sampled = self.config.batch.retrieval, None
        if self.replay.ready:
            _, drawn = self.replay.draw_apart(1, count, np.random.default_rng(number))
            sampled = self.replay.gather(drawn)
        self.encoded = encode(self.learner.params, trajectories_of(sampled or self.replay.blank(count), self.states))
