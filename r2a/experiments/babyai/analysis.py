"""From the sweep's result files to Table 1, its figures, and whose data were read (Sec. 3.3)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from r2a.environments.babyai import COMPOSITIONAL
from r2a.experiments.figures import write_figure
from r2a.experiments.statistics import Interval, t_interval
from r2a.experiments.sweep import load_results
from r2a.experiments.tables import markdown
from r2a.storage import atomic_write_text

Run = dict[str, Any]
ORDER = ("rdqn", "rdqn_auxiliary", "ra_rdqn_random", "ra_rdqn_single", "ra_rdqn_multi_no_ib", "ra_rdqn_multi")
LABELS = {
    "rdqn": "RDQN",
    "rdqn_auxiliary": "RDQN, auxiliary losses (control)",
    "ra_rdqn_random": "RA-RDQN, random level (control)",
    "ra_rdqn_single": "RA-RDQN, single-task",
    "ra_rdqn_multi_no_ib": "RA-RDQN, multi-task, without IB",
    "ra_rdqn_multi": "RA-RDQN, multi-task",
}
SHORT = {
    "rdqn": "RDQN",
    "rdqn_auxiliary": "aux.",
    "ra_rdqn_random": "random",
    "ra_rdqn_single": "single",
    "ra_rdqn_multi_no_ib": "no IB",
    "ra_rdqn_multi": "multi",
}
"""The same where there is a column for each."""
COLOURS = {
    "rdqn": "#1f77b4",
    "rdqn_auxiliary": "#17becf",
    "ra_rdqn_random": "#7f7f7f",
    "ra_rdqn_single": "#2ca02c",
    "ra_rdqn_multi_no_ib": "#9467bd",
    "ra_rdqn_multi": "#d95f02",
}
PAPER = {
    "rdqn": (32, 45),
    "ra_rdqn_single": (48, 64),
    "ra_rdqn_multi_no_ib": (47, 59),
    "ra_rdqn_multi": (55, 74),
}
"""Table 1: per cent of missions fulfilled, 50K and 200K trajectories per level, all 40 levels."""
PAPER_OTHER = {"compositional": 54, "other": 21}
"""Sec. 3.3: per cent of retrievals from other levels."""


def success(run: Run) -> float:
    """Share of missions that the run's agent fulfils, reading from what it was trained to read from."""
    return next(iter(run["final"].values()))


def grouped(runs: list[Run]) -> dict[tuple[str, int], list[Run]]:
    """The runs of every arm and size of data, in the table's order."""
    groups: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run["arm"], run["trajectories_per_level"]].append(run)
    return dict(sorted(groups.items(), key=lambda item: (item[0][1], ORDER.index(item[0][0]))))


def bounded(values: list[float]) -> dict[str, float | None]:
    """A mean and, of two seeds or more, its interval, as a record has them."""
    interval = t_interval(values)
    ends = (interval.low, interval.high) if len(values) > 1 else (None, None)
    low, high = (None if end is None else round(end, 4) for end in ends)
    return {"success_mean": round(interval.mean, 4), "low": low, "high": high}


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """One record per arm and size of data."""
    return [
        {
            "arm": arm,
            "scale": members[0]["scale"],
            "trajectories_per_level": size,
            "levels": len(members[0]["config"]["data"]["tasks"]),
            "seeds": len(members),
            **bounded([success(run) for run in members]),
            "learner_steps": members[0]["learner_steps"],
            "wall_seconds": round(float(np.mean([run["wall_seconds"] for run in members])), 1),
            "parameters": members[0]["parameters"],
        }
        for (arm, size), members in grouped(runs).items()
    ]


def table(records: list[dict[str, Any]]) -> str:
    """Table 1 beside the paper's figures, in Markdown."""
    sizes = sorted({record["trajectories_per_level"] for record in records})
    by_place = {(record["arm"], record["trajectories_per_level"]): record for record in records}
    head = ["agent", *(f"{size:,} per level" for size in sizes), "paper: 50K, 200K", "seeds", "min"]
    lines = [head]
    for arm in ORDER:
        own = [by_place.get((arm, size)) for size in sizes]
        found = [record for record in own if record]
        if not found:
            continue
        paper = " and ".join(f"{value} %" for value in PAPER[arm]) if arm in PAPER else "-"
        seeds = ", ".join(str(record["seeds"]) if record else "-" for record in own)
        minutes = np.mean([record["wall_seconds"] for record in found]) / 60
        lines.append([LABELS[arm], *(percent(record) for record in own), paper, seeds, f"{minutes:.1f}"])
    return markdown(lines)


def percent(record: dict[str, Any] | None) -> str:
    """A record's success with its interval."""
    if record is None:
        return "not run"
    text = f"{100 * record['success_mean']:.1f} %"
    return text if record["low"] is None else f"{text} ({100 * record['low']:.1f} to {100 * record['high']:.1f})"


def levels_of(runs: list[Run]) -> list[str]:
    """The levels that were played, those of one behaviour before the compositional ones."""
    names = runs[0]["config"]["data"]["tasks"]
    return sorted(names, key=lambda name: (name in COMPOSITIONAL, names.index(name)))


