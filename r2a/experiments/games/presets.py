"""Named settings of the online games, and the arms of their comparison."""

from __future__ import annotations

from dataclasses import replace

from r2a.config import (
    ActingConfig,
    AgentConfig,
    AtariConfig,
    AuxiliaryConfig,
    CoreConfig,
    EncoderConfig,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    MinAtarConfig,
    OnlineConfig,
    PlayConfig,
    ReplayConfig,
    RetrievalConfig,
)

ATARI_PAPER = OnlineConfig(
    environment="atari",
    atari=AtariConfig(game="frostbite"),
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
    replay=ReplayConfig(stack=4),  # ours: the paper does not list it
    acting=ActingConfig(lanes=256, samples_per_insert=1.0),  # R2D2's 256 actors; the ratio is ours
    steps=250_040_320,  # ours: a thousand million frames
    evaluate_every=1_003_520,
    checkpoint_every=1_003_520,
)
"""The paper's values, most of them Table 3's and defaults of r2a/config."""

MINATAR_LAPTOP = OnlineConfig(
    environment="minatar",
    agent=AgentConfig(
        encoder=EncoderConfig(features="minatar", hidden=(128,)),
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
    replay=ReplayConfig(capacity=20_000, minimum=600, trace=20, period=10),
    batch_size=32,
    acting=ActingConfig(steps_per_turn=20, samples_per_insert=8.0),
    play=PlayConfig(episodes=20),
    steps=128_000,
    evaluate_every=16_000,
    checkpoint_every=16_000,
)

MINATAR_SMOKE = replace(
    MINATAR_LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(features="minatar", hidden=(8,)),
        core=CoreConfig(kind="gru", size=8),
        retrieval=replace(
            MINATAR_LAPTOP.agent.retrieval,
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
    replay=ReplayConfig(capacity=200, minimum=30, trace=10, period=5),
    batch_size=4,
    acting=ActingConfig(lanes=4, steps_per_turn=10, samples_per_insert=1.0),
    play=PlayConfig(episodes=2),
    minatar=MinAtarConfig(max_steps=100),
    steps=400,
    evaluate_every=200,
    checkpoint_every=80,
)

ATARI_LAPTOP = replace(
    MINATAR_LAPTOP,
    environment="atari",
    atari=AtariConfig(game="road_runner", all_actions=False, side=42),
    agent=replace(
        MINATAR_LAPTOP.agent,
        encoder=EncoderConfig(features="strided_half", hidden=(128,)),
        retrieval=replace(
            MINATAR_LAPTOP.agent.retrieval,
            trajectories=32,
            num_grad_trajectories=8,
            auxiliary=AuxiliaryConfig(bins=43, low=-2.0, high=40.0),  # rewards are hundreds, returns thousands
        ),
    ),
    replay=ReplayConfig(capacity=20_000, minimum=600, trace=20, period=10, stack=2),
    play=PlayConfig(episodes=5),
    steps=96_000,
)

ATARI_SMOKE = replace(
    MINATAR_SMOKE,
    environment="atari",
    atari=AtariConfig(game="pong", max_frames=400),
    agent=replace(MINATAR_SMOKE.agent, encoder=EncoderConfig(features="strided", hidden=(8,))),
    replay=replace(MINATAR_SMOKE.replay, stack=2),
)

PRESETS: dict[str, dict[str, OnlineConfig]] = {
    "atari": {"paper": ATARI_PAPER, "laptop": ATARI_LAPTOP, "smoke": ATARI_SMOKE},
    "minatar": {"laptop": MINATAR_LAPTOP, "smoke": MINATAR_SMOKE},
}
ARMS = {"ra_r2d2": "full", "r2d2": "none", "ra_r2d2_slots_only": "slots_only", "r2d2_auxiliary": "auxiliary_only"}


def arm(config: OnlineConfig, name: str) -> OnlineConfig:
    """One arm of the comparison: what differs from RA-R2D2, which is what the config says, and nothing else.

    r2d2: no retrieval; ra_r2d2_slots_only: ablation A-2, the same network, whose slots read nothing; r2d2_auxiliary: no
    retrieval, but the auxiliary losses, a control that is not in the paper. The first two draw what they learn from
    more evenly (`SequenceReplay.draw`): no sequence has to be kept apart from it.
    """
    if name == "ra_r2d2":
        return config
    retrieval = replace(config.agent.retrieval, variant=ARMS[name])  # pyright: ignore[reportArgumentType]
    return replace(config, agent=replace(config.agent, retrieval=retrieval))
