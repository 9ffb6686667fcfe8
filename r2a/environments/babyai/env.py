"""Many BabyAI missions, each with a level and seed of its own, stepped together in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Box, Discrete

from r2a.environments.api import EnvSpec, HostEnv, Picture, Seed, seed_number
from r2a.environments.babyai import BabyAISettings
from r2a.environments.babyai.levels import ACTION_NAMES, DROP, LEVEL_NAMES, PICKUP, TOGGLE, level_index
from r2a.environments.babyai.missions import Mission, cell_code, make_mission
from r2a.environments.babyai.view import EMPTY, OBSERVATION_SIZE, OFFSETS, SIDE, look, place
from r2a.environments.babyai.vocabulary import MISSION_WORDS, tokenise

LARGEST_NUMBER = 10  # of an object's type, minigrid/core/constants.py; colours and states are smaller


class BabyAI(HostEnv):
    """A batch of real minigrid environments in lockstep.

    An observation is minigrid's 7 x 7 x 3 symbolic image, flattened, and the agent's direction; the instruction is the
    mission, as word numbers. minigrid draws when it is asked to, so `render` changes nothing.
    """

    def __init__(self, settings: BabyAISettings, num_envs: int, render: bool = False):
        spec = EnvSpec(
            id="babyai",
            tasks=LEVEL_NAMES,
            observation=Box(0, LARGEST_NUMBER, (OBSERVATION_SIZE,), np.uint8),
            action=Discrete(len(ACTION_NAMES)),
            max_steps=settings.max_steps,
            instruction_length=MISSION_WORDS,
            scores=("success",),
            action_names=ACTION_NAMES,
            fps=10.0,
        )
        super().__init__(spec, num_envs)
        self.missions: list[Mission] = [None] * num_envs  # type: ignore[list-item]
        self._levels: list[str | None] = [None] * num_envs
        self._codes = np.full((num_envs, SIDE * SIDE), EMPTY, np.uint8)
        self._places = np.full(num_envs, place(0, 0), np.int64)
        self._directions = np.zeros(num_envs, np.int64)
        self._carried = np.zeros(num_envs, np.uint8)
        self._in_sight: np.ndarray

    def _require_task(self, task: str) -> None:
        level_index(task)  # the world's own sentence

    def _begin(self, rows: list[int], tasks: Sequence[str], seeds: Sequence[Seed]) -> None:
        now = self._now
        for row, level, seed in zip(rows, tasks, seeds, strict=True):
            if level != self._levels[row]:
                self.missions[row], self._levels[row] = make_mission(level), level
            mission = self.missions[row]
            mission.draw(seed_number(seed))
            self._codes[row] = mission.square()
            self._update(row)
            now.begin(row)
            now.instruction[row] = tokenise(mission.mission)
        self._look()

    def _advance(self, actions: np.ndarray, rows: list[int]) -> None:
        now = self._now
        for row in rows:
            mission, action = self.missions[row], int(actions[row])
            _, now.reward[row], now.terminated[row], truncated, _ = mission.step(action)
            now.truncated[row] = not now.terminated[row] and (truncated or mission.step_count >= self.spec.max_steps)
            now.discount[row] = 0.0 if now.terminated[row] else 1.0
            now.scores[row] = max(now.scores[row, 0], float(now.reward[row] > 0))
            if action in (PICKUP, DROP, TOGGLE):  # nothing but the cell ahead can have changed
                self._codes[row, place(*mission.front_pos)] = cell_code(mission.grid.get(*mission.front_pos))
            self._update(row)
        self._look()

    def seen_places(self, row: int) -> np.ndarray:
        """The places of the flat square that a row's agent sees now; some may lie in the margin."""
        return self._places[row] + OFFSETS[self._directions[row]][self._in_sight[row]]

    def render(self, row: int) -> Picture:
        """The rooms as minigrid draws them."""
        mission = self.missions[row]
        return mission.get_frame(highlight=True, tile_size=mission.tile_size)

    def _update(self, row: int) -> None:
        mission = self.missions[row]
        self._places[row] = place(*mission.agent_pos)
        self._directions[row] = mission.agent_dir
        self._carried[row] = cell_code(mission.carrying)

    def _look(self) -> None:
        seen = look(self._codes, self._places, self._directions, self._carried)
        self._now.observation[:], self._in_sight = seen
