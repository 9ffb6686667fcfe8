"""What an interval is: Student's t over seeds, and a bootstrap of the interquartile mean over games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

FEWEST = 3
"""Seeds that an interval needs: two that happen to be alike would seem certain."""
Bounds = tuple[float | None, float | None]


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval, if there are seeds enough for one."""

    mean: float
    low: float | None = None
    high: float | None = None


def interval(values: Sequence[float], bounds: Bounds = (None, None)) -> Interval:
    """Mean and Student's t interval over independent seeds, cut to the range that a score can have."""
    numbers = np.asarray(values, float)
    mean = float(numbers.mean())
    if len(numbers) < FEWEST:
        return Interval(mean)
    half = float(stdtrit(len(numbers) - 1, 0.975) * numbers.std(ddof=1)) / len(numbers) ** 0.5
    least, most = bounds
    low = mean - half if least is None else max(mean - half, least)
    high = mean + half if most is None else min(mean + half, most)
    return Interval(mean, low, high)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> float:
    """The mean of the middle half; a value on the border of it counts in part (Agarwal et al. 2021)."""
    ordered = np.sort(np.asarray(values, float))
    edges = np.arange(len(ordered) + 1) / len(ordered)
    share = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return float((ordered * share).sum() / share.sum())


def iqm_interval(games: Sequence[Sequence[float]], seed: int = 0, draws: int = 2_000) -> Interval:
    """The interquartile mean over all games' runs, and its interval by drawing every game's runs anew."""
    generator = np.random.default_rng(seed)
    tables = [np.asarray(game, float) for game in games]
    mean = interquartile_mean(np.concatenate(tables))
    if min(map(len, tables)) < FEWEST:
        return Interval(mean)
    drawn = [
        interquartile_mean(np.concatenate([generator.choice(table, len(table)) for table in tables]))
        for _ in range(draws)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(mean, float(low), float(high))
