"""Learning curves: the mean over seeds and the range from the lowest to the highest seed."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from r2a.storage import atomic_write_bytes

Metrics = Sequence[Mapping[str, Any]]
X = Literal["step", "time/train_seconds"]
X_LABELS: dict[X, str] = {"step": "learner steps", "time/train_seconds": "seconds of training"}

# Sources of data keep their colour everywhere; none of them is the colour of a block on the board.
SOURCE_COLOURS = {"right": "#0f766e", "wrong": "#b45309", "random": "#6b7280", "all_tasks": "#6d28d9"}
SOURCE_NAMES = {"right": "the right task", "wrong": "a wrong task", "random": "a random task", "all_tasks": "all tasks"}
COLOURS = ("#0f766e", "#b45309", "#6d28d9", "#0369a1", "#be185d", "#4d7c0f", "#6b7280", "#111827")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#374151",
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
    "grid.color": "#e5e7eb",
    "svg.fonttype": "none",  # text stays text, in the fonts of the page
    "svg.hashsalt": "r2a",  # the same curves give the same file
}


class Curve(NamedTuple):
    """One line of a plot: the metrics of each seed's run, and which of their values is drawn."""

    runs: Sequence[Metrics]
    metric: str = "eval/right"
    colour: str | None = None


Curves = Mapping[str, Curve]


class Points(NamedTuple):
    """What a curve is drawn from: one entry per step that all seeds have."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curves_of_sources(runs: Sequence[Metrics], reads: bool = True) -> dict[str, Curve]:
    """The score of one agent reading the right, a wrong and a random task's data, where it was measured."""
    seen = {name for run in runs for line in run for name in line}
    return {
        f"reading {SOURCE_NAMES[source]}" if reads else "without retrieval": Curve(runs, f"eval/{source}", colour)
        for source, colour in SOURCE_COLOURS.items()
        if f"eval/{source}" in seen
    }


def points_of(curve: Curve, x: X) -> Points:
    """Mean, lowest and highest seed at every step at which all seeds have the metric; x is the mean over seeds."""
    tables = [
        {line["step"]: (line[x], line[curve.metric]) for line in run if curve.metric in line and x in line}
        for run in curve.runs
    ]
    steps = sorted(set.intersection(*(set(table) for table in tables))) if tables else []
    values = np.array([[table[step] for step in steps] for table in tables], float).reshape(len(tables), len(steps), 2)
    if not steps:
        return Points(*(np.zeros(0) for _ in Points._fields))
    return Points(values[..., 0].mean(0), values[..., 1].mean(0), values[..., 1].min(0), values[..., 1].max(0))


def curves_figure(
    curves: Curves,
    *,
    x: X = "step",
    expert: float | None = None,
    floor: float | None = None,
    steps: str = X_LABELS["step"],
    score: str = "return per episode",
    size: tuple[float, float] = (6.0, 4.0),
) -> Figure:
    """Curves, with expert and floor as dashed lines; `steps` and `score` name the axes.

    The legend is below the axes, where it never covers a curve.
    """
    levels = ((expert, "scripted expert", "#111827"), (floor, "best constant action", "#9ca3af"))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for (label, curve), default in zip(curves.items(), np.resize(COLOURS, len(curves)), strict=True):
            points, colour = points_of(curve, x), curve.colour or str(default)
            marker = "o" if len(points.x) < 2 else None  # a line needs two points to be seen
            axes.plot(points.x, points.mean, color=colour, label=label, linewidth=2, marker=marker)
            axes.fill_between(points.x, points.low, points.high, color=colour, alpha=0.18, linewidth=0)
        for level, name, colour in levels:
            if level is not None:
                axes.axhline(level, color=colour, linestyle=(0, (5, 3)), linewidth=1.2, label=name)
        axes.set_xlabel(steps if x == "step" else X_LABELS[x])
        seeds = {len(curve.runs) for curve in curves.values()}
        several = "-".join(map(str, sorted({min(seeds), max(seeds)}))) if max(seeds, default=1) > 1 else ""
        axes.set_ylabel(score + (f"\n(mean and range of {several} seeds)" if several else ""))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(EngFormatter(sep="") if x == "step" else "{x:g}")
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            widest = 0.5 + 0.07 * max(map(len, labels))  # inches, at this font size
            columns = max(1, min(3, int(size[0] / widest)))
            figure.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False, fontsize=9)
        return figure


def plot_curves(curves: Curves, path: str | Path, *, x: X = "step", **options: Any) -> None:
    """Write the plot to `path`; its ending says the format (png, svg, pdf)."""
    atomic_write_bytes(path, _saved(curves_figure(curves, x=x, **options), Path(path).suffix.lstrip(".") or "png"))


def learning_curves(curves: Curves, *, x: X = "step", **options: Any) -> str:
    """The plot as an SVG element to stand inside a web page."""
    svg = _saved(curves_figure(curves, x=x, **options), "svg").decode()
    svg = svg[svg.index("<svg") :]
    # Inside a page the style sheet decides the size, and ids of two plots must not meet.
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    prefix = "steps-" if x == "step" else "seconds-"
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)  # it would style the page
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", svg)


def _saved(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # No date and no address in the file: the same curves give the same bytes.
    empty = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "pdf": {"CreationDate": None}}
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=150, metadata=empty.get(kind))
    return buffer.getvalue()
