"""minigrid's BabyAI bot, mended: it solves all 40 levels, never replans for ever, and recovers from random actions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from r2a.environments.api import NoEpisodeError
from r2a.environments.babyai.missions import Mission
from r2a.environments.babyai.upstream import (
    AfterInstr,
    BabyAIBot,
    Box,
    DropSubgoal,
    ExploreSubgoal,
    GoNextToSubgoal,
    ObjDesc,
    OpenSubgoal,
    SeqInstr,
    Subgoal,
    WorldObj,
)
from r2a.environments.babyai.view import MARGIN, SIDE, place

MOST_CHANGES_OF_PLAN = 200  # before one action; sound plans need a dozen
MOST_RESTARTS = 50  # of one episode

# What minigrid's bot raises when the world is not as its plan supposes, after random actions for the most part.
CONFUSION = (AssertionError, AttributeError)


class LostError(NoEpisodeError):
    """The bot cannot solve the mission from here; perhaps nobody can."""

    reason = "bot lost"


class ExploreOtherDoors(ExploreSubgoal):
    """Explore, but not through a locked door that waits for a key.

    minigrid's subgoal may choose the very door whose key it explores for, again and again without an end.
    """

    def replan_before_action(self) -> Any:
        """Go where nothing was seen yet, or else to the nearest closed door, unlocked ones first."""
        bot: ExpertBot = self.bot  # type: ignore[assignment]
        _, unseen, _ = bot._shortest_path(lambda pos, cell: not bot.vis_mask[pos], try_with_blockers=True)
        if unseen:
            bot.stack.append(GoNextToSubgoal(bot, unseen, reason="Explore"))
            return
        waiting = bot.doors_in_plan()

        def is_closed(cell: Any) -> bool:
            return cell is not None and cell.type == "door" and not cell.is_open

        def may_be_tried(cell: Any) -> bool:
            return is_closed(cell) and not any(cell is door for door in waiting)

        conditions: list[Callable[[Any, Any], bool]] = [
            lambda pos, cell: is_closed(cell) and not cell.is_locked,
            lambda pos, cell: may_be_tried(cell) and bot.key_is_known(cell),
            lambda pos, cell: may_be_tried(cell),
        ]
        for accept in conditions:
            _, position, _ = bot._shortest_path(accept, try_with_blockers=True)
            if position:
                break
        else:
            raise LostError("nothing is left to explore")
        door = bot.mission.grid.get(*position)
        keep = door.is_locked and self.carrying and self.carrying.type == "key" and self.carrying.color == door.color
        bot.stack.pop()
        bot.stack.append(OpenSubgoal(bot, reason="KeepKey" if keep else None))
        bot.stack.append(GoNextToSubgoal(bot, door, reason="Open"))


class OpenBoxSubgoal(Subgoal):
    """Open the box ahead, for the key in it (KeyInBox, which minigrid's bot cannot solve)."""

    def replan_before_action(self) -> Any:
        """Toggle, if the box is still closed."""
        if self.fwd_cell is self.datum:
            return self.actions.toggle
        self.bot.stack.pop()

    def replan_after_action(self, action_taken: Any) -> None:
        """Done once the box is gone; elsewhere after a random step, go back to it first."""
        if self.datum not in self.bot.mission.grid:
            self.bot.stack.pop()
        elif self.fwd_cell is not self.datum:
            self.bot.stack.append(GoNextToSubgoal(self.bot, self.datum))


class ExpertBot(BabyAIBot):
    """A bot for one drawn mission: tell it what is in sight, then ask it what to do."""

    def __init__(self, mission: Mission):
        super().__init__(mission)
        self._seen = np.zeros(SIDE * SIDE, bool)
        self.vis_mask = self._seen.reshape(SIDE, SIDE).T[MARGIN:, MARGIN:]  # [x, y], as the bot wants it
        self._restarts = 0
        self._start_over()

    def see(self, places: np.ndarray) -> None:
        """These places of the flat square are in sight now."""
        self._seen[places] = True

    def advise(self, action_taken: int | None) -> int:
        """The action to take next, given the one that was taken last, the bot's own or not."""
        try:
            action = self.replan(action_taken)
            if action != self.mission.actions.done:
                return int(action)
        except (LostError, *CONFUSION):
            pass
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            raise LostError("the plan had to be made anew too often")
        try:
            self._start_over()
            action = self.replan(None)
        except CONFUSION as error:
            raise LostError(f"{type(error).__name__}: {error}") from error
        if action == self.mission.actions.done:
            raise LostError("the bot takes the mission for done")
        return int(action)

    def replan(self, action_taken: Any = None) -> Any:
        """As minigrid's, with an end."""
        for subgoal in self.stack:
            subgoal.update_agent_attributes()
        if self.stack and action_taken is not None:
            self.stack[-1].replan_after_action(action_taken)
        while self.stack and self.stack[-1].is_exploratory():
            self.stack.pop()
        action = None
        for _ in range(MOST_CHANGES_OF_PLAN):
            if not self.stack:
                action = self.mission.actions.done
            elif type(self.stack[-1]) is ExploreSubgoal:
                self.stack[-1] = ExploreOtherDoors(self)
                continue
            elif not self._open_box_first(self.stack[-1]):
                action = self.stack[-1].replan_before_action()
            if action is not None:
                self._remember_current_state()
                return action
        raise LostError("the plan goes in circles")

    def doors_in_plan(self) -> list[Any]:
        """The doors that the plan is to open already."""
        doors = []
        for subgoal in self.stack:
            if isinstance(subgoal, GoNextToSubgoal) and not isinstance(subgoal.datum, ObjDesc):
                target: Any = subgoal.datum
                cell = target if isinstance(target, WorldObj) else self.mission.grid.get(*target)
                if cell is not None and cell.type == "door":
                    doors.append(cell)
        return doors

    def key_is_known(self, door: Any) -> bool:
        """Whether the key of a locked door is in the agent's hand or was seen."""
        keys = ObjDesc("key", door.color)
        _, positions = keys.find_matching_objs(self.mission)
        carried = self.mission.carrying
        in_hand = carried is not None and carried.type == "key" and carried.color == door.color
        return in_hand or any(self.vis_mask[position] for position in positions)

    def _start_over(self) -> None:
        """Plan anew from where things are: what is done stays done, and the hand is emptied first if need be."""
        self.stack.clear()
        self._process_instr(self.mission.instrs)
        held = self.mission.carrying
        if held is None or not self.stack:
            return
        go = self.stack[-1]
        is_put_next = len(self.stack) > 2 and getattr(self.stack[-3], "reason", None) == "PutNext"
        if is_put_next and any(held is thing for thing in go.datum.obj_set):
            del self.stack[-2:]  # no need to go and pick up what is in the hand
            return
        self.stack.append(DropSubgoal(self))
        self.stack.append(GoNextToSubgoal(self, self._find_drop_pos()))

    def _process_instr(self, instr: Any) -> None:
        """As minigrid's, leaving out the parts of a mission that are done."""
        if not isinstance(instr, SeqInstr):
            super()._process_instr(instr)
            return
        state = vars(instr)
        parts = ["b", "a"] if not isinstance(instr, AfterInstr) else ["a", "b"]  # a stack: the last is done first
        for part in parts:
            if state[f"{part}_done"] != "success":
                self._process_instr(state[f"instr_{part}"])

    def _open_box_first(self, subgoal: Subgoal) -> bool:
        """Whether the plan had to change, since what the bot wants is inside a box."""
        if isinstance(subgoal, GoNextToSubgoal) and subgoal.datum is None:
            raise LostError("there is no free place to put something down")
        if not (isinstance(subgoal, GoNextToSubgoal) and isinstance(subgoal.datum, ObjDesc)) or subgoal.datum.obj_set:
            return False
        wanted = subgoal.datum
        if wanted.find_matching_objs(self.mission)[0]:
            return False
        for cell in self.mission.grid.grid:
            inside = cell.contains if isinstance(cell, Box) else None
            if inside is not None and (inside.type, inside.color) == (wanted.type, wanted.color):
                self.stack.append(OpenBoxSubgoal(self, cell))
                self.stack.append(GoNextToSubgoal(self, cell))
                return True
        raise LostError(f"there is no {wanted.color} {wanted.type}")

    def _process_obs(self) -> None:
        """Nothing: `see` has been told."""

    def _check_erroneous_box_opening(self, action: Any) -> None:
        """Nothing: a box that is gone matters only if the mission speaks of it, which `_find_obj_pos` finds out."""

    def _find_obj_pos(self, obj_desc: ObjDesc, adjacent: bool = False) -> tuple[Any, Any]:
        """The nearest object in sight that fits; minigrid's loses count of places once an object is carried."""
        fits = {id(thing) for thing in obj_desc.obj_set}
        width = self.mission.grid.width
        there = [
            (cell, (index % width, index // width))
            for index, cell in enumerate(self.mission.grid.grid)
            if cell is not None and id(cell) in fits and cell.type != "wall"  # a wall fits "a grey object"
        ]
        if not there:
            raise LostError("what the mission speaks of is gone")
        best: tuple[Any, Any] = (None, None)
        best_distance = 999
        for thing, position in sorted(there, key=lambda pair: pair[1]):
            if not self.vis_mask[position]:
                continue
            path, _, blocked = self._shortest_path(lambda pos, cell: pos == position, try_with_blockers=True)  # noqa: B023
            if path is None:
                continue
            # As minigrid's: clearing the way takes 4 steps at least, 7 with a full hand; and what one stands on, or
            # right before where one is to put something beside it, is further than it looks.
            distance = len(path) + ((7 if self.mission.carrying else 4) if blocked else 0)
            if distance == 0:
                distance = 3 if adjacent else 2
            if adjacent and distance == 1:
                distance = 3
            if distance < best_distance:
                best_distance, best = distance, (thing, position)
        return best

    def _breadth_first_search(
        self, initial_states: Iterable[Any], accept_fn: Callable[[Any, Any], Any], ignore_blockers: bool
    ) -> tuple[Any, Any, dict[Any, Any]]:
        """The same search as minigrid's, whose queue takes time that grows with the square of its length."""
        cells, width = self.mission.grid.grid, self.mission.grid.width
        seen = self._seen.tobytes()  # looking up one place in an array takes long
        # Plain integers: they come mixed with numpy's, with which every step of the search would be slow.
        queue: deque[Any] = deque((tuple(map(int, state)), None) for state in initial_states)
        came_from: dict[Any, Any] = {}
        while queue:
            (i, j, di, dj), previous = queue.popleft()
            here = (i, j)
            if here in came_from:
                continue
            came_from[here] = previous
            cell = cells[j * width + i]
            if accept_fn(here, cell):
                path, step = [], here
                while step:
                    path.append(step)
                    step = came_from[step]
                return path, here, came_from
            if not seen[place(i, j)]:
                continue
            if cell is not None:
                passable = cell.is_open if cell.type == "door" else ignore_blockers and cell.type != "wall"
                if not passable:
                    continue
            for k, m in ((di, dj), (dj, di), (-dj, -di), (-di, -dj)):
                if (i + k, j + m) not in came_from:
                    queue.append(((i + k, j + m, k, m), here))
        return None, None, came_from
