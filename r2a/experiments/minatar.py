"""Sec. 3.1 on a CPU: R2D2, RA-R2D2 and ablation A-2 on games of MinAtar."""

from __future__ import annotations

from r2a.experiments import r2d2, settings
from r2a.experiments.harness import Scale, along

LAPTOP = settings.of("minatar", *r2d2.LAPTOP, {"agent.encoder.features": "minatar"})
SMOKE = settings.of("minatar", *r2d2.SMOKE, {"agent.encoder.features": "minatar", "env.max_steps": 100})
GAME = "env.game"
SCALES = {
    "smoke": Scale({"game": along(GAME, "breakout")}, seeds=1, final_evaluation={"evaluation.episodes": 4}),
    "laptop": Scale(
        {"game": along(GAME, "breakout", "space_invaders", "freeway")},
        seeds=5,
        final_evaluation={"evaluation.episodes": 100},
        optional=("r2d2_auxiliary",),
    ),
}

# No game takes points away.
EXPERIMENT = r2d2.games("minatar", {"laptop": LAPTOP, "smoke": SMOKE}, SCALES, bounds=(0.0, None))
