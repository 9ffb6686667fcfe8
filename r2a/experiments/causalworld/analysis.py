"""From the sweep's result files to Table 2 and its figure (Sec. 3.4)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from r2a.experiments.figures import write_figure
from r2a.experiments.statistics import t_interval
from r2a.experiments.sweep import load_results
from r2a.experiments.tables import markdown
from r2a.storage import atomic_write_text

Run = dict[str, Any]
LABELS = {
    "bc": "BC",
    "bc_matched": "BC, as many parameters (control)",
    "ra_bc_random": "RA-BC, random task (control)",
    "ra_bc_single": "RA-BC, single-task",
    "ra_bc_multi": "RA-BC, multi-task",
}
COLOURS = {
    "bc": "#1f77b4",
    "bc_matched": "#17becf",
    "ra_bc_random": "#7f7f7f",
    "ra_bc_single": "#2ca02c",
    "ra_bc_multi": "#d95f02",
}
PAPER = {"bc": 61, "ra_bc_single": 71, "ra_bc_multi": 82}
"""Table 2: per cent of episodes solved, 50K trajectories."""
ALL = "all"
"""In the place of a task's name: the mean over tasks."""


def grouped(runs: list[Run]) -> dict[tuple[str, int], list[Run]]:
    """The runs of every arm and number of demonstrations, in the table's order."""
    groups: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run["arm"], run["demonstrations"]].append(run)
    return dict(sorted(groups.items(), key=lambda item: (item[0][1], list(LABELS).index(item[0][0]))))


def figures_of(run: Run, task: str) -> tuple[float, float]:
    """Share of episodes solved, and of goals covered, on one task or on all."""
    solved, covered = next(iter(run["per_task"].values())), next(iter(run["fraction"].values()))
    names = list(solved) if task == ALL else [task]
    return float(np.mean([solved[name] for name in names])), float(np.mean([covered[name] for name in names]))


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """One record per arm, number of demonstrations and task, and one for all tasks; low and high are of `success`."""
    records = []
    for (arm, demonstrations), members in grouped(runs).items():
        for task in (ALL, *next(iter(members[0]["per_task"].values()))):
            solved, covered = zip(*(figures_of(run, task) for run in members), strict=True)
            about = {"arm": arm, "task": task, "demonstrations": demonstrations, "seeds": len(members)}
            records.append(about | over_seeds(solved, covered))
    return records


def over_seeds(solved: Sequence[float], covered: Sequence[float]) -> dict[str, Any]:
    """Mean success and coverage, and from three seeds on the interval of success, a share: it never leaves [0, 1]."""
    mean, low, high = t_interval(solved)
    several = len(solved) > 2  # two seeds that happen to be alike would seem certain
    return {
        "success": round(mean, 4),
        "fractional": round(float(np.mean(covered)), 4),
        "low": round(max(low, 0.0), 4) if several else None,
        "high": round(min(high, 1.0), 4) if several else None,
    }


def table(records: list[dict[str, Any]]) -> str:
    """Table 2 beside the paper's figures, then every task with the most demonstrations, in Markdown."""
    sizes = sorted({record["demonstrations"] for record in records})
    place = {(r["arm"], r["demonstrations"], r["task"]): r for r in records}
    arms = [arm for arm in LABELS if any(record["arm"] == arm for record in records)]
    head = ["agent", *(f"{size:,} demonstrations" for size in sizes), "paper", "seeds"]
    lines = [head]
    for arm in arms:
        own = [place.get((arm, size, ALL)) for size in sizes]
        seeds = ", ".join(str(record["seeds"]) if record else "-" for record in own)
        lines.append([LABELS[arm], *map(described, own), f"{PAPER[arm]} %" if arm in PAPER else "-", seeds])
    tasks = [task for task in dict.fromkeys(record["task"] for record in records) if task != ALL]
    text = markdown(lines)
    if not tasks:
        return text
    lines = [["solved (covered)", *(LABELS[arm] for arm in arms)]]
    for task in tasks:
        own = [place.get((arm, sizes[-1], task)) for arm in arms]
        cells = [f"{100 * r['success']:.0f} % ({100 * r['fractional']:.0f})" if r else "not run" for r in own]
        lines.append([task, *cells])
    return text + "\n" + markdown(lines)


