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
    "data.read_one_in": "retrieval_fraction",
}
"""Settings of a run (config.json, checkpoints, result files): where they were, and their names there now."""
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


def modern_settings(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The settings of a run under their names of today."""
    modern: dict[str, Any] = {}
    for name, value in values.items():
        place = f"{where}{name}"
        if isinstance(value, Mapping):
            value = modern_settings(value, f"{place}.")
        if place == "data.read_one_in":
            value = 1 / float(value)  # type: ignore[arg-type]
        modern[SETTINGS.get(place, name)] = value
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
