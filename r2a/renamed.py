"""Old names that files on disk still have, and what they are called now. One table for each kind of file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SETTINGS: dict[str, str] = {
    "agent.head.components": "num_components",
    "agent.head.narrowest": "min_std",
    "agent.retrieval.sharpness": "query_scale",
    "agent.retrieval.similar_states": "num_neighbours",
    "agent.retrieval.taught_by": "num_grad_trajectories",
    "agent.retrieval.piece": "segment",
    "learner.mix": "lambda_",
    "learner.huber": "huber_delta",
    "learner.priority_peak": "max_priority_weight",
    "experience.data.read_one_in": "retrieval_fraction",
    "experience.acting.lanes": "num_envs",
    "env.side": "image_size",
}
"""Settings of a run (config.json, checkpoints, result files): where they are, and their names there now."""
LOSSES: dict[str, str] = {"one_step": "q_learning", "squashed_lambda": "squashed_q_lambda"}
"""What was `learner.returns` of the `learner.objective` q_learning, and is `learner.loss` now."""
PARAMETERS: dict[str, str] = {
    ".retrieval.slot_start.": ".retrieval.process.start.",
    ".retrieval.slot_input.": ".retrieval.process.slot_input.",
    ".retrieval.slot_update.": ".retrieval.process.slot_update.",
    ".retrieval.agent_update.": ".retrieval.process.agent_update.",
}
"""Parts of the names of a checkpoint's arrays: here, those of an agent whose slots read nothing."""
COLUMNS: dict[str, str] = {"told": "instruction"}
"""Columns of a data set; its fingerprint is made with the old names, so that it stays what it was."""
EXPERIENCE = ("data", "steps_per_call", "replay", "acting", "batch_size")
"""Settings that lay beside all others, and belong to what is learnt from now."""
EVERYWHERE = ("environment", "agent", "learner", "evaluation", "seed", "steps", "evaluate_every", "checkpoint_every")


def modern_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run in their places of today, under their names of today."""
    if "experience" not in values and "environment" in values:
        play = {"evaluation": {**values["play"], "retrieval_batches": 1}} if "play" in values else {}
        values = {
            **{name: values[name] for name in EVERYWHERE if name in values},
            **play,
            # Every world's settings lay under its own name, those of others beside them.
            "env": dict(values.get(values["environment"], {})),
            "experience": {name: values[name] for name in EXPERIENCE if name in values},
        }
    return _renamed(values, "")


def _renamed(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    modern: dict[str, Any] = {}
    for name, value in values.items():
        place = f"{where}{name}"
        if isinstance(value, Mapping):
            modern[name] = _renamed(value, f"{place}.")
        else:
            changed = 1.0 / value if place == "experience.data.read_one_in" else value
            modern[SETTINGS.get(place, name)] = changed
    if where == "learner." and modern.keys() & {"objective", "returns"}:
        objective, returns = modern.pop("objective", "q_learning"), modern.pop("returns", "one_step")
        modern["loss"] = LOSSES.get(returns, returns) if objective == "q_learning" else objective
    return modern


def modern_parameters(named: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint holds, under today's names of its arrays."""
    modern: dict[str, Any] = {}
    for name, value in named.items():
        for old, new in PARAMETERS.items():
            name = name.replace(old, new)
        modern[name] = value
    return modern
