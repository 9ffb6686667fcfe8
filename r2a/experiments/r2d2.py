"""Sec. 3.1: what experiments share whose agents learn while they act: arms, settings, and columns of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from r2a.config import (
    ActingConfig,
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    EncoderConfig,
    EvaluationConfig,
    FromReplay,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    ReplayConfig,
    RetrievalConfig,
    RunConfig,
)
from r2a.experiments.harness import Arm, Result
from r2a.experiments.report import score_of
from r2a.experiments.statistics import interquartile_mean

LAPTOP = RunConfig(
    agent=AgentConfig(
        encoder=EncoderConfig(hidden=(128,)),
        core=CoreConfig(kind="gru", size=128),
        retrieval=RetrievalConfig(
            slots=2,
            slot_size=64,
            key_size=32,
            trajectories=64,
            num_grad_trajectories=16,
            ranking="attention",
            num_neighbours=10,
            summariser="linear",
            summary_size=64,
            bottleneck_std=0.03,
            kl_reduction="mean",
            gate_bias=-3.0,
            auxiliary=AuxiliaryConfig(bins=21, low=-2.0, high=5.0),
        ),
        head=HeadConfig(hidden=(128,), attention_gain=0.0),
    ),
    learner=LearnerConfig(
        learning_rate=5e-4,
        adam_epsilon=1e-7,
        huber_delta=1e6,
        loss="squashed_q_lambda",
        target_period=100,
        weights=LossWeights(kl=1e-4, action=0.03, value=0.03, reward=0.03),
    ),
    experience=FromReplay(
        replay=ReplayConfig(capacity=20_000, minimum=600, trace=20, period=10),
        acting=ActingConfig(steps_per_turn=20, samples_per_insert=8.0),
        batch_size=32,
    ),
    evaluation=EvaluationConfig(episodes=20, retrieval_batches=1, epsilon=0.01),  # Table 3
    steps=128_000,
    evaluate_every=16_000,
    checkpoint_every=16_000,
)
"""For a laptop; what is seen is for a world to say."""

SMOKE = replace(
    LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(hidden=(8,)),
        core=CoreConfig(kind="gru", size=8),
        retrieval=replace(
            LAPTOP.agent.retrieval,
            slot_size=8,
            key_size=8,
            summary_size=8,
            trajectories=6,
            num_grad_trajectories=3,
            k_traj=3,
            k_states=4,
            num_neighbours=5,
        ),
        head=HeadConfig(attention_heads=2),
    ),
    experience=FromReplay(
        replay=ReplayConfig(capacity=200, minimum=30, trace=10, period=5),
        acting=ActingConfig(num_envs=4, steps_per_turn=10, samples_per_insert=1.0),
        batch_size=4,
    ),
    evaluation=replace(LAPTOP.evaluation, episodes=2),
    steps=400,
    evaluate_every=200,
    checkpoint_every=80,
)

VARIANT = "agent.retrieval.variant"
ARMS = {  # all but the first and the last draw more evenly what they learn from: nothing is kept apart to be read
    "ra_r2d2": Arm("RA-R2D2"),
    "r2d2": Arm("R2D2", {VARIANT: "none"}),
    "ra_r2d2_slots_only": Arm("RA-R2D2, slots only (A-2)", {VARIANT: "slots_only"}),  # the same network reads nothing
    "r2d2_auxiliary": Arm("R2D2, aux. losses (control)", {VARIANT: "auxiliary_only"}),  # ours
}
COLUMNS = {"iqm": "IQM", "while_learning": "learning"}


def also(runs: Sequence[Result], task: str) -> dict[str, Any]:
    """The interquartile mean, and the mean score in the last quarter of learning, if any game came to its end.

    The latter is of many parameters in turn, where the score is of the last.
    """
    quarters = [scores[-max(1, len(scores) // 4) :] for scores in (run["training"]["score"] for run in runs) if scores]
    learning = round(float(np.mean([np.mean(quarter) for quarter in quarters])), 3) if quarters else None
    return {"iqm": round(interquartile_mean([score_of(run) for run in runs]), 3), "while_learning": learning}
