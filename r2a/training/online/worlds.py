"""The games of an online run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from r2a.config import AtariConfig, MinAtarConfig, OnlineConfig
from r2a.environments.atari.lanes import make_atari
from r2a.environments.atari.scores import human_normalised
from r2a.environments.lanes import Lanes
from r2a.environments.minatar.lanes import make_minatar

MAKE: dict[str, Callable[..., Lanes]] = {"atari": make_atari, "minatar": make_minatar}


def world_of(config: OnlineConfig) -> AtariConfig | MinAtarConfig:
    """The settings of the run's games."""
    return config.atari if config.environment == "atari" else config.minatar


def with_game(config: OnlineConfig, game: str) -> OnlineConfig:
    """The same run of another game."""
    if config.environment == "atari":
        return replace(config, atari=replace(config.atari, game=game))
    return replace(config, minatar=replace(config.minatar, game=game))


def make_lanes(config: OnlineConfig, count: int, seed: int) -> Lanes:
    """Games of the run's world."""
    return MAKE[config.environment](world_of(config), count, seed)


def scores_of(config: OnlineConfig, score: float) -> dict[str, float]:
    """A score, by the names under which it is reported."""
    scores = {"score": score}
    if config.environment == "atari":
        scores["human_normalised"] = human_normalised(config.atari.game, score)
    return scores
