"""How an update of a recurrent agent grows with the number of retrieval trajectories: time and memory.

Everything else stays as it is: the laptop preset of BabyAI, 32 tasks that read from one batch, learned ranking.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.workers import Worker, interleave, serve, timed
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning
from r2a.config import RunConfig, override
from r2a.data.retrieval_batch import EpisodeTable, ResidentData
from r2a.environments.registry import load_features
from r2a.experiments.babyai import LAPTOP, SMOKE
from r2a.training.offline import learner_steps

COUNTS = (64, 256, 1280)
TASKS = 32
QUICK_COUNTS = (8, 32)
QUICK_TASKS = 4
STEPS, ACTIONS, WORDS = 16, 7, 10
SYMBOLS = np.array((11, 6, 3))
UPDATES = 2


def random_episodes(tasks: int, per_task: int) -> ResidentData:
    """As many episodes of each task to learn from as to retrieve from, of BabyAI's types."""
    rng = np.random.default_rng(0)
    count = tasks * 2 * per_task
    views = rng.integers(0, SYMBOLS, (count, STEPS + 1, 49, 3)).reshape(count, STEPS + 1, 147)
    directions = rng.integers(0, 4, (count, STEPS + 1, 1))
    rows = np.arange(count, dtype=np.int32).reshape(tasks, 2, per_task)
    in_use = jnp.full(tasks, per_task, jnp.int32)
    return ResidentData(
        observation=jnp.asarray(np.concatenate([views, directions], -1), jnp.uint8),
        instruction=jnp.asarray(rng.integers(1, 30, (count, WORDS)), jnp.uint8),
        action=jnp.asarray(rng.integers(0, ACTIONS, (count, STEPS)), jnp.uint8),
        reward=jnp.asarray(rng.random((count, STEPS)) < 0.05, jnp.float32),
        length=jnp.full(count, STEPS, jnp.int32),
        terminated=jnp.zeros(count, bool),
        task_id=jnp.repeat(jnp.arange(tasks, dtype=jnp.int32), 2 * per_task),
        episode_return=jnp.zeros(count),
        learning=EpisodeTable(jnp.asarray(rows[:, 0]), in_use),
        retrieval=EpisodeTable(jnp.asarray(rows[:, 1]), in_use),
    )


def settings(trajectories: int, quick: bool) -> RunConfig:
    """The laptop preset, or for a quick run the smallest one, with so many trajectories in the retrieval batch."""
    preset, tasks = (SMOKE, QUICK_TASKS) if quick else (LAPTOP, TASKS)
    learned = {"num_grad_trajectories": 0, "num_neighbours": 0, "k_traj": 2, "k_states": 10}
    retrieval = replace(preset.agent.retrieval, trajectories=trajectories // tasks, **learned)
    split = {"learn_from": "learning_episodes", "num_tasks": tasks, "tasks_per_step": tasks, "batch_size": tasks}
    changes = {f"data.{name}": value for name, value in split.items()}
    return override(preset, {"agent.retrieval": retrieval, **changes, "learner.schedule_steps": preset.steps})


def serve_updates(trajectories: int, quick: bool) -> None:
    """Be the worker of one size: training's own compiled call."""
    config = settings(trajectories, quick)
    data = random_episodes(config.data.num_tasks, per_task=config.agent.retrieval.trajectories)
    load_features(config.environment)
    agent = build_agent(config.agent, 148, ACTIONS, jax.random.key(0))
    state = start_learning(agent, config.learner, jax.random.key(1))
    program = learner_steps.lower(state, data, config.data, config.agent.retrieval, config.learner, UPDATES).compile()

    def work() -> None:
        nonlocal state
        state, metrics = program(state, data)
        jax.block_until_ready((state, metrics))

    memory = program.memory_analysis()
    serve(timed(work, UPDATES), megabytes=memory.temp_size_in_bytes / 1e6)


def run(quick: bool = False) -> dict[str, Any]:
    """Time and memory of an update at each size, and how they grow from one size to the next.

    A growth of one is linear in what is added: the step from 256 to 1280 costs as much per trajectory as that from 64
    to 256. More than one would be faster than linear.
    """
    counts = QUICK_COUNTS if quick else COUNTS
    workers = {count: Worker("benchmarks.growth", str(count), str(int(quick))) for count in counts}
    try:
        interleave(list(workers.values()), 2 if quick else 5)
    finally:
        for worker in workers.values():
            worker.stop()
    seconds = [1.0 / workers[count].rate() for count in counts]
    megabytes = [workers[count].facts["megabytes"] for count in counts]
    return {
        "trajectories": list(counts),
        "seconds_per_update": [round(value, 5) for value in seconds],
        "megabytes": [round(value, 2) for value in megabytes],
        "growth_of_time": growth(counts, seconds),
        "growth_of_memory": growth(counts, megabytes),
    }


def growth(counts: tuple[int, ...], values: list[float]) -> float | None:
    """Cost per added trajectory in the last step, over that in the first; None for fewer than three sizes."""
    if len(counts) < 3:
        return None
    slopes = [(values[i + 1] - values[i]) / (counts[i + 1] - counts[i]) for i in (0, len(counts) - 2)]
    return round(slopes[1] / slopes[0], 3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_updates(int(sys.argv[1]), sys.argv[2] == "1")
    else:
        print(json.dumps(run(), indent=1))