def level_table(runs: list[Run]) -> str:
    """Success on every level with the most data, in Markdown; compositional levels are marked."""
    groups = grouped(runs)
    size = max(size for _, size in groups)
    arms = [arm for arm in ORDER if (arm, size) in groups]
    lines = [["level", *(SHORT[arm] for arm in arms)]]
    for level in levels_of(runs):
        scores = [[next(iter(run["per_task"].values()))[level] for run in groups[arm, size]] for arm in arms]
        mark = " (c)" if level in COMPOSITIONAL else ""
        lines.append([level + mark, *(f"{100 * float(np.mean(values)):.0f} %" for values in scores)])
    return markdown(lines)


def shares_from_others(runs: list[Run]) -> dict[str, Any]:
    """Of every level: the share of retrieval weight that went to other levels' episodes, with intervals over seeds."""
    names = runs[0]["config"]["data"]["tasks"]
    others = np.array([1.0 - np.diag(np.array(run["weight"])) for run in runs])
    composed = np.array([name in COMPOSITIONAL for name in names])

    def described(values: Any) -> dict[str, float]:
        interval: Interval = t_interval(list(values))
        return {"share": round(interval.mean, 4), "low": round(interval.low, 4), "high": round(interval.high, 4)}

    groups = {"compositional": composed, "other": ~composed}
    return {
        "seeds": len(runs),
        "by_chance": round(1.0 - 1.0 / len(names), 4),
        "groups": {name: described(others[:, members].mean(1)) for name, members in groups.items() if members.any()},
        "levels": {name: described(others[:, i]) for i, name in enumerate(names)},
    }


def retrieval_table(shares: dict[str, Any]) -> str:
    """Whose data the multi-task agent reads, in Markdown."""
    lines = [["levels", "weight on other levels' episodes", "paper"]]
    for group, s in shares["groups"].items():
        text = f"{100 * s['share']:.0f} % ({100 * s['low']:.0f} to {100 * s['high']:.0f})"
        lines.append([group, text, f"{PAPER_OTHER[group]} %"])
    lines.append(["by chance", f"{100 * shares['by_chance']:.0f} %", ""])
    for name, s in shares["levels"].items():
        mark = " (c)" if name in COMPOSITIONAL else ""
        lines.append([name + mark, f"{100 * s['share']:.0f} % ({100 * s['low']:.0f} to {100 * s['high']:.0f})", ""])
    return markdown(lines)


def plot_heat_map(runs: list[Run], path: Path) -> None:
    """Level played x level read from: mean share of retrieval weight over seeds."""
    names, order = runs[0]["config"]["data"]["tasks"], levels_of(runs)
    places = [names.index(name) for name in order]
    weight = np.mean([np.array(run["weight"]) for run in runs], axis=0)[np.ix_(places, places)]
    side = 2.5 + 0.42 * len(order)
    figure, axes = plt.subplots(figsize=(side + 1, side))
    image = axes.imshow(weight, cmap="viridis", vmin=0)
    marked = [name + (" (c)" if name in COMPOSITIONAL else "") for name in order]
    axes.set_xticks(range(len(order)), marked, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(order)), marked, fontsize=8)
    axes.set_xlabel("level read from")
    axes.set_ylabel("level played")
    for i, row in enumerate(weight):
        for j, share in enumerate(row):
            if share >= 0.05:
                colour = "black" if share > 0.6 * weight.max() else "white"
                axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=axes, label="share of retrieval weight", fraction=0.046)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot_curves(runs: list[Run], path: Path) -> None:
    """Success against learner steps: a panel per size of data, shaded from the lowest to the highest seed."""
    groups = grouped(runs)
    sizes = sorted({size for _, size in groups})
    figure, panels = plt.subplots(1, len(sizes), figsize=(5.2 * len(sizes), 4.4), squeeze=False, sharey=True)
    for panel, size in zip(panels[0], sizes, strict=True):
        for arm in ORDER:
            curves = [run["curve"] for run in groups.get((arm, size), [])]
            if not curves:
                continue
            column = next(name for name in curves[0] if name.startswith("eval/"))
            length = min(len(curve["step"]) for curve in curves)
            ys = 100 * np.array([curve[column][:length] for curve in curves])
            steps = curves[0]["step"][:length]
            panel.plot(steps, ys.mean(0), color=COLOURS[arm], label=LABELS[arm], linewidth=1.6, marker=".")
            panel.fill_between(steps, ys.min(0), ys.max(0), color=COLOURS[arm], alpha=0.15, linewidth=0)
        panel.set_title(f"{size:,} trajectories per level", fontsize=10)
        panel.set_xlabel("learner steps", fontsize=9)
        panel.set_ylim(0, 100)
    panels[0][0].set_ylabel("missions fulfilled, %", fontsize=9)
    write_figure(figure, path, 0.55)


def analyse(results: Path, scale: str) -> str:
    """Write summary, tables and figures of all finished runs of a scale; returns the tables."""
    runs = load_results(results, scale)
    records = summarise(runs)
    folder = results if scale == "laptop" else results / scale
    atomic_write_text(folder / "summary.json", json.dumps(records, indent=1) + "\n")
    tables = table(records)
    if runs:
        tables += "\n" + level_table(runs)
        plot_curves(runs, folder / "success_by_steps.png")
    largest = max((size for arm, size in grouped(runs) if arm == "ra_rdqn_multi"), default=None)
    if largest is not None:
        reading = grouped(runs)["ra_rdqn_multi", largest]
        shares = shares_from_others(reading)
        atomic_write_text(folder / "retrieved_from.json", json.dumps(shares, indent=1) + "\n")
        tables += "\n" + retrieval_table(shares)
        plot_heat_map(reading, folder / "retrieved_from.png")
    atomic_write_text(folder / "table.md", tables)
    return tables
