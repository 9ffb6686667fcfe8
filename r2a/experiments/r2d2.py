"""Sec. 3.1: what experiments share whose agents learn while they act: arms, settings, and columns of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from r2a.config import FromReplay, RunConfig
from r2a.experiments import settings
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Scale, Settings
from r2a.experiments.report import score_of
from r2a.experiments.statistics import Bounds, interquartile_mean

R2D2 = {
    "experience": FromReplay(),
    "agent.core.kind": "gru",
    "learner.loss": "squashed_q_lambda",  # Table 3
    "learner.adam_epsilon": 1e-7,  # Table 3
    "learner.huber_delta": 1e6,  # R2D2: squared errors
    "evaluation.retrieval_batches": 1,
    "evaluation.epsilon": 0.01,  # Table 3
}
"""What holds at every scale."""

LAPTOP: tuple[Settings, ...] = (
    settings.LAPTOP,
    R2D2,
    {
        "agent.core.size": 128,
        "agent.retrieval": {"trajectories": 64, "num_grad_trajectories": 16},
        "agent.retrieval.auxiliary": {"low": -2.0, "high": 5.0},
        "learner": {"optimiser": "adam", "learning_rate": 5e-4, "schedule_steps": 0, "target_period": 100},
        "learner.weights.kl": 1e-4,
        "replay": {"capacity": 20_000, "minimum": 600, "trace": 20, "period": 10},
        "acting": {"steps_per_turn": 20, "samples_per_insert": 8.0},
        "batch_size": 32,
        "evaluation.episodes": 20,
        "steps": 128_000,
        "evaluate_every": 16_000,
        "checkpoint_every": 16_000,
    },
)
"""For a laptop; what is seen is for a world to say."""

SMOKE: tuple[Settings, ...] = (
    *LAPTOP,
    settings.SMOKE,
    {
        "agent.encoder.hidden": (8,),
        "agent.core.size": 8,
        "agent.retrieval": {"trajectories": 6, "num_grad_trajectories": 3, "num_neighbours": 5},
        "replay": {"capacity": 200, "minimum": 30, "trace": 10, "period": 5},
        "acting": {"num_envs": 4, "steps_per_turn": 10, "samples_per_insert": 1.0},
        "batch_size": 4,
        "steps": 400,
        "evaluate_every": 200,
        "checkpoint_every": 80,
    },
)

VARIANT = "agent.retrieval.variant"
ARMS = {  # all but the first and the last draw more evenly what they learn from: nothing is kept apart to be read
    "ra_r2d2": Arm("RA-R2D2"),
    "r2d2": Arm("R2D2", {VARIANT: "none"}),
    "ra_r2d2_slots_only": Arm("RA-R2D2, slots only (A-2)", {VARIANT: "slots_only"}),  # the same network reads nothing
    "r2d2_auxiliary": Arm("R2D2, aux. losses (control)", {VARIANT: "auxiliary_only"}),  # ours
}


def also(runs: Sequence[Result], task: str) -> dict[str, Any]:
    """The interquartile mean, and the mean score in the last quarter of learning, if any game came to its end.

    The latter is of many parameters in turn, where the score is of the last.
    """
    quarters = [scores[-max(1, len(scores) // 4) :] for scores in (run["training"]["score"] for run in runs) if scores]
    learning = round(float(np.mean([np.mean(quarter) for quarter in quarters])), 3) if quarters else None
    return {"iqm": round(interquartile_mean([score_of(run) for run in runs]), 3), "while_learning": learning}


def games(name: str, presets: Mapping[str, RunConfig], scales: Mapping[str, Scale], bounds: Bounds) -> Experiment:
    """The experiment of a world of games."""
    return Experiment(
        name,
        presets,
        ARMS,
        axes={"game": Axis("game")},
        scales=scales,
        score="score",
        bounds=bounds,
        also=also,
        columns={"iqm": "IQM", "while_learning": "learning"},
        unit="r2d2",
    )
