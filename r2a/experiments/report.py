"""From the result files of an experiment to summary.json, table.md and figures: one style for all."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from r2a.errors import UserError
from r2a.experiments.harness import Experiment, Result, read_result
from r2a.experiments.statistics import interval, iqm_interval
from r2a.storage import atomic_write_bytes, atomic_write_text

Record = dict[str, Any]
Groups = dict[tuple[tuple[Any, ...], str], list[Result]]
"""The runs that differ in their seeds alone, by their places on the axes and their arms."""
ALL = "all"
"""In the place of a task's or a game's name: the mean over all of them."""
COLOURS = ("#d95f02", "#1f77b4", "#2ca02c", "#9467bd", "#7f7f7f", "#17becf")
"""Of the arms, in their order."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#374151",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e5e7eb",
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
}


def analyse(experiment: Experiment, results: Path, scale: str) -> str:
    """Write summary.json, table.md and the figures of all finished runs of a scale; returns the tables."""
    experiment.scale(scale)  # refused if there is none
    runs = load_results(experiment, results, scale)
    groups = grouped(experiment, runs)
    records = [*summarise(experiment, groups), *over_games(experiment, groups)]
    folder = results if scale == "laptop" else results / scale
    atomic_write_text(folder / "summary.json", json.dumps(records, indent=1) + "\n")
    parts = [table(experiment, records, scale), games_table(experiment, records), task_table(experiment, groups)]
    if runs:
        with matplotlib.rc_context(STYLE):
            parts += [extra(runs, folder) for extra in experiment.extras]
            for x in experiment.curves:
                plot = plot_by_axis if x in experiment.axes else plot_curves
                save(plot(experiment, groups, records, x), folder / f"{experiment.score}_by_{x}.png")
    text = "\n".join(part for part in parts if part)
    atomic_write_text(folder / "table.md", text)
    return text


def load_results(experiment: Experiment, results: Path, scale: str) -> list[Result]:
    """The results of all finished runs of a scale."""
    files = sorted((results / scale / "runs").glob("*.json"))
    runs = [read_result(file) for file in files]
    for file, run in zip(files, runs, strict=True):
        if run["arm"] not in experiment.arms or not experiment.axes.keys() <= run.keys():
            raise UserError(f"{file} is no result of {experiment.name}; move it away.")
    return runs


def grouped(experiment: Experiment, runs: Sequence[Result]) -> Groups:
    """The runs of every place on the axes and every arm, in the tables' order."""
    order = list(experiment.arms)
    groups: Groups = {}
    for run in runs:
        groups.setdefault((tuple(run[axis] for axis in experiment.axes), run["arm"]), []).append(run)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))))


def tasks_of(run: Result) -> list[str]:
    """The tasks that a run learnt."""
    return list(next(iter(run["per_task"].values())))


def score_of(run: Result, task: str = ALL, source: str = "") -> float:
    """A run's score at its end, on one task or all, as evaluated first or reading from a source."""
    source = source or next(iter(run["final"]))
    return run["final"][source] if task == ALL else run["per_task"][source][task]


def summarise(experiment: Experiment, groups: Groups) -> list[Record]:
    """One record for every group, evaluation that is reported, and task if tasks are."""
    records, digits = [], 4 if in_percent(experiment) else 3
    for (values, arm), runs in groups.items():
        first = runs[0]
        names = (ALL, *tasks_of(first)) if experiment.by_task else (ALL,)
        for (read, source), task in product((experiment.arms[arm].sources or {"": ""}).items(), names):
            record = {"arm": arm, "scale": first["scale"], **dict(zip(experiment.axes, values, strict=True))}
            record |= ({"retrieval": read} if read else {}) | ({"task": task} if experiment.by_task else {})
            found = interval([score_of(run, task, source) for run in runs], experiment.bounds)
            record |= {"seeds": len(runs), **rounded(found._asdict(), digits), **experiment.also(runs, task)}
            if task == ALL:
                record |= {name: first[name] for name in ("learner_steps", "env_steps") if name in first}
                record["wall_seconds"] = round(float(np.mean([run["wall_seconds"] for run in runs])), 1)
                record["parameters"] = first["parameters"]
            records.append(record)
    return records


def over_games(experiment: Experiment, groups: Groups) -> list[Record]:
    """One record per arm over all games that every arm has been run on, in parts of one arm's mean score."""
    places, done = sorted({place for place, _ in groups}), {arm for _, arm in groups}
    arms = [arm for arm in experiment.arms if arm in done]
    if experiment.unit not in arms:
        return []
    shared = [place for place in places if all((place, arm) in groups for arm in arms)]
    units = {place: float(np.mean([score_of(run) for run in groups[place, experiment.unit]])) for place in shared}
    shared = [place for place in shared if units[place] > 0]
    records = []
    for arm in arms if len(shared) > 1 else ():
        scores = [[score_of(run) / units[place] for run in groups[place, arm]] for place in shared]
        found, first = rounded(iqm_interval(scores)._asdict(), 3), groups[shared[0], arm][0]
        about = {"arm": arm, "scale": first["scale"], **dict.fromkeys(experiment.axes, ALL)}
        seeds = {"seeds": min(map(len, scores)), "env_steps": first.get("env_steps")}
        records.append({**about, **seeds, **found, "iqm": found["mean"]})
    return records


