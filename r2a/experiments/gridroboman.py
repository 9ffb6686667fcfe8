"""Sec. 3.2: multi-task offline learning with a task-specific retrieval data set, on 10, 20 and 30 tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax

from r2a.config import RunConfig, override
from r2a.environments.registry import spec_of
from r2a.experiments import settings
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Scale, Settings, along
from r2a.experiments.matching import agent_size, widen_to_match
from r2a.training.collect_pure import expert_and_floor

EVERY = {"evaluation.sources": ("right", "wrong", "random")}
PAPER = settings.of(
    "gridroboman",
    EVERY,
    {
        "learner.adam_epsilon": 1e-7,  # App. Atari, Table 3: what is not specified is as for Atari
        "data.dataset": "gridroboman-online",
        "steps": 1_000_000,
    },
)
"""The paper's values, most of them the defaults of r2a/config; its data: `r2a collect gridroboman --method online
--episodes 100000`."""

LAPTOP = settings.of(
    "gridroboman",
    settings.LAPTOP,
    EVERY,
    {
        "agent.encoder": {"features": "positions", "hidden": (128, 128)},
        "agent.retrieval": {"ranking": "return", "num_neighbours": 0, "length": 3, "k_traj": 24, "k_states": 0},
        "agent.retrieval.gate_bias": 0.0,
        "agent.retrieval.auxiliary": {"low": -1.0, "high": 4.0, "discount": 0.9},
        "agent.head.attention_gain": 1.0,
        "learner": {"learning_rate": 4e-3, "discount": 0.9, "target_period": 50},
        "learner.weights.kl": 1e-4,
        "data": {"dataset": "gridroboman-scripted", "tasks_per_step": 10, "batch_size": 320},
        "steps_per_call": 50,
        "evaluation.retrieval_batches": 4,
        "steps": 2_500,
    },
)

DEMO = override(LAPTOP, {"data.dataset": "gridroboman-demo"})
"""The laptop preset on the data of its ten tasks alone."""

SMOKE = override(
    LAPTOP,
    settings.SMOKE,
    {
        "agent.encoder.hidden": (16, 16),
        "agent.retrieval": {"trajectories": 8, "k_traj": 6, "summary_size": 16},
        "data": {"dataset": "gridroboman-smoke", "num_tasks": 3, "tasks_per_step": 3, "batch_size": 24},
        "steps_per_call": 10,
        "evaluation.retrieval_batches": 2,
        "steps": 40,
    },
)


def size_of(config: RunConfig) -> int:
    """How many parameters the agent of `config` has."""
    told = config.data.num_tasks if config.data.task_input == "one_hot" else 0
    return agent_size(config.environment, config.agent, 11 + told, 7)


NO_RETRIEVAL = {"agent.retrieval.variant": "none"}
ARMS = {
    "ra_dqn": Arm("RA-DQN", sources={"right": "right", "wrong": "wrong", "random": "random"}),
    "dqn": Arm("DQN", NO_RETRIEVAL, sources={"none": "right"}),
    "dqn_matched": Arm(
        "DQN, same size", NO_RETRIEVAL, adapt=partial(widen_to_match, size_of=size_of), sources={"none": "right"}
    ),
    # Reads in training and test what says nothing of its task: the control for capacity and auxiliary losses.
    "ra_dqn_random": Arm("RA-DQN, random data", {"data.retrieve_from": "random_task"}, sources={"random": "random"}),
}


def tasks(*counts: int, at_once: int, states: int) -> dict[int, Settings]:
    """Numbers of tasks; a learner step has `states` transitions of each of `at_once` tasks, or of all if fewer."""
    sizes = {count: min(at_once, count) for count in counts}
    return {
        count: {"data": {"num_tasks": count, "tasks_per_step": size, "batch_size": size * states}}
        for count, size in sizes.items()
    }


INPUT = along("data.task_input", "none", "one_hot")
FINAL = {"evaluation.episodes": 16, "evaluation.retrieval_batches": 8}
SCALES = {
    "smoke": Scale(
        {"num_tasks": tasks(3, at_once=3, states=8), "task_input": INPUT},
        seeds=2,
        collect={"": {"episodes": 80, "num_tasks": 3}},
        changes={"steps": 20},
    ),
    "laptop": Scale(
        {"num_tasks": tasks(30, 10, 20, at_once=30, states=32), "task_input": INPUT},
        seeds=3,
        final_evaluation=FINAL,
        collect={"": {}},
        exceptions={("dqn", "one_hot"): {"learner.learning_rate": 8e-3}},  # every arm has the rate that suits it
    ),
    "paper": Scale(
        {"num_tasks": tasks(30, 10, 20, at_once=4, states=64), "task_input": INPUT},
        seeds=3,
        final_evaluation=FINAL,
        collect={"": {"method": "online", "episodes": 100_000}},
        changes={"evaluate_every": 100_000},
    ),
}


@cache
def bounds_of(num_tasks: int) -> dict[str, float]:
    """Returns of the scripted expert and of the best constant action, as means over the first tasks."""
    names = spec_of("gridroboman").tasks[:num_tasks]
    expert, floor = expert_and_floor("gridroboman", names, jax.random.key(1))
    return {"expert": round(float(expert.mean()), 3), "floor": round(float(floor.mean()), 3)}


def also(runs: Sequence[Result], task: str) -> dict[str, Any]:
    """Between what returns a run's lie."""
    return bounds_of(runs[0]["num_tasks"])


EXPERIMENT = Experiment(
    "gridroboman",
    {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE, "demo": DEMO},
    ARMS,
    axes={
        "num_tasks": Axis("tasks", "{} tasks"),
        "task_input": Axis("task", "task {}", {"none": "not told", "one_hot": "told"}),
    },
    scales=SCALES,
    score="return",
    bounds=(0.0, 50.0),
    also=also,
    references={"expert": "scripted expert", "floor": "best constant action"},
)
