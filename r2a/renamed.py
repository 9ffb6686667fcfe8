"""Old names that files on disk still have, and what they are called now. One table for each kind of file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

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
MUON = ".optimiser[1]"
"""Where a checkpoint has Muon's state: once momenta by number, and Adam's moments of all else as two vectors."""
NEWTON_SCHULZ = ((3.4445, -4.775, 2.0315),) * 5
"""What optax keeps beside the momenta."""
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


def modern_checkpoint(
    leaves: Mapping[str, Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The descriptions and the arrays of a checkpoint under today's names; Muon's state as optax has it."""
    leaves, arrays = _modern_names(leaves), _modern_names(arrays)
    if f"{MUON}.momentum[0]" not in leaves:
        return leaves, arrays
    shapes = {name.removeprefix(".params"): leaf["shape"] for name, leaf in leaves.items() if name[:8] == ".params."}
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    others = [name for name in shapes if name not in matrices]
    ends = np.cumsum([math.prod(shapes[name]) for name in others])
    muon, adam = (f"{MUON}.inner_states['{part}'].inner_state" for part in ("muon", "adam"))
    count = arrays[f"{MUON}.rest.count"]
    state = {
        f"{muon}[0].count": count,
        f"{adam}[0].count": count,
        f"{muon}[0].ns_coeffs": np.asarray(NEWTON_SCHULZ, np.float32),
    }
    state |= {f"{muon}[0].mu{name}": arrays[f"{MUON}.momentum[{i}]"] for i, name in enumerate(matrices)}
    for moment in ("mu", "nu"):
        parts = np.split(arrays[f"{MUON}.rest.{moment}"], ends[:-1])
        named = zip(others, parts, strict=True)
        state |= {f"{adam}[0].{moment}{name}": part.reshape(shapes[name]) for name, part in named}
    if ".optimiser[2].count" in arrays:
        state |= dict.fromkeys((f"{muon}[3].count", f"{adam}[2].count"), arrays[".optimiser[2].count"])
    described = {
        name: {"kind": "array", "dtype": str(array.dtype), "shape": list(array.shape)} for name, array in state.items()
    }
    kept = {name: leaf for name, leaf in leaves.items() if not name.startswith(".optimiser[")}
    return kept | described, {name: array for name, array in arrays.items() if name in kept} | state


def _modern_names(named: Mapping[str, Any]) -> dict[str, Any]:
    modern: dict[str, Any] = {}
    for name, value in named.items():
        for old, new in PARAMETERS.items():
            name = name.replace(old, new)
        modern[name] = value
    return modern
