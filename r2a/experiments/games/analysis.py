"""From the sweep's result files to summary.json, a table and the curves."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from r2a.experiments.figures import write_figure
from r2a.experiments.statistics import interquartile_mean, iqm_interval, t_interval
from r2a.experiments.sweep import load_results
from r2a.experiments.tables import markdown
from r2a.storage import atomic_write_text

Run = dict[str, Any]
LABELS = {
    "r2d2": "R2D2",
    "r2d2_auxiliary": "R2D2, auxiliary losses (control)",
    "ra_r2d2_slots_only": "RA-R2D2, slots only (A-2)",
    "ra_r2d2": "RA-R2D2",
}
COLOURS = {"r2d2": "#1f77b4", "r2d2_auxiliary": "#17becf", "ra_r2d2_slots_only": "#7f7f7f", "ra_r2d2": "#d95f02"}
ALL = "all"
"""Game of the records over all games: scores in parts of R2D2's mean score of the game."""


def grouped(runs: list[Run]) -> dict[tuple[str, str], list[Run]]:
    """The runs of every game and arm, in the table's order."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run["game"], run["arm"]].append(run)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], list(LABELS).index(item[0][1]))))


def score(run: Run) -> float:
    """Mean score of the games that were played at the run's end."""
    return run["final"]["score"]


def while_learning(runs: list[Run]) -> float | None:
    """Mean score in the last quarter of learning: of many parameters in turn, where `score` is of the last.

    None, if no game came to its end.
    """
    quarters = [scores[-max(1, len(scores) // 4) :] for scores in (run["training"]["score"] for run in runs) if scores]
    return round(float(np.mean([np.mean(quarter) for quarter in quarters])), 3) if quarters else None


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """One record per arm and game, and one per arm over all games that every arm has been run on."""
    groups = grouped(runs)
    records = []
    for (game, arm), members in groups.items():
        interval = t_interval([score(run) for run in members])
        records.append(
            {
                "arm": arm,
                "game": game,
                "seeds": len(members),
                "env_steps": members[0]["env_steps"],
                "mean": round(interval.mean, 3),
                # One seed has no interval.
                "low": round(interval.low, 3) if len(members) > 1 else None,
                "high": round(interval.high, 3) if len(members) > 1 else None,
                "iqm": round(interquartile_mean([score(run) for run in members]), 3),
                "while_learning": while_learning(members),
                "wall_seconds": round(float(np.mean([run["wall_seconds"] for run in members])), 1),
                "parameters": members[0]["parameters"],
            }
        )
    arms = {arm for _, arm in groups}
    games = [game for game in sorted({game for game, _ in groups}) if all((game, arm) in groups for arm in arms)]
    units = {
        game: float(np.mean([score(run) for run in groups[game, "r2d2"]])) for game in games if (game, "r2d2") in groups
    }
    games = [game for game in games if units.get(game, 0.0) > 0.0]
    for arm in LABELS:
        if arm in arms and len(games) > 1:
            tables = [[score(run) / units[game] for run in groups[game, arm]] for game in games]
            mean, low, high = iqm_interval(tables)
            seeds = min(len(table) for table in tables)
            steps = groups[games[0], arm][0]["env_steps"]
            figures = {"mean": round(mean, 3), "low": None, "high": None, "iqm": round(mean, 3)}
            if seeds > 1:  # drawing one run anew shows nothing
                figures |= {"low": round(low, 3), "high": round(high, 3)}
            records.append({"arm": arm, "game": ALL, "seeds": seeds, "env_steps": steps, **figures})
    return records


def table(records: list[dict[str, Any]]) -> str:
    """The records as a Markdown table that fits a terminal."""
    lines = [["game", "agent", "score", "95 % interval", "IQM", "learning", "seeds", "min"]]
    for record in records:
        interval = "one seed" if record["low"] is None else f"{record['low']:.1f} to {record['high']:.1f}"
        learning = "" if record.get("while_learning") is None else f"{record['while_learning']:.1f}"
        values = (f"{record['mean']:.1f}", interval, f"{record['iqm']:.1f}", learning, str(record["seeds"]))
        game, minutes = record["game"], f"{record.get('wall_seconds', 0) / 60:.1f}"
        if game == ALL:
            interval = "one seed" if record["low"] is None else f"{record['low']:.2f} to {record['high']:.2f}"
            values = ("", interval, f"{record['iqm']:.2f}", "", str(record["seeds"]))
            game, minutes = "all, in parts of R2D2's mean", ""
        lines.append([game, LABELS[record["arm"]], *values, minutes])
    return markdown(lines)


def plot(runs: list[Run], path: Path, x: str) -> None:
    """Score against steps or seconds: a panel per game; mean over seeds, and with three or more its 95 % interval."""
    groups = grouped(runs)
    games = sorted({game for game, _ in groups})
    figure, axes = plt.subplots(1, len(games), figsize=(max(6.0, 4.0 * len(games)), 3.6), squeeze=False)
    for panel, game in zip(axes[0], games, strict=True):
        lowest, highest = 0.0, 1.0
        for arm, label in LABELS.items():
            curves = [run["curve"] for run in groups.get((game, arm), [])]
            if not curves:
                continue
            length = min(len(curve["step"]) for curve in curves)
            xs = np.mean([curve[x][:length] for curve in curves], axis=0)
            scores = [[curve["score"][i] for curve in curves] for i in range(length)]
            means, lows, highs = zip(*map(t_interval, scores), strict=True)
            lowest, highest = min(lowest, *map(min, scores)), max(highest, *map(max, scores))
            panel.plot(xs, means, color=COLOURS[arm], label=label, linewidth=1.6)
            if len(curves) > 2:  # two seeds' interval would cover all there is to see
                panel.fill_between(xs, lows, highs, color=COLOURS[arm], alpha=0.15, linewidth=0)
        # An interval over few seeds may reach far beyond all of them.
        panel.set_ylim(lowest, highest + 0.05 * (highest - lowest))
        panel.set_title(game, fontsize=10)
        panel.xaxis.set_major_locator(MaxNLocator(5))  # more labels of six digits would run into each other
        panel.set_xlabel("steps of the environment" if x == "step" else "training seconds (one core)", fontsize=9)
        panel.grid(axis="y", color="#e5e7eb")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("score (mean and 95 % interval)", fontsize=9)
    write_figure(figure, path, 0.35)


def analyse(results: Path, scale: str) -> str:
    """Write summary.json, table.md and the curves of all finished runs of a scale; returns the table."""
    runs = load_results(results, scale)
    records = summarise(runs)
    folder = results if scale == "laptop" else results / scale
    atomic_write_text(folder / "summary.json", json.dumps(records, indent=1) + "\n")
    atomic_write_text(folder / "table.md", table(records))
    if runs:
        plot(runs, folder / "score_by_steps.png", "step")
        plot(runs, folder / "score_by_seconds.png", "seconds")
    return table(records)
