"""BabyAI: 40 levels of missions in words, in rooms with doors, keys, balls and boxes (minigrid's implementation).

    levels      the 40 levels, their order and names
    vocabulary  missions as word numbers
    view        what agents see, for many missions at once
    missions    minigrid's levels, and the two that it lacks
    env         many missions stepped together
    expert      minigrid's bot, mended, as a policy
    features    the encoder of cells and missions
    upstream    minigrid, if it is there (`pip install 'r2a[babyai]'`)

None but features needs jax; levels and vocabulary need no minigrid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2a.config import CollectConfig, EnvSettings, require_positive
from r2a.environments.babyai.vocabulary import VOCABULARY_FINGERPRINT
from r2a.environments.registry import World
from r2a.errors import UserError


@dataclass(frozen=True)
class BabyAISettings(EnvSettings):
    """Missions (Sec. 3.3)."""

    max_steps: int = 128  # ours
    """Longest episode: it is cut off here, or where minigrid cuts it off. A truncation, not a termination."""

    def __post_init__(self) -> None:
        require_positive(self, "max_steps", section="env.")


def provenance() -> dict[str, Any]:
    """The words that missions are made of, and minigrid's version."""
    from r2a.environments.babyai.upstream import minigrid

    note = "Seeds whose episode the bot could not play to its end were dropped, and the next ones taken."
    return {"vocabulary": VOCABULARY_FINGERPRINT, "minigrid": minigrid.__version__, "note": note}


def check_data(settings: BabyAISettings, made: dict[str, Any], shape: tuple[int, ...], where: str) -> None:
    """Refuse data whose missions were written with other words."""
    if made.get("vocabulary") != VOCABULARY_FINGERPRINT:
        raise UserError(
            f"{where} was written with another BabyAI vocabulary, so its missions cannot be read; collect it again."
        )


WORLD = World(
    name="babyai",
    make="r2a.environments.babyai.env:BabyAI",
    settings=BabyAISettings(),
    expert="r2a.environments.babyai.expert:Expert",
    collect=CollectConfig(ladder=(0.0, 0.1, 0.3, 0.6, 1.0), env=BabyAISettings()),  # shares of random actions
    dataset="babyai-expert",
    features="r2a.environments.babyai.features",
    provenance="r2a.environments.babyai:provenance",
    check_data="r2a.environments.babyai:check_data",
)
