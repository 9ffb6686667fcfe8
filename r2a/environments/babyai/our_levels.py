"""The two levels of the original list that minigrid lacks."""

from __future__ import annotations

from typing import Any

from r2a.environments.babyai.upstream import LOC_NAMES, ObjDesc, PickupInstr, PutNextInstr, RoomGridLevel


class PutNextAcrossRooms(RoomGridLevel):
    """PutNext of the ICLR19 page, which minigrid lacks: both objects are anywhere in nine connected rooms."""

    def gen_mission(self) -> None:
        """Draw the rooms, the objects, and two of them."""
        self.place_agent()
        self.connect_all()
        objects = self.add_distractors(num_distractors=18, all_unique=False)
        self.check_objs_reachable()
        moved, fixed = self._rand_subset(objects, 2)
        self.instrs = PutNextInstr(ObjDesc(moved.type, moved.color), ObjDesc(fixed.type, fixed.color))


class ObjectInNextRoom(ObjDesc):
    """An object in the room that lies to the agent's left, right, front or back at the start."""

    def find_matching_objs(self, env: Any, use_location: bool = True) -> Any:
        """As minigrid's, whose own locations only mean places in the agent's room."""
        if not use_location:
            return super().find_matching_objs(env, use_location=False)
        ahead_x, ahead_y = ((1, 0), (0, 1), (-1, 0), (0, -1))[env.agent_dir]
        step_x, step_y = {
            "front": (ahead_x, ahead_y),
            "behind": (-ahead_x, -ahead_y),
            "right": (-ahead_y, ahead_x),
            "left": (ahead_y, -ahead_x),
        }[str(self.loc)]
        room = env.get_room(1 + step_x, 1 + step_y)
        self.obj_set = list(room.objs)
        self.obj_poss = [thing.cur_pos for thing in self.obj_set]
        return self.obj_set, self.obj_poss


class FourObjs(RoomGridLevel):
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
        self.instrs = PickupInstr(ObjectInNextRoom(wanted.type, wanted.color, self._rand_elem(LOC_NAMES)))


OUR_OWN: dict[str, tuple[type[RoomGridLevel], dict[str, Any]]] = {
    "PutNext": (PutNextAcrossRooms, {}),
    "FourObjsS7": (FourObjs, {"room_size": 7}),
}
