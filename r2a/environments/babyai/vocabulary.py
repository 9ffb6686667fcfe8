"""From missions to numbers and back: every word that the missions of the 40 levels can have."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt8

from r2a.errors import UserError

# minigrid's grammar (envs/babyai/core/verifier.py), word by word. A word's token is its place here plus one: 0 is
# padding. Data sets store the fingerprint of this list, so words are only ever added at its end.
WORDS: tuple[str, ...] = (
    *("go", "to", "pick", "up", "open", "put", "next"),  # verbs
    *("the", "a"),  # one object or several that fit
    *("red", "green", "blue", "purple", "yellow", "grey"),  # colours
    *("ball", "box", "key", "door", "object"),  # types
    *("in", "front", "of", "behind", "you", "on", "your", "left", "right"),  # locations
    *("and", ",", "then", "after"),  # "X and Y", "X, then Y", "X after you Y"
)
PADDING = 0

# The longest mission: four times "put the red ball in front of you next to the red box in front of you" (17 words),
# with "and" inside both pairs and ", then" or "after you" between them.
MISSION_WORDS = 4 * 17 + 2 + 2

VOCABULARY_FINGERPRINT = hashlib.sha256("\n".join(WORDS).encode()).hexdigest()

_TOKENS = {word: token for token, word in enumerate(WORDS, start=1)}

Tokens = UInt8[np.ndarray, " 72"]


def tokenise(mission: str) -> Tokens:
    """A mission as word numbers, padded with 0; the comma is a word of its own."""
    words = mission.replace(",", " , ").lower().split()
    unknown = [word for word in words if word not in _TOKENS]
    if unknown:
        raise UserError(f"The mission {mission!r} has the word {unknown[0]!r}, which no BabyAI level uses.")
    if len(words) > MISSION_WORDS:
        raise UserError(f"The mission {mission!r} has {len(words)} words; there is room for {MISSION_WORDS}.")
    tokens = np.full(MISSION_WORDS, PADDING, np.uint8)
    tokens[: len(words)] = [_TOKENS[word] for word in words]
    return tokens


def as_text(tokens: Tokens) -> str:
    """The mission that `tokenise` made these tokens of."""
    numbers = [int(token) for token in tokens if token != PADDING]
    if numbers and max(numbers) > len(WORDS):
        raise UserError(f"There is no word number {max(numbers)}: the BabyAI vocabulary has {len(WORDS)} words.")
    return " ".join(WORDS[number - 1] for number in numbers).replace(" ,", ",")
