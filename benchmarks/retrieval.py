"""RA-DQN at the paper's size: training's own compiled call against the plain way, and against its matrix products.

The plain way encodes all trajectories of the retrieval batch, then ranks them by return, and compiles one update at a
time. Both compute the same TD loss and the same KL; the run checks that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from benchmarks.bounds import matmul_gflop
from benchmarks.dqn import ACTIONS, OBSERVATION, random_episodes
from benchmarks.workers import Worker, interleave, serve, timed
from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch, losses
from r2a.config import RunConfig, override
from r2a.data.retrieval_batch import ResidentData, plan_learning_batch, read_learning_batch
from r2a.experiments.gridroboman import PAPER
from r2a.retrieval.module import Retrieval
from r2a.training.offline import learner_steps
from r2a.types import EncodedBatch, RetrievalBatch

UPDATES = 2
"""Learner steps per measurement of either way."""
TASKS = 10
SUMMARISERS = ("gru", "transformer", "linear")


class PlainRetrieval(Retrieval):
    """Encodes everything first and asks later what of it is needed."""

    def encode(
        self, batch: RetrievalBatch | None, states_along: Callable[..., Any]
    ) -> tuple[EncodedBatch, dict[str, Any]]:
        """As `Retrieval.encode`, for all trajectories."""
        assert batch is not None
        assert self.summariser is not None
        assert self.auxiliary is not None
        trajectories = batch.trajectories
        states = states_along(trajectories)
        summaries = jax.vmap(self.summariser)(trajectories, states)
        keys, values = self._reader.keys_and_values(summaries)
        ids = (trajectories.trajectory_id, trajectories.task_id)
        encoded = EncodedBatch(states, summaries, keys, values, trajectories.valid, *ids)
        _, best = jax.lax.top_k(batch.returns, self.config.k_traj)
        return jax.tree.map(lambda column: column[best], encoded), self.auxiliary.losses(trajectories, summaries)


def plain_agent(agent: Agent) -> Agent:
    """The same agent, its retrieval done the plain way."""
    plain = object.__new__(PlainRetrieval)
    for part in fields(agent.retrieval):
        object.__setattr__(plain, part.name, getattr(agent.retrieval, part.name))
    return eqx.tree_at(lambda whole: whole.retrieval, agent, plain)


def settings(quick: bool) -> RunConfig:
    """The paper's sizes; quick: everything small."""
    if not quick:
        return PAPER
    retrieval = replace(
        PAPER.agent.retrieval, slot_size=16, key_size=16, summary_size=16, trajectories=16, k_traj=4, length=10
    )
    encoder = replace(PAPER.agent.encoder, hidden=(16, 16))
    return override(PAPER, {"agent.encoder": encoder, "agent.retrieval": retrieval, "data.batch_size": 32})


def serve_updates(way: str, quick: bool) -> None:
    """Be the worker of one way: plain, or training's own with the summariser that `way` names."""
    config = settings(quick)
    if way != "plain":
        retrieval = replace(config.agent.retrieval, summariser=way)
        config = replace(config, agent=replace(config.agent, retrieval=retrieval))
    data = random_episodes(TASKS, per_task=2 * config.agent.retrieval.trajectories)
    agent = build_agent(config.agent, OBSERVATION, ACTIONS, jax.random.key(0))
    agent = agent if way != "plain" else plain_agent(agent)
    facts = first_losses(agent, data, config)
    state = start_learning(agent, config.learner, jax.random.key(1))

    if way != "plain":
        program = learner_steps.lower(
            state, data, config.data, config.agent.retrieval, config.learner, UPDATES
        ).compile()

        def work() -> None:
            nonlocal state
            state, _ = jax.block_until_ready(program(state, data))

        facts["gflop"] = matmul_gflop(program.as_text()) / UPDATES
    else:
        draw = jax.jit(partial(draw_learning_batch, data, config))
        step = jax.jit(partial(update, config=config.learner))

        def work() -> None:
            nonlocal state
            for number in range(UPDATES):
                state, *_ = step(state, draw(jax.random.key(number)), jax.random.key(number))
            jax.block_until_ready(state)

    serve(timed(work, UPDATES), **facts)


def draw_learning_batch(data: ResidentData, config: RunConfig, key: PRNGKeyArray) -> LearningBatch:
    """One learner step's batch; consumes `key`."""
    plan = plan_learning_batch(data, config.data, config.agent.retrieval, key)
    return LearningBatch(*read_learning_batch(data, config.data, config.agent.retrieval, plan))


def first_losses(agent: Agent, data: ResidentData, config: RunConfig) -> dict[str, float]:
    """The TD loss and the KL of the first batch."""

    @jax.jit
    def of_first() -> dict[str, Any]:
        batch = draw_learning_batch(data, config, jax.random.key(2))
        return losses(agent, agent, batch, jax.random.key(3), config.learner)[0]

    values = of_first()
    return {name: float(values[name]) for name in ("rl", "kl")}


def run(quick: bool = False) -> dict[str, Any]:
    """Updates per second of CPU time of both ways, interleaved, and how far ours is from its bound.

    Both summarise with a GRU, as the paper does; the other summarisers run beside them.
    """
    summarisers = SUMMARISERS[:1] if quick else SUMMARISERS
    workers = {way: Worker("benchmarks.retrieval", way, str(int(quick))) for way in ("plain", *summarisers)}
    peak = Worker("benchmarks.bounds")
    try:
        interleave([peak, *workers.values()], 2 if quick else 5)
    finally:
        for worker in (peak, *workers.values()):
            worker.stop()
    own, plain = workers["gru"], workers["plain"]
    differences = {
        name: abs(own.facts[name] - plain.facts[name]) / max(abs(plain.facts[name]), 1e-12) for name in ("rl", "kl")
    }
    assert max(differences.values()) < 1e-4, f"the two ways disagree: {differences}"
    return {
        "updates_per_second": own.rate(),
        "plain_updates_per_second": plain.rate(),
        "ratio_plain": own.rate() / plain.rate(),
        "gflop_per_update": own.facts["gflop"],
        "matmul_peak_gflops": peak.rate(),
        "share_of_bound": own.facts["gflop"] * own.rate() / peak.rate(),
        "td_loss_difference": differences["rl"],
        "kl_difference": differences["kl"],
        "summarisers": {way: workers[way].rate() for way in summarisers},
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_updates(sys.argv[1], sys.argv[2] == "1")
    else:
        print(json.dumps(run(), indent=1))
