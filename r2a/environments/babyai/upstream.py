"""The parts of minigrid that are used here; the one place that imports it, or says that it is missing."""

from r2a.errors import UserError

try:
    import minigrid  # registers its levels with Gymnasium
    from minigrid.core.roomgrid import RoomGrid
    from minigrid.core.world_object import Box, Door, Key, WorldObj
    from minigrid.envs.babyai.core.roomgrid_level import RejectSampling, RoomGridLevel
    from minigrid.envs.babyai.core.verifier import (
        LOC_NAMES,
        ActionInstr,
        AfterInstr,
        GoToInstr,
        Instr,
        ObjDesc,
        OpenInstr,
        PickupInstr,
        PutNextInstr,
        SeqInstr,
    )
    from minigrid.utils.baby_ai_bot import (
        BabyAIBot,
        DropSubgoal,
        ExploreSubgoal,
        GoNextToSubgoal,
        OpenSubgoal,
        Subgoal,
    )
except ModuleNotFoundError as error:
    raise UserError("BabyAI needs minigrid: pip install 'r2a[babyai]'.") from error

VERSION = minigrid.__version__

__all__ = [
    "LOC_NAMES",
    "VERSION",
    "ActionInstr",
    "AfterInstr",
    "BabyAIBot",
    "Box",
    "Door",
    "DropSubgoal",
    "ExploreSubgoal",
    "GoNextToSubgoal",
    "GoToInstr",
    "Instr",
    "Key",
    "ObjDesc",
    "OpenInstr",
    "OpenSubgoal",
    "PickupInstr",
    "PutNextInstr",
    "RejectSampling",
    "RoomGrid",
    "RoomGridLevel",
    "SeqInstr",
    "Subgoal",
    "WorldObj",
]
