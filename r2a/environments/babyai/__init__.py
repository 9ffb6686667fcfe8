"""BabyAI: 40 levels of missions in words, in rooms with doors, keys, balls and boxes (minigrid's implementation).

    levels      the 40 levels, their order and names
    vocabulary  missions as word numbers
    view        what agents see, for many missions at once
    missions    minigrid's levels; our_levels: the two that it lacks
    env         many missions stepped together
    bot         minigrid's bot, mended; expert: the same as a policy
    features    the encoder of cells and missions
    upstream    what is used of minigrid (`pip install 'r2a[babyai]'`)

None but features needs jax; levels and vocabulary need no minigrid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2a.config import CollectConfig, EnvSettings, require_positive
from r2a.environments.babyai.levels import ACTION_NAMES, COMPOSITIONAL, LEVEL_NAMES, LEVELS, level_index
from r2a.environments.babyai.vocabulary import (
    MISSION_WORDS,
    VOCABULARY_FINGERPRINT,
    WORDS,
    as_text,
    require_vocabulary,
    tokenise,
)
from r2a.environments.registry import World

__all__ = [
    "ACTION_NAMES",
    "COMPOSITIONAL",
    "LEVELS",
    "LEVEL_NAMES",
    "MISSION_WORDS",
    "VOCABULARY_FINGERPRINT",
    "WORDS",
    "WORLD",
    "BabyAISettings",
    "as_text",
    "level_index",
    "require_vocabulary",
    "tokenise",
]


@dataclass(frozen=True)
class BabyAISettings(EnvSettings):
    """Missions (Sec. 3.3)."""

    max_steps: int = 128  # ours
    """Longest episode: it is cut off here, or where minigrid cuts it off. A truncation, not a termination."""

    def __post_init__(self) -> None:
        require_positive(self, "max_steps", section="env.")


def provenance() -> dict[str, Any]:
    """The words that missions are made of, and minigrid's version."""
    from r2a.environments.babyai.upstream import VERSION

    note = "Seeds whose episode the bot could not play to its end were dropped, and the next ones taken."
    return {"vocabulary": VOCABULARY_FINGERPRINT, "minigrid": VERSION, "note": note}


def check_data(settings: BabyAISettings, made: dict[str, Any], shape: tuple[int, ...], where: str) -> None:
    """Refuse data whose missions were written with other words."""
    require_vocabulary(made.get("vocabulary"), where)


WORLD = World(
    name="babyai",
    make="r2a.environments.babyai.env:make",
    settings=BabyAISettings(),
    expert="r2a.environments.babyai.expert:Expert",
    collect=CollectConfig(ladder=(0.0, 0.1, 0.3, 0.6, 1.0), env=BabyAISettings()),  # shares of random actions
    dataset="babyai-expert",
    features="r2a.environments.babyai.features",
    provenance="r2a.environments.babyai:provenance",
    check_data="r2a.environments.babyai:check_data",
)
