"""Many BabyAI missions, each with a level and seed of its own, stepped together in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from r2a.environments.babyai.levels import ACTION_NAMES, DROP, LEVELS, PICKUP, TOGGLE
from r2a.environments.babyai.missions import Mission, make_mission
from r2a.environments.babyai.view import EMPTY, SIDE, View, look, place
from r2a.environments.babyai.vocabulary import tokenise
from r2a.errors import UserError

Observation = UInt8[np.ndarray, "B 148"]
Missions = UInt8[np.ndarray, "B 72"]
Reward = Float32[np.ndarray, " B"]
Flags = Bool[np.ndarray, " B"]


class Worlds:
    """A batch of real minigrid environments in lockstep.

    An observation is minigrid's 7 x 7 x 3 symbolic image, flattened, and the agent's direction. An episode that is
    over stays as it is, without further reward, until the next reset.
    """

    def __init__(self, levels: Sequence[int]):
        unknown = [level for level in levels if not 0 <= level < len(LEVELS)]
        if unknown or not len(levels):
            raise UserError(f"levels is {list(levels)}, but it must list numbers from 0 to {len(LEVELS) - 1}.")
        self.levels = tuple(int(level) for level in levels)
        self.missions: list[Mission] = [make_mission(level) for level in self.levels]
        self._codes = np.full((len(self.levels), SIDE * SIDE), EMPTY, np.uint8)
        self._places = np.zeros(len(self.levels), np.int64)
        self._directions = np.zeros(len(self.levels), np.int64)
        self._carried = np.zeros(len(self.levels), np.uint8)
        self._terminated = np.ones(len(self.levels), bool)
        self._truncated = np.zeros(len(self.levels), bool)
        self.view: View
        """What was seen last, with which cells were in sight."""

    @property
    def redrawn(self) -> int:
        """How many seeds gave no mission so far, and were replaced by the next one."""
        return sum(mission.redrawn for mission in self.missions)

    def reset(self, seeds: Sequence[int]) -> tuple[Observation, Missions]:
        """Start a new episode everywhere: first observations, and the missions as word numbers."""
        for row, (mission, seed) in enumerate(zip(self.missions, seeds, strict=True)):
            mission.draw(int(seed))
            self._codes[row] = np.frombuffer(mission.square(), np.uint8)
            self._update(row, mission)
        self._terminated[:] = False
        self._truncated[:] = False
        self.view = self._look()
        return self.view.observation, np.stack([tokenise(mission.mission) for mission in self.missions])

    def step(self, actions: Sequence[int] | np.ndarray) -> tuple[Observation, Reward, Flags, Flags]:
        """Do one action everywhere; returns observations, rewards, terminated, truncated."""
        if not hasattr(self, "view"):
            raise ValueError("reset comes before the first step")
        chosen = np.asarray(actions).tolist()
        if len(chosen) != len(self.missions):
            raise ValueError(f"{len(chosen)} actions for {len(self.missions)} worlds")
        unknown = [action for action in chosen if not 0 <= action < len(ACTION_NAMES)]
        if unknown:
            raise ValueError(f"unknown action {unknown[0]}: choose a number from 0 to {len(ACTION_NAMES) - 1}")
        reward = np.zeros(len(self.missions), np.float32)
        for row in np.flatnonzero(~(self._terminated | self._truncated)).tolist():
            mission, action = self.missions[row], chosen[row]
            reward[row], self._terminated[row], self._truncated[row] = mission.advance(action)
            if action in (PICKUP, DROP, TOGGLE):
                self._codes[row, mission.place_ahead()] = mission.code_ahead()
            self._update(row, mission)
        self.view = self._look()
        return self.view.observation, reward, self._terminated.copy(), self._truncated.copy()

    def _update(self, row: int, mission: Mission) -> None:
        self._places[row] = place(*mission.agent_pos)
        self._directions[row] = mission.agent_dir
        self._carried[row] = mission.code_carried()

    def _look(self) -> View:
        return look(self._codes, self._places, self._directions, self._carried)
