"""The expert: minigrid's BabyAI bot, mended, as a policy with a share of random actions.

Mended, it solves all 40 levels, never replans for ever, and recovers from random actions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from r2a.environments.api import NoEpisodeError, Seed, seed_number
from r2a.environments.babyai.env import BabyAI
from r2a.environments.babyai.levels import ACTION_NAMES, level_index
from r2a.environments.babyai.missions import Mission
from r2a.environments.babyai.upstream import baby_ai_bot, verifier, world_object
from r2a.environments.babyai.view import MARGIN, SIDE, place

MOST_CHANGES_OF_PLAN = 200  # before one action; sound plans need a dozen
MOST_RESTARTS = 50  # of one episode

# What minigrid's bot raises when the world is not as its plan supposes, after random actions for the most part.
CONFUSION = (AssertionError, AttributeError)


class LostError(NoEpisodeError):
    """The bot cannot solve the mission from here; perhaps nobody can."""

    reason = "bot lost"


class ExploreOtherDoors(baby_ai_bot.ExploreSubgoal):
    """Explore, but not through a locked door that waits for a key.

    minigrid's subgoal may choose the very door whose key it explores for, again and again without an end.
    """

    def replan_before_action(self) -> Any:
        """Go where nothing was seen yet, or else to the nearest closed door, unlocked ones first."""
        bot: ExpertBot = self.bot  # type: ignore[assignment]
        _, unseen, _ = bot._shortest_path(lambda pos, cell: not bot.vis_mask[pos], try_with_blockers=True)
        if unseen:
            bot.stack.append(baby_ai_bot.GoNextToSubgoal(bot, unseen, reason="Explore"))
            return
        waiting = bot.doors_in_plan()
        conditions: list[Callable[[Any], bool]] = [
            lambda door: not door.is_locked,
            lambda door: id(door) not in waiting and bot.key_is_known(door),
            lambda door: id(door) not in waiting,
        ]
        for condition in conditions:
            _, position, _ = bot._shortest_path(
                lambda pos, cell: cell and cell.type == "door" and not cell.is_open and condition(cell),  # noqa: B023
                try_with_blockers=True,
            )
            if position:
                break
        else:
            raise LostError("nothing is left to explore")
        door = bot.mission.grid.get(*position)
        bot.stack.pop()
        keep = door.is_locked and bot.carries_key(door.color)
        bot.stack.append(baby_ai_bot.OpenSubgoal(bot, reason="KeepKey" if keep else None))
        bot.stack.append(baby_ai_bot.GoNextToSubgoal(bot, door, reason="Open"))


class OpenBoxSubgoal(baby_ai_bot.Subgoal):
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
            self.bot.stack.append(baby_ai_bot.GoNextToSubgoal(self.bot, self.datum))


class ExpertBot(baby_ai_bot.BabyAIBot):
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
            elif type(self.stack[-1]) is baby_ai_bot.ExploreSubgoal:
                self.stack[-1] = ExploreOtherDoors(self)
                continue
            elif not self._open_box_first(self.stack[-1]):
                action = self.stack[-1].replan_before_action()
            if action is not None:
                self._remember_current_state()
                return action
        raise LostError("the plan goes in circles")

    def doors_in_plan(self) -> set[int]:
        """The ids of the doors that the plan is to open already."""
        targets: list[Any] = [goal.datum for goal in self.stack if isinstance(goal, baby_ai_bot.GoNextToSubgoal)]
        places = [target for target in targets if not isinstance(target, verifier.ObjDesc | world_object.WorldObj)]
        cells = [*targets, *(self.mission.grid.get(*place) for place in places)]
        return {id(cell) for cell in cells if isinstance(cell, world_object.Door)}

    def carries_key(self, colour: str) -> bool:
        """Whether a key of this colour is in the agent's hand."""
        held = self.mission.carrying
        return held is not None and (held.type, held.color) == ("key", colour)

    def key_is_known(self, door: Any) -> bool:
        """Whether the key of a locked door is in the agent's hand or was seen."""
        _, positions = verifier.ObjDesc("key", door.color).find_matching_objs(self.mission)
        return self.carries_key(door.color) or any(self.vis_mask[position] for position in positions)

    def _start_over(self) -> None:
        """Plan anew from where things are: what is done stays done, and the hand is emptied first if need be."""
        self.stack.clear()
        self._process_instr(self.mission.instrs)
        held = self.mission.carrying
        if held is None or not self.stack:
            return
        is_put_next = len(self.stack) > 2 and getattr(self.stack[-3], "reason", None) == "PutNext"
        if is_put_next and any(held is thing for thing in self.stack[-1].datum.obj_set):
            del self.stack[-2:]  # no need to go and pick up what is in the hand
            return
        self.stack.append(baby_ai_bot.DropSubgoal(self))
        self.stack.append(baby_ai_bot.GoNextToSubgoal(self, self._find_drop_pos()))

    def _process_instr(self, instr: Any) -> None:
        """As minigrid's, leaving out the parts of a mission that are done."""
        if not isinstance(instr, verifier.SeqInstr):
            super()._process_instr(instr)
            return
        # A stack: the last is done first.
        for part in ("a", "b") if isinstance(instr, verifier.AfterInstr) else ("b", "a"):
            if getattr(instr, f"{part}_done") != "success":
                self._process_instr(getattr(instr, f"instr_{part}"))

    def _open_box_first(self, subgoal: baby_ai_bot.Subgoal) -> bool:
        """Whether the plan had to change, since what the bot wants is inside a box."""
        wanted = subgoal.datum
        if isinstance(subgoal, baby_ai_bot.GoNextToSubgoal) and wanted is None:
            raise LostError("there is no free place to put something down")
        if not (isinstance(subgoal, baby_ai_bot.GoNextToSubgoal) and isinstance(wanted, verifier.ObjDesc)):
            return False
        if wanted.obj_set or wanted.find_matching_objs(self.mission)[0]:
            return False
        for cell in self.mission.grid.grid:
            inside = cell.contains if isinstance(cell, world_object.Box) else None
            if inside is not None and (inside.type, inside.color) == (wanted.type, wanted.color):
                self.stack.append(OpenBoxSubgoal(self, cell))
                self.stack.append(baby_ai_bot.GoNextToSubgoal(self, cell))
                return True
        raise LostError(f"there is no {wanted.color} {wanted.type}")

    def _process_obs(self) -> None:
        """Nothing: `see` has been told."""

    def _check_erroneous_box_opening(self, action: Any) -> None:
        """Nothing: a box that is gone matters only if the mission speaks of it, which `_find_obj_pos` finds out."""

    def _find_obj_pos(self, obj_desc: verifier.ObjDesc, adjacent: bool = False) -> tuple[Any, Any]:
        """The nearest object in sight that fits; minigrid's loses count of places once an object is carried."""
        fits = {id(thing) for thing in obj_desc.obj_set}
        width = self.mission.grid.width
        there = [
            ((index % width, index // width), cell)
            for index, cell in enumerate(self.mission.grid.grid)
            if cell is not None and id(cell) in fits and cell.type != "wall"  # a wall fits "a grey object"
        ]
        if not there:
            raise LostError("what the mission speaks of is gone")
        best: tuple[Any, Any] = (None, None)
        best_distance = 999
        for position, thing in sorted(there, key=lambda pair: pair[0]):
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
        by_chance, action = self._generator.random() < self._noise, int(self._generator.integers(len(ACTION_NAMES)))
        if self._noise < 1:  # nobody is asked where every action is random
            if view.is_first[0]:
                self._bot = type(self).make_bot(self._env.missions[0])
            self._bot.see(self._env.seen_places(0))
            advice = self._bot.advise(None if view.is_first[0] else int(view.previous_action[0]))
            action = action if by_chance else advice
        return np.array([action], np.uint8), {}
