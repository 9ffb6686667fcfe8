"""Gridroboman's named settings: the paper's, one for a laptop, one for tests; and the arms of the experiment."""

from __future__ import annotations

from dataclasses import replace

from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    DataConfig,
    EncoderConfig,
    EvaluationConfig,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
    RunConfig,
)
from r2a.experiments.matching import agent_size, widen_to_match

PAPER = RunConfig(
    learner=LearnerConfig(adam_epsilon=1e-7),  # App. Atari, Table 3: what is not specified is as for Atari
    data=DataConfig(dataset="gridroboman-online"),
    steps=1_000_000,
)
"""The paper's values, most of them the defaults of r2a/config; its data: `r2a collect gridroboman --method online
--episodes 100000`."""

LAPTOP = RunConfig(
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
        schedule_steps=2_500,
        discount=0.9,
        target_period=50,
        weights=LossWeights(kl=1e-4, action=0.03, value=0.03, reward=0.03),
    ),
    data=DataConfig(tasks_per_step=10, batch_size=320),
    steps=2_500,
    steps_per_call=50,
    evaluate_every=250,
    checkpoint_every=250,
)

DEMO = replace(LAPTOP, data=replace(LAPTOP.data, dataset="gridroboman-demo"))
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
    data=DataConfig(dataset="gridroboman-smoke", num_tasks=3, tasks_per_step=3, batch_size=24),
    evaluation=EvaluationConfig(episodes=2, retrieval_batches=2),
    steps=40,
    steps_per_call=10,
    evaluate_every=20,
    checkpoint_every=10,
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}
ARMS = ("ra_dqn", "dqn", "dqn_matched", "ra_dqn_random")


def arm(config: RunConfig, name: str) -> RunConfig:
    """One arm of the comparison: what differs from RA-DQN, and nothing else.

    dqn: no retrieval; dqn_matched: no retrieval, but as many parameters; ra_dqn_random: retrieval that reads
    a random task's data in training and test, the control for capacity and auxiliary losses.
    """
    plain = replace(config, agent=replace(config.agent, retrieval=replace(config.agent.retrieval, variant="none")))
    if name == "dqn":
        return plain
    if name == "dqn_matched":
        return widen_to_match(plain, config, size_of)
    if name == "ra_dqn_random":
        return replace(config, data=replace(config.data, retrieve_from="random_task"))
    assert name == "ra_dqn", name
    return config


def size_of(config: RunConfig) -> int:
    """How many parameters the agent of `config` has."""
    told = config.data.num_tasks if config.data.task_input == "one_hot" else 0
    return agent_size(config.agent, 11 + told, 7)
