"""Sec. 3.1: R2D2, RA-R2D2 and ablation A-2 on the games of Atari."""

from __future__ import annotations

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
    override,
)
from r2a.environments.atari import AtariSettings
from r2a.environments.atari.scores import GAMES
from r2a.experiments import r2d2
from r2a.experiments.harness import Axis, Experiment, Scale, along

PAPER = RunConfig(
    environment="atari",
    env=AtariSettings(game="frostbite"),
    agent=AgentConfig(
        encoder=EncoderConfig(features="resnet47", hidden=(512,)),  # App. visual encoder
        core=CoreConfig(kind="gru", size=512),  # as for BabyAI, Table 6
        retrieval=RetrievalConfig(
            slots=8,  # App. Atari hyperparameters
            slot_size=512,  # ours
            trajectories=448,  # App. Atari hyperparameters: 512 - 64
            ranking="return",  # App. computational complexity
            summary_size=512,  # App. Atari hyperparameters
            auxiliary=AuxiliaryConfig(discount=0.997),
        ),
        head=HeadConfig(hidden=(512,)),  # R2D2
    ),
    learner=LearnerConfig(  # Table 3
        learning_rate=1e-4,
        adam_epsilon=1e-7,
        discount=0.997,
        huber_delta=1e6,  # R2D2: squared errors
        loss="squashed_q_lambda",
        target_period=400,
        weights=LossWeights(kl=0.1, action=0.1, value=0.1, reward=0.1),  # beta: App. Atari hyperparameters
    ),
    experience=FromReplay(
        replay=ReplayConfig(stack=4),  # ours: the paper does not list it
        acting=ActingConfig(num_envs=256, samples_per_insert=1.0),  # R2D2's 256 actors; the ratio is ours
    ),
    evaluation=EvaluationConfig(episodes=10, retrieval_batches=1, epsilon=0.01),  # Table 3
    steps=250_040_320,  # ours: a thousand million frames
    evaluate_every=1_003_520,
    checkpoint_every=1_003_520,
)
"""The paper's values, most of them Table 3's and defaults of r2a/config."""

LAPTOP = override(
    r2d2.LAPTOP,
    {
        "environment": "atari",
        "env": AtariSettings(game="road_runner", all_actions=False, image_size=42),
        "agent.encoder.features": "strided_half",
        "agent.retrieval.trajectories": 32,
        "agent.retrieval.num_grad_trajectories": 8,
        # Rewards are hundreds, returns thousands.
        "agent.retrieval.auxiliary": AuxiliaryConfig(bins=43, low=-2.0, high=40.0),
        "replay.stack": 2,
        "evaluation.episodes": 5,
        "steps": 96_000,
    },
)

SMOKE = override(
    r2d2.SMOKE,
    {
        "environment": "atari",
        "env": AtariSettings(game="pong", max_frames=400),
        "agent.encoder.features": "strided",
        "replay.stack": 2,
    },
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}

GAME = "env.game"
SCALES = {
    "smoke": Scale({"game": along(GAME, "pong")}, seeds=1, final_evaluation={"evaluation.episodes": 2}),
    "laptop": Scale(
        {"game": along(GAME, "road_runner")},
        seeds=3,
        final_evaluation={"evaluation.episodes": 20},
        optional=("ra_r2d2_slots_only", "r2d2_auxiliary"),
    ),
    "paper": Scale({"game": along(GAME, *GAMES)}, seeds=3, final_evaluation={"evaluation.episodes": 100}),
}

EXPERIMENT = Experiment(
    "atari",
    PRESETS,
    r2d2.ARMS,
    axes={"game": Axis("game")},
    scales=SCALES,
    score="score",
    also=r2d2.also,
    columns=r2d2.COLUMNS,
    unit="r2d2",
)
