"""Means with intervals over few seeds, and the interquartile mean over many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def t_interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean over independent seeds; with one value, the value itself."""
    numbers = np.asarray(values, float)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Interval(mean, mean, mean)
    quantile = float(stdtrit(len(numbers) - 1, 0.975))  # of Student's t
    half = quantile * float(numbers.std(ddof=1)) / len(numbers) ** 0.5
    return Interval(mean, mean - half, mean + half)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> float:
    """The mean of the middle half; a value on the border of it counts in part (Agarwal et al. 2021)."""
    ordered = np.sort(np.asarray(values, float))
    edges = np.arange(len(ordered) + 1) / len(ordered)
    share = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return float((ordered * share).sum() / share.sum())


def iqm_interval(groups: Sequence[Sequence[float]], seed: int = 0, draws: int = 2_000) -> Interval:
    """The interquartile mean over all groups' runs, and its 95 % interval by drawing every group's runs anew."""
    generator = np.random.default_rng(seed)
    tables = [np.asarray(group, float) for group in groups]
    drawn = [
        interquartile_mean(np.concatenate([generator.choice(table, len(table)) for table in tables]))
        for _ in range(draws)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(interquartile_mean(np.concatenate(tables)), float(low), float(high))
