"""One BabyAI mission: minigrid's own levels, drawn quietly and in bounds, stepped without making an observation.

Missions are drawn and judged exactly as minigrid does, seed for seed, except that those nobody can solve are redrawn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from r2a.environments.api import NoEpisodeError
from r2a.environments.babyai.levels import DROP, FORWARD, LEFT, LEVELS, PICKUP, RIGHT, TOGGLE
from r2a.environments.babyai.our_levels import OUR_OWN
from r2a.environments.babyai.upstream import (
    ActionInstr,
    Door,
    GoToInstr,
    Instr,
    Key,
    ObjDesc,
    OpenInstr,
    PutNextInstr,
    RejectSampling,
    RoomGrid,
    RoomGridLevel,
    SeqInstr,
    WorldObj,
)
from r2a.environments.babyai.view import EMPTY, OUTSIDE, SIDE, code_of, place
from r2a.errors import UserError

MOST_DRAWS = 1_000  # of one seed; the worst level needs a few dozen
MOST_SEEDS = 20
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
_WALL_BYTES = bytes([OUTSIDE])


class CannotDrawError(UserError, NoEpisodeError):
    """A seed of which no mission could be made."""

    reason = "no mission"


class Mission(RoomGridLevel):
    """What every level of ours does in minigrid's place; mixed into a level's class by `make_mission`."""

    instrs: Instr
    redrawn = 0
    """Seeds that were given up for the next one, since this object was made."""
    _moved = False
    """Whether objects changed places since minigrid last noted where they are."""

    def draw(self, seed: int) -> None:
        """Start the mission of `seed`; one that cannot be drawn gives way to the next seed's."""
        for attempt in range(MOST_SEEDS):
            try:
                self.reset(seed=seed + attempt)
            except (CannotDrawError, RecursionError, AssertionError):
                self.redrawn += 1
                continue
            self.agent_pos = (int(self.agent_pos[0]), int(self.agent_pos[1]))
            self.agent_dir = int(self.agent_dir)
            for instruction in clauses(self.instrs):
                _speed_up(instruction)
            self._moved = False
            return
        raise CannotDrawError(f"No mission could be drawn with any of the {MOST_SEEDS} seeds from {seed} on.")

    def advance(self, action: int) -> tuple[float, bool, bool]:
        """One step as in minigrid's `step`, without its observation: reward, terminated, truncated."""
        self.step_count += 1
        x, y = self.front_pos
        cell = self.grid.get(x, y)
        if action in (LEFT, RIGHT):
            self.agent_dir = (self.agent_dir + (1 if action == RIGHT else -1)) % 4
        elif action == FORWARD:
            if cell is None or cell.can_overlap():
                self.agent_pos = (x, y)
        elif action == PICKUP:
            if cell is not None and cell.can_pickup() and self.carrying is None:
                self.carrying = cell
                cell.cur_pos = (-1, -1)
                self.grid.set(x, y, None)
                self._moved = True
        elif action == DROP:
            if cell is None and self.carrying is not None:
                self.grid.set(x, y, self.carrying)
                self.carrying.cur_pos = (x, y)
                self.carrying = None
                self._moved = True
            if self._moved:  # minigrid notes the places after every drop, successful or not
                self._note_places()
                self._moved = False
        elif action == TOGGLE and cell is not None:
            cell.toggle(self, (x, y))
            self._moved = True
        status = self.instrs.verify(action)
        reward = self._reward() if status == "success" else 0.0
        return reward, status in ("success", "failure"), self.step_count >= self.max_steps

    @property
    def front_pos(self) -> Any:
        """The cell ahead, as a pair: minigrid's is an array, and much slower."""
        ahead_x, ahead_y = _AHEAD[self.agent_dir]
        return self.agent_pos[0] + ahead_x, self.agent_pos[1] + ahead_y

    def square(self) -> bytearray:
        """All cells as numbers, in the square of r2a/environments/babyai/view.py."""
        codes = bytearray(_WALL_BYTES * (SIDE * SIDE))
        width = self.grid.width
        for y in range(self.grid.height):
            start = place(0, y)
            row = self.grid.grid[y * width : (y + 1) * width]
            codes[start : start + width] = bytes([EMPTY if cell is None else code_of(*cell.encode()) for cell in row])
        return codes

    def place_ahead(self) -> int:
        """Where the cell ahead lies in the square: the only one that an action can change."""
        return place(*self.front_pos)

    def code_ahead(self) -> int:
        """What the cell ahead is now."""
        return _code(self.grid.get(*self.front_pos))

    def code_carried(self) -> int:
        """What the agent carries, or EMPTY."""
        return _code(self.carrying)

    def gen_obs(self) -> Any:
        """None: r2a/environments/babyai/view.py makes the observation, for all worlds at once."""
        return None

    def _gen_grid(self, width: int, height: int) -> None:
        """As minigrid's, which prints every rejected draw and never ends if all are rejected."""
        for _ in range(MOST_DRAWS):
            try:
                RoomGrid._gen_grid(self, width, height)
                self.gen_mission()
                self.validate_instrs(self.instrs)
                self._require_solvable()
            except (RecursionError, RejectSampling):
                continue
            self.surface = self.instrs.surface(self)
            self.mission = self.surface
            return
        raise CannotDrawError(f"All of {MOST_DRAWS} draws were rejected.")

    def _note_places(self) -> None:
        """What minigrid's `update_objs_poss` does, without a loop over the objects for every cell."""
        width = self.grid.width
        for instruction in clauses(self.instrs):
            for description in descriptions(instruction):
                meant = {id(thing) for thing in description.obj_set}
                found = [index for index, cell in enumerate(self.grid.grid) if cell is not None and id(cell) in meant]
                description.obj_poss = sorted((index % width, index // width) for index in found)

    def _require_solvable(self) -> None:
        """Reject a mission that needs a key which lies behind the door it unlocks.

        Unlock and GoToImpUnlock mean to avoid that, but compare numpy integers with `is`, which is never true.
        """
        if not any(isinstance(cell, Door) and cell.is_locked for cell in self.grid.grid):
            return
        keys: set[str] = set()
        while True:
            reached = self._within_reach(keys)
            found = {thing.color for thing in reached if isinstance(thing, Key)}
            if found <= keys:
                break
            keys |= found
        for instruction in clauses(self.instrs):
            for description in descriptions(instruction):
                fitting, _ = description.find_matching_objs(self)
                good = [thing for thing in fitting if any(thing is other for other in reached)]
                if isinstance(instruction, OpenInstr):
                    good = [door for door in good if not door.is_locked or door.color in keys]
                if not good:
                    raise RejectSampling("a key that is needed lies behind its door")

    def _within_reach(self, keys: set[str]) -> list[Any]:
        """All things that an agent gets at who can move objects, and unlock the doors of these colours."""
        things, seen = [], set()
        ahead = [(int(self.agent_pos[0]), int(self.agent_pos[1]))]
        while ahead:
            x, y = ahead.pop()
            if (x, y) in seen:
                continue
            seen.add((x, y))
            cell = self.grid.get(x, y)
            if cell is not None:
                if cell.type == "wall":
                    continue
                things += [cell, cell.contains]
                if isinstance(cell, Door) and cell.is_locked and cell.color not in keys:
                    continue
            ahead += [(x + right, y + down) for right, down in _AHEAD]
        return things


def clauses(instruction: Instr) -> list[ActionInstr]:
    """The single instructions that a mission is made of."""
    if isinstance(instruction, SeqInstr):
        return clauses(instruction.instr_a) + clauses(instruction.instr_b)
    assert isinstance(instruction, ActionInstr)
    return [instruction]


def descriptions(instruction: ActionInstr) -> list[ObjDesc]:
    """The objects that a single instruction speaks of."""
    names = ("desc_move", "desc_fixed") if isinstance(instruction, PutNextInstr) else ("desc",)
    return [getattr(instruction, name) for name in names]


def make_mission(level: int, render_mode: str | None = None) -> Mission:
    """A level's environment, to be drawn before the first step."""
    level_class, settings = _level_class(level)
    return level_class(**settings, render_mode=render_mode)


@cache
def _level_class(level: int) -> tuple[Any, dict[str, Any]]:
    entry = LEVELS[level]
    base: Any
    if entry.minigrid_id is None:
        base, settings = OUR_OWN[entry.name]
    else:
        spec = gymnasium.spec(entry.minigrid_id)
        assert isinstance(spec.entry_point, str)
        base = load_env_creator(spec.entry_point)
        settings = spec.kwargs
    return type(base.__name__, (Mission, base), {}), settings


def _speed_up(instruction: ActionInstr) -> None:
    """Judge "go to" by comparing pairs of integers: minigrid makes two arrays for every object in every step."""
    if not isinstance(instruction, GoToInstr):
        return
    description, env = instruction.desc, instruction.env
    instruction.verify_action = lambda action: "success" if env.front_pos in description.obj_poss else "continue"


def _code(cell: WorldObj | None) -> int:
    return EMPTY if cell is None else code_of(*cell.encode())
