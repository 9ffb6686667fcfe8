"""Means with intervals over few seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Two-sided 95 % points of Student's t by degrees of freedom; beyond the table the normal distribution will do.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


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
    half = T_95.get(len(numbers) - 1, 1.96) * float(numbers.std(ddof=1)) / len(numbers) ** 0.5
    return Interval(mean, mean - half, mean + half)
