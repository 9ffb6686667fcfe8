"""BabyAI: 40 levels of missions in words, in rooms with doors, keys, balls and boxes (minigrid's implementation).

    levels      the 40 levels, their order and names
    vocabulary  missions as word numbers
    worlds      many missions stepped together
    expert      episodes of a bot that solves them
    gym         one level for Gymnasium

Only the last three need minigrid (`pip install 'r2a[babyai]'`), and none needs jax.
"""

from r2a.environments.babyai.levels import ACTION_NAMES, COMPOSITIONAL, LEVEL_NAMES, LEVELS, level_index
from r2a.environments.babyai.vocabulary import (
    MISSION_WORDS,
    VOCABULARY_FINGERPRINT,
    WORDS,
    as_text,
    require_vocabulary,
    tokenise,
)

__all__ = [
    "ACTION_NAMES",
    "COMPOSITIONAL",
    "GYMNASIUM_ID",
    "LEVELS",
    "LEVEL_NAMES",
    "MISSION_WORDS",
    "NAME",
    "VOCABULARY_FINGERPRINT",
    "WORDS",
    "as_text",
    "level_index",
    "require_vocabulary",
    "tokenise",
]

NAME = "babyai"
GYMNASIUM_ID = "r2a/BabyAI-v0"
