"""The scripted controller as a policy, with noise in what is done but not in what is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import Seed, seed_number
from r2a.environments.causalworld import CausalWorldExpert
from r2a.environments.causalworld.controller import advise

STALL, STALLED = 5, 0.15
"""How many steps a stall lasts, and how much of what is advised is done then."""


class Expert:
    """The controller, with noise of standard deviation `noise`, and hardly moving now and then.

    A stall lasts `STALL` steps and begins with probability `stalls / STALL`, in episodes with noise. Without stalls,
    fingers that stand still are seen only where there is nothing left to do, and a cloned policy that comes to rest
    stays there. What is recorded of an action is what the controller advises: that is what is to be imitated.
    """

    def __init__(
        self, env: FromGymnasium, task: str, seed: Seed, noise: float = 0.0, settings: Any = CausalWorldExpert()
    ):
        self._env, self._noise, self._stalls = env, noise, settings.stalls if noise else 0.0
        self._generator = np.random.default_rng(seed_number(seed))
        self._left = 0

    def act(self, view: Any, step: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """What to do, and what is recorded; it reads numbers, whatever is observed."""
        sees_pictures = len(self._env.spec.observation.shape) > 1
        advice = advise(self._env.env(0).numbers() if sees_pictures else view.observation[0])
        if self._left == 0 and self._generator.random() < self._stalls / STALL:
            self._left = STALL
        vigour = STALLED if self._left else 1.0
        self._left = max(self._left - 1, 0)
        action = np.clip(vigour * advice + self._noise * self._generator.normal(size=9), -1.0, 1.0)
        return action.astype(np.float32)[None], {"recorded": advice.astype(np.float32)[None]}
