"""BabyAI's named settings, and the arms of Table 1."""

from __future__ import annotations

from dataclasses import replace

from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    DataConfig,
    EncoderConfig,
    EvaluationConfig,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
    RunConfig,
)

LAPTOP_LEVELS = (
    "GoToObj",
    "GoToRedBallGrey",
    "GoToLocal",
    "PickupLoc",
    "OpenDoor",
    "GoToDoor",
    "ActionObjDoor",
    "PutNextLocal",
    "OpenRedBlueDoors",
    "OpenTwoDoors",
    "OpenDoorsOrderN4",
    "UnlockPickupDist",
)
"""Seven levels of one behaviour each, and five compositional ones, all of which a bot solves in less than 64 steps."""

SMOKE_LEVELS = ("GoToObj", "GoToLocal", "PutNextLocal")

PAPER = RunConfig(
    environment="babyai",
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(256, 256), cell_size=64, word_size=128),
        core=CoreConfig(kind="gru", size=512),  # Table 6
        # App. BabyAI: as for gridroboman, but 32 trajectories of each task, and a learned ranking
        retrieval=RetrievalConfig(trajectories=32, ranking="attention", length=20),
    ),
    learner=LearnerConfig(adam_epsilon=1e-7, target_period=1000),  # Table 6; the rest as for gridroboman
    data=DataConfig(
        dataset="babyai-expert",
        num_tasks=40,
        tasks_per_step=40,
        batch_size=240,  # 256, but a multiple of the tasks
        sequence_steps=40,
        burn_in=20,
        learn_from="all_episodes",
        retrieve_from="all_tasks",
    ),
    steps=1_000_000,
)
"""The paper's values where it has them; its data: `r2a collect babyai --episodes 50000` (or 200000)."""

LAPTOP = RunConfig(
    environment="babyai",
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(128,)),
        core=CoreConfig(kind="gru", size=128),
        retrieval=RetrievalConfig(
            slots=2,
            slot_size=64,
            key_size=32,
            trajectories=60,
            num_grad_trajectories=6,
            length=8,
            ranking="attention",
            num_neighbours=10,
            summariser="linear",
            summary_size=64,
            bottleneck_std=0.03,
            kl_reduction="mean",
            gate_bias=-3.0,
            auxiliary=AuxiliaryConfig(bins=21, low=-0.5, high=0.6, discount=0.95),
        ),
        head=HeadConfig(hidden=(128,), attention_gain=0.0),
    ),
    learner=LearnerConfig(
        optimiser="muon",
        learning_rate=2e-3,
        schedule_steps=1_500,
        discount=0.95,
        target_period=100,
        weights=LossWeights(kl=1e-5, action=0.03, value=0.03, reward=0.03),
    ),
    data=DataConfig(
        dataset="babyai-laptop",
        num_tasks=12,
        tasks_per_step=12,
        batch_size=96,
        sequence_steps=10,
        burn_in=4,
        learn_from="all_episodes",
        retrieve_from="all_tasks",
    ),
    evaluation=EvaluationConfig(episodes=16, retrieval_batches=2, trajectories=120),
    steps=1_500,
    steps_per_call=50,
    evaluate_every=250,
    checkpoint_every=250,
)

SMOKE = replace(
    LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(16,), cell_size=8, word_size=8),
        core=CoreConfig(kind="gru", size=16),
        retrieval=replace(
            LAPTOP.agent.retrieval,
            slot_size=8,
            key_size=8,
            summary_size=16,
            trajectories=4,
            num_grad_trajectories=2,
            k_traj=3,
            k_states=4,
            num_neighbours=6,
        ),
        head=HeadConfig(hidden=(), attention_heads=2),
    ),
    data=replace(
        LAPTOP.data, dataset="babyai-smoke", num_tasks=3, tasks_per_step=3, batch_size=6, sequence_steps=3, burn_in=1
    ),
    evaluation=EvaluationConfig(episodes=2, retrieval_batches=2, trajectories=6, steps=24),
    steps=20,
    steps_per_call=10,
    evaluate_every=10,
    checkpoint_every=10,
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}
ARMS = ("ra_rdqn_multi", "rdqn", "ra_rdqn_single", "ra_rdqn_multi_no_ib", "ra_rdqn_random", "rdqn_auxiliary")


def arm(config: RunConfig, name: str) -> RunConfig:
    """One row of Table 1: what differs from RA-RDQN with a multi-task retrieval batch, and nothing else.

    rdqn: no retrieval; single: reads from the episodes of its own level; multi_no_ib:
    without information bottleneck; random: reads a random level's episodes in training and test, the control for
    capacity and auxiliary losses; rdqn_auxiliary: no retrieval, but the auxiliary losses, which is not in the paper.
    """
    retrieval, data = config.agent.retrieval, config.data
    if name == "rdqn":
        retrieval = replace(retrieval, variant="none")
    elif name == "rdqn_auxiliary":
        retrieval = replace(retrieval, variant="auxiliary_only")
    elif name == "ra_rdqn_multi_no_ib":
        retrieval = replace(retrieval, bottleneck="identity")
    elif name == "ra_rdqn_single":
        data = replace(data, retrieve_from="same_task")
    elif name == "ra_rdqn_random":
        data = replace(data, retrieve_from="random_task")
    else:
        assert name == "ra_rdqn_multi", name
    return replace(config, agent=replace(config.agent, retrieval=retrieval), data=data)
