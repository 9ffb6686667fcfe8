"""One BabyAI mission: minigrid's own levels, and two that it lacks, drawn quietly and stepped without an observation.

Missions are drawn and judged exactly as minigrid does, seed for seed, except that those nobody can solve are redrawn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from r2a.environments.api import NoEpisodeError
from r2a.environments.babyai.levels import LEVELS
from r2a.environments.babyai.upstream import roomgrid, roomgrid_level, verifier, world_object
from r2a.environments.babyai.view import EMPTY, MARGIN, OUTSIDE, SIDE, code_of
from r2a.errors import UserError

MOST_DRAWS = 1_000  # of one seed; the worst level needs a few dozen
MOST_SEEDS = 20
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""The step to the cell ahead, by direction."""


class CannotDrawError(UserError, NoEpisodeError):
    """A seed of which no mission could be made."""

    reason = "no mission"


class Mission(roomgrid_level.RoomGridLevel):
    """What every level of ours does in minigrid's place; mixed into a level's class by `make_mission`."""

    instrs: verifier.Instr

    def draw(self, seed: int) -> None:
        """Start the mission of `seed`; one that cannot be drawn gives way to the next seed's."""
        for attempt in range(MOST_SEEDS):
            try:
                self.reset(seed=seed + attempt)
            except (CannotDrawError, RecursionError, AssertionError):
                continue
            self.agent_pos = (int(self.agent_pos[0]), int(self.agent_pos[1]))
            self.agent_dir = int(self.agent_dir)
            for instruction in clauses(self.instrs):
                if isinstance(instruction, verifier.GoToInstr):
                    self._speed_up(instruction)
            return
        raise CannotDrawError(f"No mission could be drawn with any of the {MOST_SEEDS} seeds from {seed} on.")

    @property
    def front_pos(self) -> Any:
        """The cell ahead, as a pair: minigrid's is an array, and much slower."""
        ahead_x, ahead_y = AHEAD[self.agent_dir]
        return self.agent_pos[0] + ahead_x, self.agent_pos[1] + ahead_y

    def square(self) -> np.ndarray:
        """All cells as numbers, in the square of r2a/environments/babyai/view.py."""
        square = np.full((SIDE, SIDE), OUTSIDE, np.uint8)
        inside = square[MARGIN:, MARGIN:][: self.grid.height, : self.grid.width]
        inside[:] = np.reshape([cell_code(cell) for cell in self.grid.grid], inside.shape)
        return square.ravel()

    def gen_obs(self) -> Any:
        """None: r2a/environments/babyai/view.py makes the observation, for all worlds at once."""
        return None

    def update_objs_poss(self, instr: Any = None) -> None:
        """As minigrid's, without a loop over the objects for every cell."""
        width, meant = self.grid.width, descriptions(self.instrs)
        things = {id(thing) for description in meant for thing in description.obj_set}
        places = {id(cell): (i % width, i // width) for i, cell in enumerate(self.grid.grid) if id(cell) in things}
        for description in meant:
            found = [places[id(thing)] for thing in description.obj_set if id(thing) in places]
            description.obj_poss = sorted(found)

    def _speed_up(self, go_to: verifier.GoToInstr) -> None:
        """Judge it by comparing pairs of integers: minigrid makes two arrays for every object in every step."""
        description = go_to.desc
        go_to.verify_action = lambda action: "success" if self.front_pos in description.obj_poss else "continue"

    def _gen_grid(self, width: int, height: int) -> None:
        """As minigrid's, which prints every rejected draw and never ends if all are rejected."""
        for _ in range(MOST_DRAWS):
            try:
                roomgrid.RoomGrid._gen_grid(self, width, height)
                self.gen_mission()
                self.validate_instrs(self.instrs)
                self._require_solvable()
            except (RecursionError, roomgrid_level.RejectSampling):
                continue
            self.mission = self.surface = self.instrs.surface(self)
            return
        raise CannotDrawError(f"All of {MOST_DRAWS} draws were rejected.")

    def _require_solvable(self) -> None:
        """Reject a mission that needs a key which lies behind the door it unlocks.

        Unlock and GoToImpUnlock mean to avoid that, but compare numpy integers with `is`, which is never true.
        """
        if not any(isinstance(cell, world_object.Door) and cell.is_locked for cell in self.grid.grid):
            return
        keys: set[str] = set()
        while True:
            reached = self._within_reach(keys)
            found = {thing.color for thing in reached if isinstance(thing, world_object.Key)}
            if found <= keys:
                break
            keys |= found
        for instruction in clauses(self.instrs):
            for description in descriptions(instruction):
                fitting, _ = description.find_matching_objs(self)
                good = [thing for thing in fitting if any(thing is other for other in reached)]
                if isinstance(instruction, verifier.OpenInstr):
                    good = [door for door in good if not door.is_locked or door.color in keys]
                if not good:
                    raise roomgrid_level.RejectSampling("a key that is needed lies behind its door")

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
                if isinstance(cell, world_object.Door) and cell.is_locked and cell.color not in keys:
                    continue
            ahead += [(x + right, y + down) for right, down in AHEAD]
        return things


class PutNextAcrossRooms(roomgrid_level.RoomGridLevel):
    """PutNext of the ICLR19 page, which minigrid lacks: both objects are anywhere in nine connected rooms."""

    def gen_mission(self) -> None:
        """Draw the rooms, the objects, and two of them."""
        self.place_agent()
        self.connect_all()
        objects = self.add_distractors(num_distractors=18, all_unique=False)
        self.check_objs_reachable()
        moved, fixed = (verifier.ObjDesc(thing.type, thing.color) for thing in self._rand_subset(objects, 2))
        self.instrs = verifier.PutNextInstr(moved, fixed)


class ObjectInNextRoom(verifier.ObjDesc):
    """An object in the room that lies to the agent's left, right, front or back at the start."""

    def find_matching_objs(self, env: Any, use_location: bool = True) -> Any:
        """As minigrid's, whose own locations only mean places in the agent's room."""
        if not use_location:
            return super().find_matching_objs(env, use_location=False)
        turns = ("front", "right", "behind", "left").index(self.loc)
        step_x, step_y = AHEAD[(env.agent_dir + turns) % 4]
        room = env.get_room(1 + step_x, 1 + step_y)
        self.obj_set = list(room.objs)
        self.obj_poss = [thing.cur_pos for thing in self.obj_set]
        return self.obj_set, self.obj_poss


class FourObjs(roomgrid_level.RoomGridLevel):
    """FourObjs of the bonus page, which minigrid lacks: one of four equal objects, told by where its room lies."""

    def __init__(self, room_size: int, **kwargs: Any):
        super().__init__(room_size=room_size, max_steps=20 * room_size**2, **kwargs)  # as FindObj

    def gen_mission(self) -> None:
        """Put an object into each of the four rooms around the agent's, and ask for one."""
        wanted, _ = self.add_object(1, 0)
        for i, j in [(1, 2), (0, 1), (2, 1)]:
            self.add_object(i, j, wanted.type, wanted.color)
        for side in range(4):
            self.add_door(1, 1, side, locked=False)
        self.place_agent(1, 1)
        location = self._rand_elem(verifier.LOC_NAMES)
        self.instrs = verifier.PickupInstr(ObjectInNextRoom(wanted.type, wanted.color, location))


OUR_OWN: dict[str, tuple[type, dict[str, Any]]] = {
    "PutNext": (PutNextAcrossRooms, {}),
    "FourObjsS7": (FourObjs, {"room_size": 7}),
}


def clauses(instruction: verifier.Instr) -> list[verifier.ActionInstr]:
    """The single instructions that a mission is made of."""
    if isinstance(instruction, verifier.SeqInstr):
        return clauses(instruction.instr_a) + clauses(instruction.instr_b)
    assert isinstance(instruction, verifier.ActionInstr)
    return [instruction]


def descriptions(instruction: verifier.Instr) -> list[verifier.ObjDesc]:
    """The objects that an instruction speaks of."""
    parts = [part for clause in clauses(instruction) for part in vars(clause).values()]
    return [part for part in parts if isinstance(part, verifier.ObjDesc)]


def cell_code(cell: world_object.WorldObj | None) -> int:
    """What a cell holds, or an agent carries, as a number."""
    return EMPTY if cell is None else code_of(*cell.encode())


@cache
def _level_class(name: str) -> tuple[Any, dict[str, Any]]:
    level: Any
    minigrid_id = LEVELS[name]
    if minigrid_id is None:
        level, settings = OUR_OWN[name]
    else:
        spec = gymnasium.spec(minigrid_id)
        assert isinstance(spec.entry_point, str)
        level, settings = load_env_creator(spec.entry_point), spec.kwargs
    return type(level.__name__, (Mission, level), {}), settings


def make_mission(name: str) -> Mission:
    """A level's environment, to be drawn before the first step."""
    level_class, settings = _level_class(name)
    return level_class(**settings)
