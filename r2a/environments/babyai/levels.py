"""The 40 BabyAI levels of the original list: their names, their order, and where each is found.

The list is that of the level pages of the original repository (mila-iqia/babyai): the 19 of docs/iclr19_levels.md, then
the 20 headings of docs/bonus_levels.md, of which UnlockPickup holds two levels. The pages' order is the task numbering.
Where the bonus page lists several sizes of a level, the largest one without "Debug" or "Carrying" is taken: the paper
names OpenDoorsOrderN4, MoveTwoAcrossS8N9 and KeyCorridor (S6R3), which are the largest of theirs.
"""

from __future__ import annotations

import difflib

from r2a.errors import UserError

LEVEL_NAMES: tuple[str, ...] = (
    # docs/iclr19_levels.md, which writes PickUpLoc; the level's id and the paper do not.
    *("GoToObj", "GoToRedBall", "GoToRedBallGrey", "GoToLocal", "PutNextLocal", "PickupLoc", "GoToObjMaze", "GoTo"),
    *("Pickup", "UnblockPickup", "Open", "Unlock", "PutNext", "Synth", "SynthLoc", "GoToSeq", "SynthSeq"),
    *("GoToImpUnlock", "BossLevel"),
    # docs/bonus_levels.md
    *("OpenRedDoor", "OpenDoor", "GoToDoor", "GoToObjDoor", "ActionObjDoor", "UnlockPickup", "UnlockPickupDist"),
    *("BlockedUnlockPickup", "UnlockToUnlock", "KeyInBox", "PickupDist", "PickupAbove", "OpenRedBlueDoors"),
    *("OpenTwoDoors", "FindObjS7", "FourObjsS7", "KeyCorridor", "1RoomS20", "OpenDoorsOrderN4", "PutNextS7N4"),
    "MoveTwoAcrossS8N9",
)

LEVELS: dict[str, str | None] = {name: f"BabyAI-{name}-v0" for name in LEVEL_NAMES} | {
    "PutNext": None,  # many rooms, unlike the bonus page's level of that name
    "FourObjsS7": None,
    "1RoomS20": "BabyAI-OneRoomS20-v0",
}
"""The id of each level in minigrid (None: minigrid lacks it, so it is our own)."""

COMPOSITIONAL: frozenset[str] = frozenset(
    (
        *("GoToSeq", "SynthSeq", "BossLevel", "OpenRedBlueDoors", "OpenTwoDoors", "OpenDoorsOrderN4"),
        *("MoveTwoAcrossS8N9", "PutNextLocal", "PutNext", "Unlock", "GoToImpUnlock", "UnlockPickupDist"),
        *("BlockedUnlockPickup", "UnlockToUnlock", "KeyCorridor"),
    )
)
"""Sec. "BabyAI" of the paper: levels whose missions are made of several simpler ones."""

ACTION_NAMES: tuple[str, ...] = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
PICKUP, DROP, TOGGLE = 3, 4, 5


def level_index(name: str) -> int:
    """The place of a level in the list, or a UserError that names levels spelt like it."""
    if name in LEVEL_NAMES:
        return LEVEL_NAMES.index(name)
    by_lower_case = {known.lower(): known for known in LEVEL_NAMES}
    near = [by_lower_case[match] for match in difflib.get_close_matches(name.lower(), by_lower_case, 3)]
    advice = f"did you mean {' or '.join(near)}?" if near else f"the levels are {', '.join(LEVEL_NAMES)}."
    raise UserError(f"There is no BabyAI level {name!r}; {advice}")
