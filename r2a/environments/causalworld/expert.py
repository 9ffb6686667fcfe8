"""Episodes of the scripted controller, with noise in what is done but not in what is advised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from r2a.environments.causalworld.controller import advise
from r2a.environments.causalworld.gym import CausalWorldEnv
from r2a.errors import UserError


class Episode(NamedTuple):
    """T steps: what was seen (T + 1 times), done, advised and paid, and how much of the goal was covered after each."""

    observation: Float32[np.ndarray, "T+1 148"]
    action: Float32[np.ndarray, "T 9"]
    advice: Float32[np.ndarray, "T 9"]
    reward: Float32[np.ndarray, " T"]
    fractional_success: Float32[np.ndarray, " T"]


class Expert:
    """The controller, with noise of standard deviation `noise` and, at a share `bursts` of the steps, random actions.

    Random actions come in runs of `burst_length` steps of the same nine numbers: one alone would hardly move a finger.
    """

    def __init__(self, noise: float = 0.0, bursts: float = 0.0, burst_length: int = 3, seed: int = 0):
        if noise < 0 or not 0 <= bursts < 1 or burst_length < 1:
            raise UserError("noise must be at least 0, bursts in [0, 1) and burst_length at least 1.")
        self.noise, self.bursts, self.burst_length = noise, bursts, burst_length
        self._generator = np.random.default_rng(seed)
        self._left, self._random = 0, np.zeros(9)

    def act(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What to do at an observation, and what the controller advises."""
        advice = advise(observation)
        if self._left == 0 and self._generator.random() < self.bursts / self.burst_length:
            self._left, self._random = self.burst_length, self._generator.uniform(-1.0, 1.0, 9)
        if self._left > 0:
            self._left -= 1
            return self._random.astype(np.float32), advice.astype(np.float32)
        action = np.clip(advice + self.noise * self._generator.normal(size=9), -1.0, 1.0)
        return action.astype(np.float32), advice.astype(np.float32)


def play_expert(environment: CausalWorldEnv, seed: int, noise: float = 0.0, bursts: float = 0.0) -> Episode:
    """The episode of a seed, which decides the goal and the noise; the observation must be "structured"."""
    if environment.observation != "structured":
        raise UserError('The expert reads observation="structured", not pictures.')
    expert = Expert(noise, bursts, seed=seed)
    observation, _ = environment.reset(seed=seed)
    observations, actions, advices, rewards, fractions = [observation], [], [], [], []
    over = False
    while not over:
        action, advice = expert.act(observation)
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
