"""Atari: 57 games of the Arcade Learning Environment.

    scores   the games, and what chance and people score in them
    screen   from the emulator's screen to what an agent sees
    console  one emulator (needs ale-py: `pip install 'r2a[atari]'`)
    lanes    many of them side by side

One frame per observation: who wants a stack of frames makes it from a sequence of them.
"""

from r2a.environments.atari.scores import GAMES, human_normalised

__all__ = ["GAMES", "NAME", "human_normalised"]

NAME = "atari"
