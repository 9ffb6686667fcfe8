"""From the sweep's result files to summary.json, a table and the figures."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from r2a.environments.gridroboman.expert import ceilings_and_floors
from r2a.experiments.figures import write_figure
from r2a.experiments.gridroboman.sweep import ARM_ORDER
from r2a.experiments.statistics import t_interval
from r2a.experiments.sweep import load_results
from r2a.experiments.tables import markdown
from r2a.storage import atomic_write_text

LABELS = {
    "ra_dqn": "RA-DQN",
    "dqn": "DQN",
    "dqn_matched": "DQN, same size",
    "ra_dqn_random": "RA-DQN, random data",
}
COLOURS = {"ra_dqn": "#d95f02", "dqn": "#1f77b4", "dqn_matched": "#17becf", "ra_dqn_random": "#7f7f7f"}
INPUTS = {"none": "task not told", "one_hot": "task told"}


def retrievals_to_report(arm: str) -> tuple[tuple[str, str], ...]:
    """(name in the summary, source evaluated) of an arm's records."""
    if arm == "ra_dqn":
        return (("right", "right"), ("wrong", "wrong"), ("random", "random"))
    return (("random", "random"),) if arm == "ra_dqn_random" else (("none", "right"),)


def summarise(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record per arm, number of tasks, task input and data read from; intervals over seeds."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        groups[run["arm"], run["num_tasks"], run["task_input"]].append(run)
    bounds = {
        n: tuple(float(values.mean()) for values in ceilings_and_floors(n, jax.random.key(1)))
        for n in sorted({run["num_tasks"] for run in runs})
    }
    records = []
    for (arm, num_tasks, task_input), members in sorted(groups.items()):
        for name, source in retrievals_to_report(arm):
            interval = t_interval([run["final"][source] for run in members])
            records.append(
                {
                    "arm": arm,
                    "num_tasks": num_tasks,
                    "task_input": task_input,
                    "retrieval": name,
                    "seeds": len(members),
                    "learner_steps": members[0]["learner_steps"],
                    "wall_seconds": round(float(np.mean([run["wall_seconds"] for run in members])), 1),
                    "mean": round(interval.mean, 3),
                    # One seed has no interval.
                    "low": round(interval.low, 3) if len(members) > 1 else None,
                    "high": round(interval.high, 3) if len(members) > 1 else None,
                    "expert": round(bounds[num_tasks][0], 3),
                    "floor": round(bounds[num_tasks][1], 3),
                    "parameters": members[0]["parameters"],
                }
            )
    return records


def table(records: list[dict[str, Any]]) -> str:
    """The records as a Markdown table that fits a terminal."""
    lines = [["tasks", "told", "agent", "reads", "return", "95 % interval", "seeds", "min"]]
    for r in sorted(records, key=lambda r: (r["num_tasks"], r["task_input"], ARM_ORDER.index(r["arm"]))):
        told = "no" if r["task_input"] == "none" else "yes"
        interval = "one seed" if r["low"] is None else f"{r['low']:.1f} to {r['high']:.1f}"
        figures = [f"{r['mean']:.1f}", interval, str(r["seeds"]), f"{r['wall_seconds'] / 60:.1f}"]
        lines.append([str(r["num_tasks"]), told, LABELS[r["arm"]], r["retrieval"], *figures])
    return markdown(lines)


def plot(runs: list[dict[str, Any]], records: list[dict[str, Any]], x: str, path: Path) -> None:
    """Return against learner steps or seconds: a column per number of tasks, a row per task input."""
    counts = sorted({run["num_tasks"] for run in runs})
    inputs = sorted({run["task_input"] for run in runs}, key=list(INPUTS).index)
    figure, axes = plt.subplots(
        len(inputs), len(counts), figsize=(max(9.0, 4.2 * len(counts)), 0.7 + 3.2 * len(inputs)), squeeze=False
    )
    for row, task_input in zip(axes, inputs, strict=True):
        for panel, count in zip(row, counts, strict=True):
            members = [run for run in runs if (run["num_tasks"], run["task_input"]) == (count, task_input)]
            if not members:
                panel.set_axis_off()
                panel.text(0.5, 0.5, f"{count} tasks, {INPUTS[task_input]}:\nnot run yet", ha="center", va="center")
                continue
            draw_panel(panel, members, x)
            bounds = next(r for r in records if r["num_tasks"] == count)
            panel.axhline(bounds["expert"], color="black", linestyle="--", linewidth=1)
            panel.axhline(bounds["floor"], color="black", linestyle=":", linewidth=1)
            panel.set_title(f"{count} tasks, {INPUTS[task_input]}", fontsize=10)
            panel.set_xlabel("learner steps" if x == "step" else "training seconds (one core)", fontsize=9)
            panel.set_ylim(0, 50)
    axes[0][0].set_ylabel("return per episode", fontsize=9)
    write_figure(figure, path, 0.5)


def draw_panel(panel: Any, runs: list[dict[str, Any]], x: str) -> None:
    """Curves of every arm: mean over seeds, shaded from the lowest to the highest seed."""
    for arm in ARM_ORDER:
        members = [run["curve"] for run in runs if run["arm"] == arm]
        if not members:
            continue
        shown = [("eval/random", "-")] if arm == "ra_dqn_random" else [("eval/right", "-")]
        if arm == "ra_dqn":
            shown.append(("eval/wrong", ":"))
        length = min(len(curve["step"]) for curve in members)
        xs = np.mean([curve[x][:length] for curve in members], axis=0)
        for column, style in shown:
            ys = np.array([curve[column][:length] for curve in members])
            label = LABELS[arm] + (", wrong data" if style == ":" else "")
            panel.plot(xs, ys.mean(0), style, color=COLOURS[arm], label=label, linewidth=1.6)
            panel.fill_between(xs, ys.min(0), ys.max(0), color=COLOURS[arm], alpha=0.15, linewidth=0)


def analyse(results: Path, scale: str) -> str:
    """Write summary.json, table.md and the figures of all finished runs of a scale; returns the table."""
    runs = load_results(results, scale)
    records = summarise(runs)
    folder = results if scale == "laptop" else results / scale
    atomic_write_text(folder / "summary.json", json.dumps(records, indent=1) + "\n")
    atomic_write_text(folder / "table.md", table(records))
    if runs:
        plot(runs, records, "step", folder / "return_by_steps.png")
        plot(runs, records, "time/train_seconds", folder / "return_by_seconds.png")
    return table(records)
