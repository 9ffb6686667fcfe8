"""The sum tree: right for any size, never off by rounding, and drawn from in proportion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from r2a.data.replay.sum_tree import CHILDREN, SumTree, draw_leaves


def make_tree(values):
    tree = SumTree(len(values))
    tree.restore(np.asarray(values, np.float64))
    return tree


def test_by_hand():
    tree = make_tree([1.0, 0.0, 2.0, 4.0])
    assert tree.total == 7.0
    assert tree.find(np.array([0.0, 0.5, 1.0, 2.5, 3.0, 6.9, 7.0])).tolist() == [0, 0, 2, 2, 3, 3, 3]
    tree.set(np.array([3, 1, 3]), np.array([9.0, 1.0, 0.0]))
    assert tree.values.tolist() == [1.0, 1.0, 2.0, 0.0]
    assert tree.total == 4.0


@pytest.mark.parametrize("leaves", [1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000])
def test_any_number_of_leaves(leaves):
    values = np.arange(1.0, leaves + 1)
    tree = make_tree(values)
    assert tree.total == values.sum()
    edges = np.cumsum(values)
    assert np.array_equal(tree.find(edges - values), np.arange(leaves)), "from each leaf's lower edge on"
    assert np.array_equal(tree.find(edges - 0.5), np.arange(leaves)), "up to its upper edge"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.floats(-12, 12))
def test_sums_never_drift(leaves, seed, magnitude):
    rng = np.random.default_rng(seed)
    tree, values = SumTree(leaves), np.zeros(leaves)
    for _ in range(20):
        places = rng.integers(0, leaves, 10)
        new = rng.random(10) * 10.0 ** rng.uniform(-abs(magnitude), abs(magnitude), 10) * (rng.random(10) < 0.7)
        tree.set(places, new)
        for place, value in zip(places, new, strict=True):
            values[place] = value
    assert np.array_equal(tree.values, values)
    assert np.array_equal(tree.nodes, make_tree(values).nodes), "sums depend on the leaves only, not on their history"
    if tree.total > 0:
        found = tree.find(np.append(rng.random(100) * tree.total, [0.0, tree.total, np.nextafter(tree.total, 0)]))
        assert np.all(values[found] > 0)
    tree.set(np.arange(leaves), np.zeros(leaves))
    assert tree.total == 0.0, "no rest is left"


def test_tiny_leaves_beside_huge_ones_are_never_lost():
    tree = make_tree([1e-12] * 20)
    tree.set(np.array([3]), np.array([1e12]))
    tree.set(np.array([3]), np.array([0.0]))
    assert tree.total == pytest.approx(19e-12, rel=1e-12)
    assert np.all(tree.values[tree.find(np.linspace(0, tree.total, 50))] > 0)


def test_frequencies_match_values():
    values = np.random.default_rng(0).random(37) * (np.arange(37) % 5 > 0)
    tree = make_tree(values)
    rng = np.random.default_rng(1)
    counts = np.bincount(tree.find(rng.random(40_000) * tree.total), minlength=37)
    drawn = values > 0
    assert counts[~drawn].sum() == 0
    assert chisquare(counts[drawn], values[drawn] / values.sum() * 40_000).pvalue > 1e-3


def test_each_part_of_the_total_gets_one_draw():
    tree = make_tree(np.ones(64))
    places, probability = np.empty(16, np.int64), np.empty(16)
    draw_leaves(tree.nodes, tree.starts, np.full(16, 0.5), places, probability)
    assert places.tolist() == list(range(2, 64, 4))
    assert np.all(probability == 1 / 64)


def test_work_grows_with_the_logarithm_of_the_size():
    assert [len(SumTree(CHILDREN**levels).starts) for levels in range(7)] == list(range(1, 8))
