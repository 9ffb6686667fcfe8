"""Named settings for CausalWorld, and the arms of its comparison (Table 2)."""

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
from r2a.environments.causalworld.layout import SIZE
from r2a.experiments.babyai.presets import PAPER as BABYAI
from r2a.experiments.matching import agent_size, widen_to_match

PAPER = RunConfig(
    environment="causalworld",
    agent=AgentConfig(
        encoder=EncoderConfig(features="poses", hidden=(256, 256)),  # App. gridroboman setup
        retrieval=BABYAI.agent.retrieval,  # App. CausalWorld: the same setup as for BabyAI
        head=HeadConfig(hidden=(256,), num_components=1),  # ours
    ),
    learner=LearnerConfig(loss="cloning", weights=BABYAI.learner.weights),
    data=DataConfig(
        dataset="causalworld-expert",
        num_tasks=5,
        tasks_per_step=5,
        batch_size=320,
        learn_from="all_episodes",
        retrieve_from="all_tasks",
    ),
    steps=100_000,
)
"""The paper's values where it has them; its data: `r2a collect causalworld --episodes 50000`."""

LAPTOP = RunConfig(
    environment="causalworld",
    agent=AgentConfig(
        encoder=EncoderConfig(features="poses", hidden=(256, 128)),
        retrieval=RetrievalConfig(
            slots=2,
            slot_size=64,
            key_size=32,
            trajectories=2,
            length=64,
            ranking="attention",
            k_traj=2,
            num_neighbours=10,
            k_states=10,
            summariser="linear",
            summary_size=64,
            bottleneck_std=0.03,
            kl_reduction="mean",
            gate_bias=-3.0,
            auxiliary=AuxiliaryConfig(bins=21, low=-2.0, high=2.0, discount=0.95),
        ),
        head=HeadConfig(hidden=(128,), attention_gain=0.0, num_components=5, min_std=0.03),
    ),
    learner=LearnerConfig(
        loss="cloning",
        optimiser="muon",
        learning_rate=5e-3,
        schedule_steps=6_000,
        weights=LossWeights(kl=1e-5, action=0.03, value=0.03, reward=0.03),
    ),
    data=DataConfig(
        dataset="causalworld-laptop",
        num_tasks=5,
        tasks_per_step=5,
        batch_size=320,
        learn_from="all_episodes",
        retrieve_from="all_tasks",
    ),
    evaluation=EvaluationConfig(episodes=2, retrieval_batches=2),
    steps=6_000,
    steps_per_call=100,
    evaluate_every=3_000,
    checkpoint_every=1_000,
)

SMOKE = replace(
    LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(features="poses", hidden=(16,)),
        retrieval=replace(
            LAPTOP.agent.retrieval,
            slot_size=8,
            key_size=8,
            summary_size=8,
            trajectories=1,
            k_traj=1,
            length=8,
            k_states=2,
            num_neighbours=2,
        ),
        head=HeadConfig(hidden=(8,), attention_heads=2, num_components=1),
    ),
    data=replace(LAPTOP.data, dataset="causalworld-smoke", num_tasks=2, tasks_per_step=2, batch_size=8),
    evaluation=EvaluationConfig(episodes=1, retrieval_batches=1),
    steps=20,
    steps_per_call=10,
    evaluate_every=20,
    checkpoint_every=10,
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}
CONTROLS = ("bc_matched", "ra_bc_random")
"""Not in the paper."""
ARMS = ("ra_bc_multi", "bc", "ra_bc_single", *CONTROLS)


def arm(config: RunConfig, name: str) -> RunConfig:
    """One row of Table 2: what differs from RA-BC with a multi-task retrieval batch, and nothing else.

    bc: no retrieval; single: reads from the episodes of its own task; random: reads a random task's episodes in
    training and test; bc_matched: no retrieval, but as many parameters.
    """
    retrieval, data = config.agent.retrieval, config.data
    if name == "bc_matched":
        return widen_to_match(arm(config, "bc"), config, size_of)
    if name == "bc":
        retrieval = RetrievalConfig(variant="none")  # none of its settings: they could not matter
    elif name == "ra_bc_single":
        data = replace(data, retrieve_from="same_task")
    elif name == "ra_bc_random":
        data = replace(data, retrieve_from="random_task")
    else:
        assert name == "ra_bc_multi", name
    return replace(config, agent=replace(config.agent, retrieval=retrieval), data=data)


def size_of(config: RunConfig) -> int:
    """How many parameters the agent of `config` has; it sees numbers, or each camera's pictures of table and goal."""
    world = config.causalworld
    pictures = (2 * len(world.cameras), world.side, world.side, 3)
    return agent_size(config.agent, pictures if world.cameras else SIZE, 9)
