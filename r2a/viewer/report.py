"""The report: one HTML file that needs nothing else and shows what the agent does and what it read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np

from r2a.records import EpisodeRecord
from r2a.storage import PathLike, atomic_write_text
from r2a.viewer.curves import SOURCE_COLOURS, X_LABELS, Curves, learning_curves
from r2a.viewer.episodes import episode_data, swap_data


class TaskReturns(NamedTuple):
    """A row of the table: mean returns per episode; None where nothing was measured.

    `floor` is what the best constant action, the same for all tasks, earns on this one.
    """

    task: str
    right: float
    wrong: float | None = None
    random: float | None = None
    expert: float | None = None
    floor: float | None = None


# field -> column head, words in a sentence, colour
COLUMNS: dict[str, tuple[str, str, str]] = {
    "right": ("right data", "reading the right task's episodes", SOURCE_COLOURS["right"]),
    "wrong": ("wrong data", "reading another task's episodes", SOURCE_COLOURS["wrong"]),
    "random": ("random data", "reading any task's episodes", SOURCE_COLOURS["random"]),
    "expert": ("expert", "scripted expert", "#111827"),
    "floor": ("floor", "best constant action", "#9ca3af"),
}


def write_report(
    path: PathLike,
    *,
    title: str,
    page: Any,
    best: float,
    task_names: Sequence[str],
    table: Sequence[TaskReturns] = (),
    curves: Curves | None = None,
    episodes: Sequence[EpisodeRecord] = (),
    swaps: Sequence[tuple[EpisodeRecord, EpisodeRecord]] = (),
    settings: Mapping[str, Any] | None = None,
    told_task: bool = False,
    note: str = "",
) -> None:
    """Write the report to `path`; what is not given is left out.

    `page` is the world's module that draws boards, `best` the highest return there could be. `task_names` are the names
    of the task numbers in the episodes; `told_task`: the agent's input names its task; `note`: a sentence to stand
    below the explanation, for example how long the agent was trained.
    """
    data = {
        "look": page.look(),
        "tasks": list(task_names),
        "episodes": [episode_data(record, page) for record in episodes],
        "swaps": [swap_data(one, other, page) for one, other in swaps],
    }
    sections = {"swaps": swaps, "episodes": episodes, "table": table, "curves": curves, "settings": settings}
    folder = files("r2a.viewer")
    page_html, style, script = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    text = Template(page_html).substitute(
        title=escape(title),
        style=style,
        script=script,
        data=json_for_html(data),
        lead=lead(table, len(task_names), told_task, page) + (f"<p>{escape(note)}</p>" if note else ""),
        tiles=tiles(table),
        table=table_html(table, best),
        curves=curves_html(curves, means(table)) if curves else "",
        settings=escape(json.dumps(settings or {}, indent=2, default=str)),
        **{f"no_{section}": "" if content else "hidden" for section, content in sections.items()},
    )
    atomic_write_text(path, text)


def means(table: Sequence[TaskReturns]) -> dict[str, float]:
    """The mean over tasks of each column that every task has."""
    columns = {name: [getattr(row, name) for row in table] for name in COLUMNS}
    return {name: float(np.mean(values)) for name, values in columns.items() if values and None not in values}


def lead(table: Sequence[TaskReturns], num_tasks: int, told_task: bool, page: Any) -> str:
    """The explanation in plain words, with the numbers of the table."""
    told = (
        "It is told which task it has to do, and it is given"
        if told_task
        else "It is never told which task it has to do. All it is given besides the board is"
    )
    text = (
        f"<p>{page.STORY.format(tasks=num_tasks)} {told} a data set: recorded episodes in "
        f"which somebody does the task. At every step the network picks moments out of these episodes and reads "
        f"what happened after them. When it has learnt to follow what it reads, exchanging the data set exchanges "
        f"what it does, without a change to the network.</p>"
    )
    mean = means(table)
    if "right" not in mean:
        return text
    read = [f"<b>{mean[name]:.1f}</b> {COLUMNS[name][1]}" for name in SOURCE_COLOURS if name in mean]
    scale = ", ".join(f"{COLUMNS[name][1]}: {mean[name]:.1f}" for name in ("expert", "floor") if name in mean)
    return text + (
        f"<p>{page.REWARD} "
        f"Over {len(table)} tasks the network earns on average {'; '.join(read)}"
        f"{f' ({scale})' if scale else ''}.</p>"
    )


def tiles(table: Sequence[TaskReturns]) -> str:
    """The mean of each column as a big number."""
    return "".join(
        f'<div class="tile" style="--tone:{COLUMNS[name][2]}"><b>{value:.1f}</b><span>{COLUMNS[name][1]}</span></div>'
        for name, value in means(table).items()
    )


def table_html(table: Sequence[TaskReturns], best: float) -> str:
    """One row per task and their mean; columns that nobody measured are left out."""
    names = [name for name in COLUMNS if any(getattr(row, name) is not None for row in table)]
    head = "".join(f'<th scope="col">{COLUMNS[name][0]}</th>' for name in names)
    mean = means(table)
    body = "".join(
        f'<tr><th scope="row">{escape(row.task)}</th>'
        f"{''.join(_cell(name, getattr(row, name), best) for name in names)}</tr>"
        for row in table
    )
    foot = "".join(_cell(name, mean.get(name), best) for name in names)
    return (
        f'<table><thead><tr><th scope="col">task</th>{head}</tr></thead><tbody>{body}</tbody>'
        f'<tfoot><tr><th scope="row">mean</th>{foot}</tr></tfoot></table>'
    )


def _cell(name: str, value: float | None, best: float) -> str:
    if value is None:
        return "<td>&ndash;</td>"
    share = min(max(value / best, 0.0), 1.0)
    return f'<td style="--share:{share:.1%};--tone:{COLUMNS[name][2]}">{value:.1f}</td>'


def curves_html(curves: Curves, mean: Mapping[str, float]) -> str:
    """The curves against learner steps and against seconds, side by side."""
    options = {"expert": mean.get("expert"), "floor": mean.get("floor"), "size": (5.4, 3.9)}
    return "".join(f'<div class="curve">{learning_curves(curves, x=x, **options)}</div>' for x in X_LABELS)


def json_for_html(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
