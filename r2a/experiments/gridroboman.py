"""Sec. 3.2: multi-task offline learning with a task-specific retrieval data set, on 10, 20 and 30 tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax

from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    DataConfig,
    EncoderConfig,
    EvaluationConfig,
    FromDataset,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
    RunConfig,
    override,
)
from r2a.environments.registry import spec_of, world_of
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Scale, Settings, along
from r2a.experiments.matching import agent_size, widen_to_match
from r2a.training.collect import collect
from r2a.training.collect_pure import expert_and_floor

ALL_SOURCES = ("right", "wrong", "random")
PAPER = RunConfig(
    environment="gridroboman",
    learner=LearnerConfig(adam_epsilon=1e-7),  # App. Atari, Table 3: what is not specified is as for Atari
    experience=FromDataset(DataConfig(dataset="gridroboman-online")),
    evaluation=EvaluationConfig(sources=ALL_SOURCES),
    steps=1_000_000,
)
"""The paper's values, most of them the defaults of r2a/config; its data: `r2a collect gridroboman --method online
--episodes 100000`."""

LAPTOP = RunConfig(
    environment="gridroboman",
    agent=AgentConfig(
        encoder=EncoderConfig(features="positions", hidden=(128, 128)),
        retrieval=RetrievalConfig(
            slots=2,
            slot_size=64,
            key_size=32,
            length=3,
            k_traj=24,
            k_states=0,
            summariser="linear",
            summary_size=64,
            bottleneck_std=0.03,
            kl_reduction="mean",
            auxiliary=AuxiliaryConfig(bins=21, low=-1.0, high=4.0, discount=0.9),
        ),
        head=HeadConfig(hidden=(128,)),
    ),
    learner=LearnerConfig(
        optimiser="muon",
        learning_rate=4e-3,
        schedule_steps=-1,
        discount=0.9,
        target_period=50,
        weights=LossWeights(kl=1e-4, action=0.03, value=0.03, reward=0.03),
    ),
    experience=FromDataset(DataConfig("gridroboman-scripted", tasks_per_step=10, batch_size=320), steps_per_call=50),
    evaluation=EvaluationConfig(sources=ALL_SOURCES),
    steps=2_500,
    evaluate_every=250,
    checkpoint_every=250,
)

DEMO = override(LAPTOP, {"data.dataset": "gridroboman-demo"})
"""The laptop preset on the data of its ten tasks alone."""

SMOKE = replace(
    LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(features="positions", hidden=(16, 16)),
        retrieval=replace(
            LAPTOP.agent.retrieval, slot_size=8, key_size=8, summary_size=16, trajectories=8, k_traj=6, k_states=4
        ),
        head=HeadConfig(hidden=(), attention_heads=2),
    ),
    experience=FromDataset(
        DataConfig("gridroboman-smoke", num_tasks=3, tasks_per_step=3, batch_size=24), steps_per_call=10
    ),
    evaluation=EvaluationConfig(episodes=2, retrieval_batches=2, sources=ALL_SOURCES),
    steps=40,
    evaluate_every=20,
    checkpoint_every=10,
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE, "demo": DEMO}


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
    return {
        count: {
            "data.num_tasks": count,
            "data.tasks_per_step": min(at_once, count),
            "data.batch_size": min(at_once, count) * states,
        }
        for count in counts
    }


INPUT = along("data.task_input", "none", "one_hot")
FINAL = {"evaluation.episodes": 16, "evaluation.retrieval_batches": 8}
SCALES = {
    "smoke": Scale(
        {"num_tasks": tasks(3, at_once=3, states=8), "task_input": INPUT},
        seeds=2,
        final_evaluation={},
        changes={"steps": 20},
    ),
    "laptop": Scale(
        {"num_tasks": tasks(30, 10, 20, at_once=30, states=32), "task_input": INPUT},
        seeds=3,
        final_evaluation=FINAL,
        exceptions={("dqn", "one_hot"): {"learner.learning_rate": 8e-3}},  # every arm has the rate that suits it
    ),
    "paper": Scale(
        {"num_tasks": tasks(30, 10, 20, at_once=4, states=64), "task_input": INPUT},
        seeds=3,
        final_evaluation=FINAL,
        changes={"evaluate_every": 100_000},
    ),
}


def collect_for(scale: str, path: Path) -> None:
    """Collect the data set of a scale."""
    changes: dict[str, dict[str, Any]] = {
        "smoke": {"episodes": 80, "num_tasks": 3},
        "laptop": {},
        "paper": {"method": "online", "episodes": 100_000},
    }
    usual = world_of("gridroboman").collect
    assert usual is not None
    collect("gridroboman", replace(usual, **changes[scale]), path)


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
    PRESETS,
    ARMS,
    axes={
        "num_tasks": Axis("tasks", "{} tasks"),
        "task_input": Axis("task", "task {}", {"none": "not told", "one_hot": "told"}),
    },
    scales=SCALES,
    score="return",
    bounds=(0.0, 50.0),
    collect=collect_for,
    also=also,
    references={"expert": "scripted expert", "floor": "best constant action"},
)