def far_table(runs: list[Run]) -> str:
    """Success on goals outside the training range, reading the training data or data that have such goals."""
    lines = [["far goals, solved", "reads the training data", "reads data with far goals", "seeds"]]
    for arm, label in LABELS.items():
        members = [run["far_goals"] for run in runs if run["arm"] == arm and "far_goals" in run]
        if members:
            cells = []
            for name in ("training_data", "far_data"):
                own = [found[name] for found in members if name in found]
                figures = [[found[figure] for found in own] for figure in ("success", "fractional")]
                cells.append(described(over_seeds(*figures)) if own else "reads nothing")
            lines.append([label, *cells, str(len(members))])
    return markdown(lines) if len(lines) > 1 else ""


def reading_table(runs: list[Run]) -> str:
    """Of what RA-BC multi-task reads on each task: the share that is its own, and whose episodes have the largest."""
    sizes = sorted({run["demonstrations"] for run in runs if run["arm"] == "ra_bc_multi"})
    lines = [["read on, own share; most from", *(f"{size:,} demonstrations" for size in sizes)]]
    members = [[r for r in runs if (r["arm"], r["demonstrations"]) == ("ra_bc_multi", size)] for size in sizes]
    tasks = list(next(iter(members[0][0]["per_task"].values()))) if sizes else []
    for place, task in enumerate(tasks):
        cells = []
        for own in members:
            share = np.mean([run["weight"] for run in own], axis=0)[place]
            cells.append(f"{100 * share[place]:.0f} %; {tasks[int(share.argmax())]} {100 * share.max():.0f} %")
        lines.append([task, *cells])
    return markdown(lines) if sizes else ""


def described(record: dict[str, Any] | None) -> str:
    """A record's success with its interval, and how much of the goals was covered."""
    if record is None:
        return "not run"
    text = f"{100 * record['success']:.0f} %"
    if record["low"] is not None:
        text += f" ({100 * record['low']:.0f} to {100 * record['high']:.0f})"
    return f"{text}; {100 * record['fractional']:.0f} % covered"


def plot_by_demonstrations(runs: list[Run], path: Path) -> None:
    """Success, and how much of the goals was covered, against demonstrations; bars from lowest to highest seed."""
    groups = grouped(runs)
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), squeeze=False)
    for number, (panel, title) in enumerate(zip(panels[0], ("episodes solved, %", "goals covered, %"), strict=True)):
        for place, (arm, label) in enumerate(LABELS.items()):
            sizes = sorted(size for name, size in groups if name == arm)
            if not sizes:
                continue
            values = [[100 * figures_of(run, ALL)[number] for run in groups[arm, size]] for size in sizes]
            low, middle, high = (np.array([of(own) for own in values]) for of in (np.min, np.mean, np.max))
            beside = np.array(sizes) * 1.07 ** (place - 2)  # bars that do not hide each other
            bars, colour = np.stack([middle - low, high - middle]), COLOURS[arm]
            panel.errorbar(beside, middle, bars, color=colour, label=label, linewidth=1.6, marker=".", capsize=3)
        panel.set_xscale("log")
        panel.set_xlabel("demonstrations per task", fontsize=9)
        panel.set_ylabel(title, fontsize=9)
        panel.set_ylim(0, 100)
        ticks = sorted({size for _, size in groups})
        panel.set_xticks(ticks, [f"{size:,}" for size in ticks])
        panel.minorticks_off()
    write_figure(figure, path, 0.55)


def analyse(results: Path, scale: str) -> str:
    """Write summary, table and figure of all finished runs of a scale; returns the table."""
    runs = load_results(results, scale)
    records = summarise(runs)
    folder = results if scale == "laptop" else results / scale
    atomic_write_text(folder / "summary.json", json.dumps(records, indent=1) + "\n")
    tables = "\n".join(part for part in (table(records), reading_table(runs), far_table(runs)) if part)
    atomic_write_text(folder / "table.md", tables)
    if runs:
        plot_by_demonstrations(runs, folder / "success_by_demonstrations.png")
    return tables
