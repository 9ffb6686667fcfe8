"""Sec. 3.1: R2D2, RA-R2D2 and ablation A-2 on the games of Atari."""

from __future__ import annotations

from r2a.environments.atari.scores import GAMES
from r2a.experiments import r2d2, settings
from r2a.experiments.harness import Scale, along

PAPER = settings.of(
    "atari",
    r2d2.R2D2,  # with a memory of the size for BabyAI, Table 6
    {
        "env.game": "frostbite",
        "agent.encoder": {"features": "resnet47", "hidden": (512,)},  # App. visual encoder
        "agent.retrieval.slots": 8,  # App. Atari hyperparameters
        "agent.retrieval.slot_size": 512,  # ours
        "agent.retrieval.trajectories": 448,  # App. Atari hyperparameters: 512 - 64
        "agent.retrieval.ranking": "return",  # App. computational complexity
        "agent.retrieval.summary_size": 512,  # App. Atari hyperparameters
        "agent.retrieval.auxiliary.discount": 0.997,
        "agent.head.hidden": (512,),  # R2D2
        "learner": {"learning_rate": 1e-4, "discount": 0.997, "target_period": 400},  # Table 3
        "learner.weights.kl": 0.1,  # beta: App. Atari hyperparameters
        "replay.stack": 4,  # ours: the paper does not list it
        "acting": {"num_envs": 256, "samples_per_insert": 1.0},  # R2D2's 256 actors; the ratio is ours
        "evaluation.episodes": 10,
        "steps": 250_040_320,  # ours: a thousand million frames
        "evaluate_every": 1_003_520,
        "checkpoint_every": 1_003_520,
    },
)
"""The paper's values, most of them Table 3's and defaults of r2a/config."""

LAPTOP = settings.of(
    "atari",
    *r2d2.LAPTOP,
    {
        "env": {"game": "road_runner", "all_actions": False, "image_size": 42},
        "agent.encoder.features": "strided_half",
        "agent.retrieval": {"trajectories": 32, "num_grad_trajectories": 8},
        "agent.retrieval.auxiliary": {"bins": 43, "low": -2.0, "high": 40.0},  # rewards: hundreds, returns: thousands
        "replay.stack": 2,
        "evaluation.episodes": 5,
        "steps": 96_000,
    },
)

PONG = {"env": {"game": "pong", "max_frames": 400}, "agent.encoder.features": "strided", "replay.stack": 2}
SMOKE = settings.of("atari", *r2d2.SMOKE, PONG)

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

EXPERIMENT = r2d2.games("atari", {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}, SCALES, bounds=(None, None))
