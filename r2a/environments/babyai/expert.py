"""The bot as a policy, with a share of random actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from r2a.environments.api import Seed, seed_number
from r2a.environments.babyai.bot import ExpertBot
from r2a.environments.babyai.env import BabyAI
from r2a.environments.babyai.levels import ACTION_NAMES, level_index
from r2a.environments.babyai.missions import Mission
from r2a.environments.babyai.view import place, seen_places


class Expert:
    """The bot acts, but with probability `noise` any action is taken instead; it plans on from wherever that leads."""

    make_bot: Callable[[Mission], Any] = ExpertBot

    def __init__(self, env: BabyAI, task: str, seed: Seed, noise: float, settings: Any = None):
        self._env, self._noise = env, noise
        self._generator = np.random.default_rng((seed_number(seed), level_index(task)))  # the mission has its own
        self._bot: Any = None

    def act(self, view: Any, step: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """What to do in the only row."""
        # `done`, which does nothing, is among them: the value of an action that the data never show cannot be learnt.
        by_chance, anything = self._generator.random() < self._noise, int(self._generator.integers(len(ACTION_NAMES)))
        if self._noise < 1:  # nobody is asked where every action is random
            mission = self._env.missions[0]
            if view.is_first[0]:
                self._bot = type(self).make_bot(mission)
            in_sight = self._env.view.in_sight[0]
            self._bot.see(seen_places(place(*mission.agent_pos), mission.agent_dir, in_sight))
            advice = self._bot.advise(None if view.is_first[0] else int(view.previous_action[0]))
            anything = anything if by_chance else advice
        return np.array([anything], np.uint8), {}