def rounded(values: Mapping[str, float | None], digits: int) -> dict[str, float | None]:
    """Numbers with so many digits, None where there is none."""
    return {name: None if value is None else round(value, digits) for name, value in values.items()}


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: its head first, then its rows."""
    head, *rows = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)) + "\n"


def in_percent(experiment: Experiment) -> bool:
    """Whether scores are shares, which are shown in per cent."""
    return experiment.bounds == (0.0, 1.0)


def shown(value: float | None, percent: bool, digits: int = 1) -> str:
    """A score in a table."""
    return "-" if value is None else f"{100 * value:.{digits}f} %" if percent else f"{value:.{digits}f}"


def shown_interval(record: Record, percent: bool, digits: int = 1) -> str:
    """The ends of a record's interval in a table."""
    low, high = (shown(record.get(end), percent, digits) for end in ("low", "high"))
    return low if low == "-" else f"{low.removesuffix(' %')} to {high}"


def table(experiment: Experiment, records: Sequence[Record], scale: str) -> str:
    """A row for every record that is of all tasks and one place, beside the paper's score."""
    percent, axes = in_percent(experiment), experiment.axes
    reads = any(arm.sources for arm in experiment.arms.values())
    papers = any(arm.paper for arm in experiment.arms.values())
    head = [*(axis.title for axis in axes.values()), "agent", *(["reads"] if reads else []), experiment.score]
    lines = [[*head, "95 % interval", *experiment.columns.values(), *(["paper"] if papers else []), "seeds", "min"]]
    for record in records:
        if record.get("task", ALL) != ALL or ALL in (record[axis] for axis in axes):
            continue
        line = [*(axes[axis].name(record[axis]) for axis in axes), experiment.arms[record["arm"]].label]
        line += [record["retrieval"]] if reads else []
        line += [shown(record["mean"], percent), shown_interval(record, percent)]
        line += [shown(record[column], percent) for column in experiment.columns]
        line += [shown(paper_of(experiment, record, scale), percent, 0)] if papers else []
        lines.append([*line, str(record["seeds"]), f"{record['wall_seconds'] / 60:.1f}"])
    return markdown(lines)


def paper_of(experiment: Experiment, record: Record, scale: str) -> float | None:
    """The paper's score in a record's place: its scores belong to the last values of the first axis."""
    axis, scores = next(iter(experiment.axes)), experiment.arms[record["arm"]].paper
    values = sorted(experiment.scale(scale).axes[axis])
    before_last = len(values) - values.index(record[axis]) if record[axis] in values else len(scores) + 1
    return scores[-before_last] if before_last <= len(scores) else None


def games_table(experiment: Experiment, records: Sequence[Record]) -> str:
    """All games together."""
    found = [record for record in records if ALL in (record[axis] for axis in experiment.axes)]
    if not found:
        return ""
    unit = f"all games, in parts of {experiment.arms[experiment.unit].label}'s mean"
    lines = [[unit, "IQM", "95 % interval", "seeds"]]
    for record in found:
        scores = [shown(record["iqm"], False, 2), shown_interval(record, False, 2)]
        lines.append([experiment.arms[record["arm"]].label, *scores, str(record["seeds"])])
    return markdown(lines)


def task_table(experiment: Experiment, groups: Groups) -> str:
    """Every task at the last place on the axes, and how much of goals was covered: means over seeds."""
    if not (experiment.by_task and groups):
        return ""
    last = max(place for place, _ in groups)
    arms = [arm for arm in experiment.arms if (last, arm) in groups]
    first = groups[last, arms[0]][0]
    covers = " (covered)" if "fraction" in first else ""
    place = ", ".join(axis.name(value) for axis, value in zip(experiment.axes.values(), last, strict=True))
    lines = [[f"{experiment.score}{covers} at {place}", *(experiment.arms[arm].short for arm in arms)]]
    for task, label in experiment.task_names(tasks_of(first)).items():
        cells = []
        for runs in (groups[last, arm] for arm in arms):
            cell = f"{100 * np.mean([score_of(run, task) for run in runs]):.0f} %"
            covered = [next(iter(run["fraction"].values()))[task] for run in runs if covers]
            cells.append(cell + (f" ({100 * np.mean(covered):.0f})" if covers else ""))
        lines.append([label, *cells])
    return markdown(lines)


def arms_of(experiment: Experiment) -> list[tuple[str, str, str]]:
    """Every arm with its label and colour."""
    coloured = zip(experiment.arms.items(), cycle(COLOURS), strict=False)
    return [(name, arm.label, colour) for (name, arm), colour in coloured]


