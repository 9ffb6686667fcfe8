"""MinAtar: five Atari games on a board of 10 x 10, one channel for each kind of thing on it.

board  one game (needs MinAtar: `pip install 'r2a[minatar]'`)
lanes  many of them side by side
"""

__all__ = ["GAMES", "NAME"]

NAME = "minatar"
GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
