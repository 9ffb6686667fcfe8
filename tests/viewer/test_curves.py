"""Learning curves: mean and range over seeds, and files that need nothing else."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from r2a.viewer.curves import Curve, curves_figure, curves_of_sources, learning_curves, plot_curves, points_of


def run(values, seconds=1.0, metric="eval/right"):
    lines = [{"step": 10 * i, metric: value, "time/train_seconds": i * seconds} for i, value in enumerate(values, 1)]
    return [{"step": 5, "rl/loss": 1.0, "time/train_seconds": 0.5}, *lines]


def test_points_are_mean_and_range_over_the_steps_that_all_seeds_have():
    curve = Curve([run([1, 2, 3], 1), run([3, 6, 9], 3), run([2, 1], 2)])
    points = points_of(curve, "step")
    np.testing.assert_allclose(points.x, [10, 20])
    np.testing.assert_allclose(points.mean, [2, 3])
    np.testing.assert_allclose(points.low, [1, 1])
    np.testing.assert_allclose(points.high, [3, 6])
    np.testing.assert_allclose(points_of(curve, "time/train_seconds").x, [2, 4])


@pytest.mark.parametrize("curve", [Curve([]), Curve([[]]), Curve([run([1])], "eval/wrong"), Curve([run([1]), []])])
def test_a_curve_without_points_is_empty(curve):
    assert all(len(column) == 0 for column in points_of(curve, "step"))
    curves_figure({"nothing": curve})


def test_a_source_that_was_not_measured_has_no_curve():
    right, wrong = run([1, 2]), run([0, 0], metric="eval/wrong")
    assert list(curves_of_sources([right])) == ["reading the right task"]
    assert list(curves_of_sources([right], reads=False)) == ["without retrieval"]
    assert list(curves_of_sources([right + wrong])) == ["reading the right task", "reading a wrong task"]


@pytest.mark.parametrize("x", ["step", "time/train_seconds"])
def test_expert_and_floor_are_lines_and_everything_is_in_the_legend(x):
    labels = [f"agent {i} with a long name, so that columns matter" for i in range(9)]
    figure = curves_figure({label: Curve([run([1, 2]), run([2, 3])]) for label in labels}, x=x, expert=40, floor=2)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*labels, "scripted expert", "best constant action"]
    assert {line.get_ydata()[0] for line in figure.axes[0].lines[-2:]} == {40, 2}
    figure.canvas.draw()
    legend, page = figure.legends[0].get_window_extent(), figure.bbox
    assert legend.x0 >= 0
    assert legend.x1 <= page.x1
    assert not legend.overlaps(figure.axes[0].get_window_extent())


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_ending_says_the_format_and_the_same_curves_give_the_same_file(ending, begins, tmp_path):
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for file in files:
        plot_curves({"an <agent>": Curve([run([1, 2, 3])])}, file, expert=3)
    assert files[0].read_bytes().startswith(begins)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_two_plots_on_a_page_share_no_ids():
    plots = [learning_curves({"<b>&": Curve([run([1, 2])])}, x=x) for x in ("step", "time/train_seconds")]
    ids = [set(re.findall(r'\bid="([^"]*)"', plot)) for plot in plots]
    assert ids[0]
    assert not ids[0] & ids[1]
    for plot, known in zip(plots, ids, strict=True):
        ElementTree.fromstring(plot)
        assert {*re.findall(r"url\(#([^)]*)\)", plot), *re.findall(r'href="#([^"]*)"', plot)} <= known
        assert "<style" not in plot
        assert "<b>" not in plot
