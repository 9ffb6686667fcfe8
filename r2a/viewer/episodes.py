"""Recorded episodes as the plain data that the page's script draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from r2a.records import EpisodeRecord


def episode_data(record: EpisodeRecord, page: Any, top: int = 6) -> dict[str, Any]:
    """An episode, and at each step the `top` states that were read with the highest weight; `page` is the world's."""
    return {
        "task": record.task,
        **_played(record, page),
        "rewards": _rounded(record.rewards),
        "q": [_rounded(values) for values in record.q_values],
        "read": [retrieved_at(record, step, page, top) for step in range(len(record.actions))],
    }


def retrieved_at(record: EpisodeRecord, step: int, page: Any, top: int = 6) -> dict[str, Any]:
    """What was read at a step, by falling weight; a state that several slots chose is shown once.

    A state's weight is its weight in a slot times the slot's weight, so all weights of a step add up to one.
    """
    selection, states = record.selection, record.retrieved
    weights = np.asarray(selection.weight[step] * selection.slot_weight[step][:, None])
    votes = np.bincount(np.ravel(states.action[step]), weights=weights.ravel(), minlength=record.q_values.shape[1])
    places: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for place in np.ndindex(weights.shape):
        places[int(selection.trajectory[step][place]), int(selection.step[step][place])].append(place)
    total = {state: sum(weights[place] for place in where) for state, where in places.items()}
    shown = sorted(total, key=lambda state: (-total[state], state))[:top]
    return {
        "votes": _rounded(votes),
        "states": [_state_data(record, step, places[state], total[state], page) for state in shown],
        "count": len(total),
    }


def _state_data(
    record: EpisodeRecord, step: int, places: Sequence[tuple[int, int]], weight: float, page: Any
) -> dict[str, Any]:
    states, place = record.retrieved, places[0]
    return {
        "board": page.board_data(np.asarray(states.observation[step][place])),
        "weight": round(float(weight), 4),
        "slots": sorted({slot for slot, _ in places}),
        "action": int(states.action[step][place]),
        "reward": round(float(states.reward[step][place]), 3),
        "task": int(states.task[step][place]),
        "episode": int(states.episode[step][place]),
        "return": round(float(states.episode_return[step][place]), 2),
    }


def swap_data(one: EpisodeRecord, other: EpisodeRecord, page: Any) -> dict[str, Any]:
    """The same start and the same network with two data sets, and the reward so far under both of their tasks."""
    if not np.array_equal(one.observations[0], other.observations[0]):
        raise ValueError("the two episodes of a swap must begin with the same board")
    tasks = [one.retrieve_from, other.retrieve_from]
    return {
        "tasks": tasks,
        "panes": [
            _played(record, page)
            | {"earned": [np.cumsum(record.solved[:, task], dtype=int).tolist() for task in tasks]}
            for record in (one, other)
        ],
    }


def _played(record: EpisodeRecord, page: Any) -> dict[str, Any]:
    boards = [page.board_data(observation) for observation in record.observations]
    return {"reads": record.retrieve_from, "boards": boards, "actions": record.actions.tolist()}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]
