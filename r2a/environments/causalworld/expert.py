"""Episodes of the scripted controller, with noise in what is done but not in what is advised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Shaped

from r2a.environments.causalworld.controller import advise
from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.errors import UserError


class Episode(NamedTuple):
    """T steps: what was seen (T + 1 times), done, advised and paid, and how much of the goal was covered after each."""

    observation: Shaped[np.ndarray, "T+1 ..."]
    action: Float32[np.ndarray, "T 9"]
    advice: Float32[np.ndarray, "T 9"]
    reward: Float32[np.ndarray, " T"]
    fractional_success: Float32[np.ndarray, " T"]


STALL, STALLED = 5, 0.15
"""How many steps a stall lasts, and how much of what is advised is done then."""


class Expert:
    """The controller, with noise of standard deviation `noise`, and hardly moving now and then.

    A stall lasts `STALL` steps and begins with probability `stalls / STALL`. Without stalls, fingers that stand still
    are seen only where there is nothing left to do, and a cloned policy that comes to rest stays there.
    """

    def __init__(self, noise: float = 0.0, stalls: float = 0.0, seed: int = 0):
        if noise < 0 or not 0 <= stalls < 1:
            raise UserError("noise must be at least 0 and stalls in [0, 1).")
        self.noise, self.stalls = noise, stalls
        self._generator = np.random.default_rng(seed)
        self._left = 0

    def act(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What to do at an observation, and what the controller advises."""
        advice = advise(observation)
        if self._left == 0 and self._generator.random() < self.stalls / STALL:
            self._left = STALL
        vigour = STALLED if self._left else 1.0
        self._left = max(self._left - 1, 0)
        action = np.clip(vigour * advice + self.noise * self._generator.normal(size=9), -1.0, 1.0)
        return action.astype(np.float32), advice.astype(np.float32)


def play_expert(environment: CausalWorldEnv, seed: int, noise: float = 0.0, stalls: float = 0.0) -> Episode:
    """The episode of a seed, which decides the goal and the noise; the expert reads numbers, whatever is observed."""
    expert, sees_pictures = Expert(noise, stalls, seed), environment.observation == "pixels"
    observation, _ = environment.reset(seed=seed)
    observations, actions, advices, rewards, fractions = [observation], [], [], [], []
    over = False
    while not over:
        action, advice = expert.act(environment.numbers() if sees_pictures else observation)
        observation, reward, _, over, info = environment.step(action)
        observations.append(observation)
        actions.append(action)
        advices.append(advice)
        rewards.append(reward)
        fractions.append(info["fractional_success"])
    return Episode(
        np.stack(observations),
        np.stack(actions),
        np.stack(advices),
        np.array(rewards, np.float32),
        np.array(fractions, np.float32),
    )