def plot_curves(experiment: Experiment, groups: Groups, records: Sequence[Record], x: str) -> Figure:
    """The score against steps or seconds, a panel for every place on the axes: means over seeds and their intervals."""
    axes, first = list(experiment.axes), next(iter(groups.values()))[0]
    values = [sorted({place[i] for place, _ in groups}) for i in range(len(axes))]
    places = [tuple(reversed(place)) for place in product(*reversed(values))]  # the first axis runs along a row
    columns = len(values[0]) if len(axes) > 1 else min(len(places), 4)
    rows = -(-len(places) // columns)
    width = {1: 6.0, 2: 4.6}.get(columns, 3.6)
    figure = Figure(figsize=(columns * width, 0.9 + 2.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=experiment.bounds[1] is not None)
    for panel, place in zip(panels.flat, places, strict=False):
        names = zip(experiment.axes.values(), place, strict=True)
        panel.set_title(", ".join(axis.panel.format(axis.name(value)) for axis, value in names))
        draw_curves(panel, experiment, {arm: runs for (at, arm), runs in groups.items() if at == place}, x)
        own = [record for record in records if tuple(record[axis] for axis in axes) == place]
        for (key, label), style in zip(experiment.references.items() if own else (), ("--", ":"), strict=False):
            panel.axhline(own[0][key], color="#111827", linestyle=style, linewidth=1, label=label)
        panel.set_ylim(bottom=experiment.bounds[0])
    for panel in panels.flat[len(places) :]:
        panel.set_axis_off()
    kind = "learner steps" if "learner_steps" in first else "steps of the environment"
    for panel in panels[-1]:
        panel.set_xlabel(kind if x == "steps" else "seconds of training, one core")
    for panel in panels[:, 0]:
        panel.set_ylabel(score_label(experiment))
    return figure


def draw_curves(panel: Axes, experiment: Experiment, members: Mapping[str, Sequence[Result]], x: str) -> None:
    """The curves of every arm in one panel: of what it reads as trained, and dotted of what it reads second."""
    factor, seen = 100 if in_percent(experiment) else 1, [0.0]
    for arm, label, colour in arms_of(experiment):
        curves = [run["curve"] for run in members.get(arm, ())]
        sources = list(experiment.arms[arm].sources.items())[:2] or [("", "")]
        for (read, source), style in zip(sources if curves else (), ("-", ":"), strict=False):
            first = curves[0]
            column = f"eval/{source}" if source else next(c for c in first if c == "score" or c.startswith("eval/"))
            along = "step" if x == "steps" else "seconds" if "seconds" in first else "time/train_seconds"
            length = min(len(curve["step"]) for curve in curves)
            xs = np.mean([curve[along][:length] for curve in curves], axis=0)
            scores = np.array([curve[column][:length] for curve in curves])
            found = [interval(list(score), experiment.bounds) for score in scores.T]
            name = label if style == "-" else f"{label}, {read} data"
            mark = "." if length == 1 else None  # a line needs two points to be seen
            mean, low, high = (factor * np.array(end, float) for end in zip(*found, strict=True))  # NaN: no interval
            panel.plot(xs, mean, style, color=colour, label=name, linewidth=1.8, marker=mark)
            panel.fill_between(xs, low, high, color=colour, alpha=0.11, linewidth=0)
            seen += [factor * float(scores.min()), factor * float(scores.max())]
    if experiment.bounds[1] is None:  # an interval over few seeds may reach far beyond all of them
        panel.set_ylim(min(seen), max(seen) * 1.05 or 1.0)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))


def plot_by_axis(experiment: Experiment, groups: Groups, records: Sequence[Record], x: str) -> Figure:
    """The score, and a panel for every other column of the table, against an axis of numbers: means and intervals."""
    columns = {"mean": score_label(experiment), **{key: f"{name}, %" for key, name in experiment.columns.items()}}
    figure = Figure(figsize=(0.6 + 4.4 * len(columns), 4.2), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
    ticks = sorted({record[x] for record in records})
    for panel, (key, title) in zip(panels, columns.items(), strict=True):
        for place, (arm, label, colour) in enumerate(arms_of(experiment)):
            own = [record for record in records if record["arm"] == arm and record.get("task", ALL) == ALL]
            beside = [record[x] * 1.06 ** (place - 2) for record in own]  # bars that do not hide each other
            ends = ("low", "high") if key == "mean" else (f"{key}_low", f"{key}_high")
            mean, low, high = (100 * np.array([record[name] for record in own], float) for name in (key, *ends))
            bars = np.nan_to_num([mean - low, high - mean])
            if own:
                panel.errorbar(beside, mean, bars, color=colour, label=label, linewidth=1.6, marker=".", capsize=3)
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel(experiment.axes[x].panel.format("").strip())
        panel.set_ylabel(title)
        panel.set_ylim(0, 100)
    return figure


def score_label(experiment: Experiment) -> str:
    """What an axis with scores is called."""
    return f"{experiment.score}{', %' if in_percent(experiment) else ''}\n(mean and 95 % interval)"


def save(figure: Figure, path: Path) -> None:
    """Write a figure, with one legend of all its panels' lines below them."""
    lines: dict[str, Any] = {}
    for panel in figure.axes:
        lines |= {label: handle for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    if lines:
        columns = max(1, min(len(lines), int(figure.get_figwidth() / (0.6 + 0.075 * max(map(len, lines))))))
        figure.legend(
            lines.values(), lines.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    atomic_write_bytes(path, buffer.getvalue())
