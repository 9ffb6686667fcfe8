"""DQN, sample and update: this package against others, and against the speed of its own matrix products.

Everything runs on one core in one run, each library in a process of its own, repeats interleaved.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.bounds import matmul_gflop
from benchmarks.workers import PEERS_PYTHON, Worker, WorkerError, interleave, serve, timed
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning
from r2a.config import AgentConfig, DataConfig, EncoderConfig, FromDataset, RetrievalConfig, RunConfig
from r2a.data.retrieval_batch import EpisodeTable, ResidentData
from r2a.training.offline import learner_steps

OBSERVATION, ACTIONS, STEPS = 11, 7, 50
SIZES = {"256": (256, 256, 100), "64": (64, 32, 1000)}
"""Width of the two hidden layers, batch size, and updates per compiled call, for all who compile a loop."""
PEERS = ("sb3", "sbx", "cleanrl_style", "rejax", "d3rlpy", "tianshou")
AS_SHIPPED = ("sb3_single_q", "sbx_single_q")
"""What ships with the simpler target of DQN: a fifth less to compute, so not compared like with like."""
SETUP = "`make bench-setup` installs the peers"


def random_episodes(tasks: int, per_task: int, seed: int = 0) -> ResidentData:
    """As many episodes of each task to learn from as to retrieve from, of gridroboman's size and types."""
    rng = np.random.default_rng(seed)
    count = tasks * 2 * per_task
    rows = np.arange(count, dtype=np.int32).reshape(tasks, 2, per_task)
    in_use = jnp.full(tasks, per_task, jnp.int32)
    return ResidentData(
        observation=jnp.asarray(rng.integers(0, 7, (count, STEPS + 1, OBSERVATION)), jnp.int8),
        instruction=jnp.zeros((count, 0), jnp.uint8),
        action=jnp.asarray(rng.integers(0, ACTIONS, (count, STEPS)), jnp.int8),
        reward=jnp.asarray(rng.normal(size=(count, STEPS)), jnp.float32),
        length=jnp.full(count, STEPS, jnp.int32),
        terminated=jnp.zeros(count, bool),
        task_id=jnp.repeat(jnp.arange(tasks, dtype=jnp.int32), 2 * per_task),
        episode_return=jnp.asarray(rng.normal(size=count), jnp.float32),
        learning=EpisodeTable(jnp.asarray(rows[:, 0]), in_use),
        retrieval=EpisodeTable(jnp.asarray(rows[:, 1]), in_use),
    )


def dqn_config(width: int, batch: int) -> RunConfig:
    """The plain agent of the paper's baseline, at the given size."""
    agent = AgentConfig(encoder=EncoderConfig(hidden=(width, width)), retrieval=RetrievalConfig(variant="none"))
    return RunConfig(agent=agent, experience=FromDataset(DataConfig(num_tasks=1, tasks_per_step=1, batch_size=batch)))


def serve_updates(width: int, batch: int, updates: int) -> None:
    """Be the worker of this package: training's own compiled call, `updates` learner steps at a time."""
    config = dqn_config(width, batch)
    data = random_episodes(tasks=1, per_task=1000)
    agent = build_agent(config.agent, OBSERVATION, ACTIONS, jax.random.key(0))
    state = start_learning(agent, config.learner, jax.random.key(1))
    settings = (config.data, config.agent.retrieval, config.learner, updates)
    program = learner_steps.lower(state, data, *settings).compile()

    def work() -> None:
        nonlocal state
        state, metrics = program(state, data)
        jax.block_until_ready((state, metrics))

    serve(timed(work, updates), gflop=matmul_gflop(program.as_text()) / updates)


def start_peers(sizes: tuple[int, int, int], names: tuple[str, ...]) -> tuple[dict[str, Worker], dict[str, str]]:
    """The peers that start, and why the others do not."""
    started, missing = {}, {}
    for name in names:
        try:
            started[name] = Worker("benchmarks.dqn_peers", name, *map(str, sizes), python=PEERS_PYTHON)
        except WorkerError as reason:
            missing[name] = f"not measured: {reason}"
    return started, missing


def measure_size(sizes: tuple[int, int, int], names: tuple[str, ...], peak: Worker, repeats: int) -> dict[str, Any]:
    """The figures of one size; `peak` measures how fast this core multiplies matrices."""
    own = Worker("benchmarks.dqn", *map(str, sizes))
    peers, missing = start_peers(sizes, names)
    try:
        interleave([own, peak, *peers.values()], repeats)
    finally:
        for worker in (own, *peers.values()):
            worker.stop()
    rates = {name: round(worker.rate(), 1) for name, worker in peers.items()}
    same = {name: rate for name, rate in rates.items() if name in PEERS}
    shipped = {name: rate for name, rate in rates.items() if name in AS_SHIPPED}
    best = max(same, key=lambda name: same[name], default=None)
    return {
        "updates_per_second": own.rate(),
        "peers": same,
        "best_peer": best,
        "ratio_best_peer": own.rate() / same[best] if best else None,
        "peers_single_q": shipped,
        "ratio_best_single_q": own.rate() / max(shipped.values()) if shipped else None,
        "not_measured": missing,
        "gflop_per_update": own.facts["gflop"],
        "matmul_peak_gflops": peak.rate(),
        "share_of_bound": own.facts["gflop"] * own.rate() / peak.rate(),
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Both sizes; the figures of the larger one are repeated at the top."""
    names = (*PEERS, *AS_SHIPPED) if PEERS_PYTHON.exists() else ()
    figures, peak = {}, Worker("benchmarks.bounds")
    for name, (width, batch, updates) in SIZES.items():
        sizes = (width, batch, 10 if quick else updates)
        figures[name] = measure_size(sizes, names, peak, repeats=2 if quick else 7)
    peak.stop()
    named = ("updates_per_second", "peers", "best_peer", "ratio_best_peer", "share_of_bound")
    notes = {} if names else {"note": f"The peers are not installed, so nothing is compared; {SETUP}."}
    return {"sizes": figures, **{name: figures["256"][name] for name in named}, **notes}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_updates(*map(int, sys.argv[1:]))
    else:
        print(json.dumps(run(), indent=1))
