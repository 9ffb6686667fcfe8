"""r2a datasets: list, show, verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.table import Column, Table

from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.data.dataset import HOW_TO_MAKE_ONE, OfflineDataset, find_dataset, list_datasets
from r2a.errors import UserError


@dataclass(frozen=True)
class Datasets:
    """Look at the data sets on this machine.

    Examples:
      r2a datasets list
      r2a datasets show gridroboman-scripted
      r2a datasets verify gridroboman-scripted
    """

    action: tyro.conf.Positional[Literal["list", "show", "verify"]]
    name: tyro.conf.Positional[str] = ""
    """Name under --root, or path, of the data set to show or verify."""
    root: Path = Path("datasets")


def main(argv: Sequence[str]) -> int:
    """Print a table, or one line if all is well."""
    options = parse(Datasets, argv, "datasets")
    if options.action == "list":
        show_all(options.root)
        return 0
    if not options.name:
        command = f"r2a datasets {options.action} NAME"
        raise UserError(f"Which data set? Name one: `{command}`; `r2a datasets list` has them.")
    dataset = find_dataset(options.name, options.root)
    if options.action == "show":
        show(dataset)
    else:
        dataset.verify()
        CONSOLE.print(f"{dataset.path}: all checksums, returns and splits are right.")
    return 0


def show_all(root: Path) -> None:
    """One row per data set; damaged ones too."""
    table = Table("name", "environment", "tasks", "episodes", "mean return", "state")
    for path, d in list_datasets(root).items():
        if isinstance(d, UserError):
            table.add_row(path.name, "", "", "", "", str(d))
        else:
            mean = d.columns["episode_return"].mean()
            table.add_row(d.name, d.environment, str(len(d.task_names)), f"{d.num_episodes:,}", f"{mean:.1f}", "ok")
    if table.row_count:
        CONSOLE.print(table)
    else:
        CONSOLE.print(f"No data sets in {root}; {HOW_TO_MAKE_ONE}.")


def show(dataset: OfflineDataset) -> None:
    """The returns of each task, the columns, and where the data come from."""
    provenance = dataset.manifest["provenance"]
    CONSOLE.print(f"[bold]{dataset.name}[/] {dataset.num_episodes:,} episodes of {dataset.environment}")
    CONSOLE.print(f"made by {provenance.get('method', '?')}, seed {provenance.get('seed', '?')}")
    CONSOLE.print(f"fingerprint {dataset.fingerprint[:16]}")
    table = Table("task", "learning", "retrieval", "mean return", "lowest", "highest")
    for name, task in dataset.manifest["tasks"].items():
        returns = (f"{task[f'return_{kind}']:.1f}" for kind in ("mean", "min", "max"))
        table.add_row(name, f"{task['learning']:,}", f"{task['retrieval']:,}", *returns)
    CONSOLE.print(table)
    columns = Table("column", "type", "shape")
    for name, column in dataset.columns.items():
        columns.add_row(name, str(column.dtype), " x ".join(map(str, column.shape)))
    CONSOLE.print(columns)
    if provenance.get("card"):
        show_card(provenance["card"], provenance.get("note", ""))


CARD: dict[str, tuple[str, Callable[[Any], str]]] = {
    "episodes": ("episodes", "{:,}".format),
    "success_rate": ("success", "{:.0%}".format),  # data of before
    "success": ("success", "{:.0%}".format),
    "fractional_success": ("fraction", "{:.2f}".format),  # data of before
    "fraction": ("fraction", "{:.2f}".format),
    "by_noise": ("by noise", lambda shares: ", ".join(f"{k}: {v:.2f}" for k, v in shares.items())),
    "cut_off": ("cut off", "{:.0%}".format),
    "mean_length": ("length", "{:.1f}".format),
    "mean_return": ("return", "{:.2f}".format),
    "dropped": ("dropped seeds", lambda counts: ", ".join(f"{count} {reason}" for reason, count in counts.items())),
}
"""What collectors note of a task: the column's name, and how it is written."""


def show_card(card: Mapping[str, Mapping[str, Any]], note: str) -> None:
    """What the collector noted of each task."""
    noted = [name for name in CARD if all(name in entry for entry in card.values())]
    table = Table(Column("task", no_wrap=True), *(CARD[name][0] for name in noted))
    for task, entry in card.items():
        table.add_row(task, *(CARD[name][1](entry[name]) for name in noted))
    CONSOLE.print(table)
    CONSOLE.print(note)
