"""The 40 BabyAI levels of the original list: their names, their order, and where each is found.

The list is that of the level pages of the original repository (mila-iqia/babyai): the 19 of docs/iclr19_levels.md, then
the 20 headings of docs/bonus_levels.md, of which UnlockPickup holds two levels. The pages' order is the task numbering.
Where the bonus page lists several sizes of a level, the largest one without "Debug" or "Carrying" is taken: the paper
names OpenDoorsOrderN4, MoveTwoAcrossS8N9 and KeyCorridor, which are the largest of theirs.
"""

from __future__ import annotations

import difflib
from typing import Literal, NamedTuple

from r2a.errors import UserError


class LevelEntry(NamedTuple):
    """A level's name, the page that lists it, and its id in minigrid (None: minigrid lacks it, so it is our own)."""

    name: str
    page: Literal["iclr19", "bonus"]
    minigrid_id: str | None


def _entries(page: Literal["iclr19", "bonus"], *names: str) -> list[LevelEntry]:
    return [LevelEntry(name, page, f"BabyAI-{name}-v0") for name in names]


LEVELS: tuple[LevelEntry, ...] = (
    *_entries(
        "iclr19",
        "GoToObj",
        "GoToRedBall",
        "GoToRedBallGrey",
        "GoToLocal",
        "PutNextLocal",
        "PickupLoc",  # the page writes PickUpLoc; its id and the paper do not
        "GoToObjMaze",
        "GoTo",
        "Pickup",
        "UnblockPickup",
        "Open",
        "Unlock",
    ),
    LevelEntry("PutNext", "iclr19", None),  # many rooms, unlike the bonus page's level of that name
    *_entries("iclr19", "Synth", "SynthLoc", "GoToSeq", "SynthSeq", "GoToImpUnlock", "BossLevel"),
    *_entries(
        "bonus",
        "OpenRedDoor",
        "OpenDoor",
        "GoToDoor",
        "GoToObjDoor",
        "ActionObjDoor",
        "UnlockPickup",
        "UnlockPickupDist",
        "BlockedUnlockPickup",
        "UnlockToUnlock",
        "KeyInBox",
        "PickupDist",
        "PickupAbove",
        "OpenRedBlueDoors",
        "OpenTwoDoors",
        "FindObjS7",  # of S5, S6, S7
    ),
    LevelEntry("FourObjsS7", "bonus", None),  # of S5, S6, S7
    *_entries("bonus", "KeyCorridor"),  # of S3R1 to S6R3; minigrid's size without a suffix is S6R3
    LevelEntry("1RoomS20", "bonus", "BabyAI-OneRoomS20-v0"),  # of S8, S12, S16, S20
    *_entries(
        "bonus",
        "OpenDoorsOrderN4",  # of N2, N4
        "PutNextS7N4",  # of S4N1 to S7N4
        "MoveTwoAcrossS8N9",  # of S5N2, S8N9
    ),
)
LEVEL_NAMES: tuple[str, ...] = tuple(level.name for level in LEVELS)

# Sec. "BabyAI" of the paper: levels whose missions are made of several simpler ones.
COMPOSITIONAL: frozenset[str] = frozenset(
    {
        "GoToSeq",
        "SynthSeq",
        "BossLevel",
        "OpenRedBlueDoors",
        "OpenTwoDoors",
        "OpenDoorsOrderN4",
        "MoveTwoAcrossS8N9",
        "PutNextLocal",
        "PutNext",
        "Unlock",
        "GoToImpUnlock",
        "UnlockPickupDist",
        "BlockedUnlockPickup",
        "UnlockToUnlock",
        "KeyCorridor",
    }
)

ACTION_NAMES: tuple[str, ...] = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)


def level_index(name: str) -> int:
    """The place of a level in the list, or a UserError that names levels spelt like it."""
    if name in LEVEL_NAMES:
        return LEVEL_NAMES.index(name)
    by_lower_case = {known.lower(): known for known in LEVEL_NAMES}
    near = [by_lower_case[match] for match in difflib.get_close_matches(name.lower(), by_lower_case, 3)]
    advice = f"did you mean {' or '.join(near)}?" if near else f"the levels are {', '.join(LEVEL_NAMES)}."
    raise UserError(f"There is no BabyAI level {name!r}; {advice}")
