"""What playing an episode leaves behind, as numpy arrays: written by training/record.py, shown by the viewer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from r2a.types import Attended


class RetrievedStates(NamedTuple):
    """The states an `Attended` points to: the board there, what was done there, and whose data they are.

    Like those places they are arrays of either kind: traced while an episode is played, numpy in its record.
    """

    observation: Int[Array, "*T K S n"]
    action: Int[Array, "*T K S"]
    reward: Float[Array, "*T K S"]
    task: Int[Array, "*T K S"]
    episode: Int[Array, "*T K S"]
    episode_return: Float[Array, "*T K S"]


class EpisodeRecord(NamedTuple):
    """One episode: played on `task`, read from the data of `retrieve_from`; T steps.

    `solved` tells for every task of the environment whether the board after step t solves it; `selection` has a
    leading T, and the states it points to are `retrieved`.
    """

    task: int
    retrieve_from: int
    observations: Int[np.ndarray, "T+1 n"]
    actions: Int[np.ndarray, " T"]
    rewards: Float[np.ndarray, " T"]
    q_values: Float[np.ndarray, "T A"]
    solved: Bool[np.ndarray, "T tasks"]
    selection: Attended
    retrieved: RetrievedStates
