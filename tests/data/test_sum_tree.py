"""The sum tree: right for any size, never off by rounding, and drawn from in proportion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from r2a.data.sum_tree import SumTree


def make_tree(values):
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.asarray(values, np.float64))
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
    assert np.array_equal(tree.sums, make_tree(values).sums), "sums depend on the leaves only, not on their history"
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


def test_what_is_taken_is_gone_and_in_proportion():
    values = np.array([1.0, 0.0, 2.0, 5.0])
    rng, first, second = np.random.default_rng(2), np.zeros(4), np.zeros(4)
    for _ in range(8_000):
        tree = make_tree(values)
        taken = [tree.take(uniform) for uniform in rng.random(4)]
        assert sorted(taken[:3]) == [0, 2, 3]
        assert taken[3] is None
        first[taken[0]] += 1
        if taken[0] == 3:
            second[taken[1]] += 1
    assert chisquare(first[[0, 2, 3]], np.array([1, 2, 5]) / 8 * 8_000).pvalue > 1e-3
    assert chisquare(second[[0, 2]], np.array([1, 2]) / 3 * second.sum()).pvalue > 1e-3


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 2_000), st.integers(0, 2**32 - 1))
def test_taking_is_finding(leaves, seed):
    rng = np.random.default_rng(seed)
    tree = make_tree(rng.random(leaves) * (rng.random(leaves) < 0.7))
    for uniform in (0.0, *rng.random(20), np.nextafter(1.0, 0.0)):
        if tree.total > 0:
            found = int(tree.find(np.array([uniform * tree.total]))[0])
            assert tree.take(float(uniform)) == found
            assert tree.values[found] == 0.0
    assert np.array_equal(tree.sums, make_tree(tree.values).sums)


def test_work_grows_with_the_root_of_the_size():
    for leaves in (10**4, 10**5, 10**6):
        tree = SumTree(leaves)
        assert len(tree.sums) + 64 * tree.width < 2.1 * (64 * leaves) ** 0.5, "numbers that a draw of 64 looks at"
