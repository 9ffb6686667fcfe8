"""The columns of an offline data set: their types and shapes, what makes them consistent, and their splits.

Axes: E episodes, L steps of the longest episode. Rows of an episode beyond its length are padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEARNING, RETRIEVAL = 0, 1

# None: observation [E, L + 1, ...] and action [E, L, ...] keep the type they come in.
# Other columns [E, ...] may be added; `instruction` [E, w] is what the agent is told in an episode, as word numbers.
COLUMN_TYPES: dict[str, type[np.generic] | None] = {
    "observation": None,
    "action": None,
    "reward": np.float32,
    "length": np.int32,
    "terminated": np.bool_,
    "task_id": np.int16,
    "split": np.uint8,
    "episode_return": np.float32,
}
_PER_EPISODE = ("length", "terminated", "task_id", "split", "episode_return")


def assign_splits(task_id: np.ndarray, retrieval_fraction: float, seed: int) -> np.ndarray:
    """Mark each episode for learning or retrieval, at random within its task, in the given proportion.

    A task with two episodes or more gets at least one of each; its split does not depend on the other tasks.
    """
    if not 0 < retrieval_fraction < 1:
        raise ValueError(f"retrieval_fraction must lie between 0 and 1, not {retrieval_fraction}")
    task_id = np.asarray(task_id)
    split = np.full(task_id.shape, LEARNING, np.uint8)
    for task in np.unique(task_id):
        rows = np.flatnonzero(task_id == task)
        wanted = np.clip(round(retrieval_fraction * len(rows)), 1, len(rows) - 1) if len(rows) > 1 else 0
        generator = np.random.default_rng([seed, int(task)])
        split[generator.permutation(rows)[: int(wanted)]] = RETRIEVAL
    return split


def as_columns(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Bring columns to their types and add `episode_return` if it is missing, or raise a ValueError."""
    arrays = {name: np.asarray(value) for name, value in columns.items()}
    if "episode_return" not in arrays and {"reward", "length"} <= arrays.keys():
        arrays["episode_return"] = _sum_of_rewards(arrays["reward"], arrays["length"]).astype(np.float32)
    for name, dtype in COLUMN_TYPES.items():
        if name not in arrays or dtype is None or arrays[name].dtype == dtype:
            continue
        typed = arrays[name].astype(dtype)
        # Rounding to float32 is meant; a task number or length that does not fit its type is not.
        if np.dtype(dtype).kind != "f" and not np.array_equal(typed, arrays[name]):
            raise ValueError(f"column {name!r} does not fit {np.dtype(dtype).name}")
        arrays[name] = typed
    problem = layout_problem(arrays)
    if problem:
        raise ValueError(problem)
    return arrays


def layout_problem(columns: Mapping[str, np.ndarray]) -> str | None:
    """The first thing wrong with the columns' names, types and shapes, told without reading their content."""
    missing = [name for name in COLUMN_TYPES if name not in columns]
    if missing:
        return f"column {missing[0]!r} is missing"
    reward = columns["reward"]
    if reward.ndim != 2:
        return f"column 'reward' must have two axes, not the shape {reward.shape}"
    episodes, steps = reward.shape
    expected = {"observation": (episodes, steps + 1), "action": (episodes, steps)}
    for name, column in columns.items():
        start = expected.get(name, (episodes,))
        if column.shape[: len(start)] != start or (name in _PER_EPISODE and column.ndim != 1):
            return f"column {name!r} has the shape {column.shape}, but rewards have {reward.shape}"
        dtype = COLUMN_TYPES.get(name)
        if dtype is not None and column.dtype != dtype:
            return f"column {name!r} holds {column.dtype.name}, not {np.dtype(dtype).name}"
        if column.dtype.kind not in "biuf":
            return f"column {name!r} holds {column.dtype.name}, not numbers"
    return None


def content_problem(
    columns: Mapping[str, np.ndarray], num_tasks: int, num_actions: int, first_episode: int = 0
) -> str | None:
    """The first episode whose numbers break a rule, told in words that name the column's file."""
    length, reward, action = columns["length"], columns["reward"], columns["action"]
    steps = reward.shape[1]
    total = _sum_of_rewards(reward, length)
    broken = {
        "length": ((length < 1) | (length > steps), f"must be from 1 to {steps}"),
        "task_id": ((columns["task_id"] < 0) | (columns["task_id"] >= num_tasks), f"must be below {num_tasks}"),
        "split": (columns["split"] > RETRIEVAL, f"must be {LEARNING} (learning) or {RETRIEVAL} (retrieval)"),
        "reward": (~np.isfinite(total), "must be finite"),
        "episode_return": (
            ~np.isclose(columns["episode_return"], total, rtol=1e-5, atol=1e-5),
            "must be the sum of the episode's rewards",
        ),
    }
    if action.dtype.kind in "iu" and action.ndim == 2:
        outside = _inside(length, steps) & ((action < 0) | (action >= num_actions))
        broken["action"] = (outside.any(axis=1), f"must be from 0 to {num_actions - 1}")
    if action.dtype.kind == "f":
        if action.ndim != 3 or action.shape[2] != num_actions:
            return f"column 'action' has the shape {action.shape}, but an action has {num_actions} numbers"
        outside = _inside(length, steps)[..., None] & ~(np.abs(action) <= 1)  # also true of what is no number
        broken["action"] = (outside.any(axis=(1, 2)), "must lie between -1 and 1")
    for name, (rows, rule) in broken.items():
        if rows.any():
            return f"{name}.npy breaks a rule in episode {first_episode + int(np.argmax(rows))}: {name} {rule}"
    return None


def describe_tasks(columns: Mapping[str, np.ndarray], task_names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Per task: how many episodes, how many of them for learning and retrieval, and their returns."""
    task_id, split, returns = (np.asarray(columns[name]) for name in ("task_id", "split", "episode_return"))
    description = {}
    for task, name in enumerate(task_names):
        rows = task_id == task
        own = returns[rows].astype(np.float64)
        description[name] = {
            "episodes": int(rows.sum()),
            "learning": int(np.sum(split[rows] == LEARNING)),
            "retrieval": int(np.sum(split[rows] == RETRIEVAL)),
            **{f"return_{of}": float(getattr(own, of)()) if own.size else None for of in ("mean", "min", "max")},
        }
    return description


def _inside(length: np.ndarray, steps: int) -> np.ndarray:
    return np.arange(steps) < length[:, None]


def _sum_of_rewards(reward: np.ndarray, length: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(reward, axis=1, dtype=np.float64, where=_inside(length, reward.shape[1])))
