"""Offline data sets on disk: a manifest, and one memory-mapped file per column.

r2a/data/columns.py says what the columns are, r2a/data/manifest.py what the manifest says of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from r2a.data.columns import (
    COLUMN_TYPES,
    LEARNING,
    RETRIEVAL,
    as_columns,
    assign_splits,
    content_problem,
    describe_tasks,
    layout_problem,
)
from r2a.data.manifest import (
    FORMAT,
    FORMAT_VERSION,
    HOW_TO_MAKE_ONE,
    MANIFEST,
    describe_column,
    fingerprint_of,
    open_column,
    read_manifest,
)
from r2a.errors import UserError
from r2a.storage import PathLike, atomic_folder, sha256_of, storage_errors

__all__ = [
    "COLUMN_TYPES",
    "LEARNING",
    "RETRIEVAL",
    "DatasetWriter",
    "ListedDataset",
    "OfflineDataset",
    "assign_splits",
    "find_dataset",
    "list_datasets",
    "write_dataset",
]


@dataclass(frozen=True)
class OfflineDataset:
    """A data set opened for reading; `columns` are read from disk only where they are indexed."""

    path: Path
    manifest: dict[str, Any]
    columns: dict[str, np.ndarray]

    @classmethod
    def open(cls, path: PathLike) -> OfflineDataset:
        """Open the data set at `path` after checking its structure, without reading the columns."""
        path = Path(path)
        manifest = read_manifest(path)
        columns = {name: open_column(path, name, entry) for name, entry in manifest["columns"].items()}
        problem = layout_problem(columns)
        if problem or len(columns["length"]) != manifest["episodes"]:
            raise UserError(f"{path / MANIFEST} is damaged: {problem or 'the number of episodes is wrong'}.")
        return cls(path, manifest, columns)

    @property
    def name(self) -> str:
        """The name it was written under."""
        return self.manifest["name"]

    @property
    def environment(self) -> str:
        """The environment its episodes come from."""
        return self.manifest["environment"]

    @property
    def task_names(self) -> tuple[str, ...]:
        """The name of each task; `task_id` is the place in this list."""
        return tuple(self.manifest["task_names"])

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return self.manifest["num_actions"]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.columns["observation"].shape[2:]

    @property
    def num_episodes(self) -> int:
        """How many episodes there are."""
        return len(self.columns["length"])

    @property
    def max_length(self) -> int:
        """The number of steps L that each row has room for."""
        return self.columns["reward"].shape[1]

    @property
    def fingerprint(self) -> str:
        """A checksum of all columns: equal fingerprints mean equal data."""
        return self.manifest["fingerprint"]

    def episodes(self, task: int | None = None, split: int | None = None) -> np.ndarray:
        """The rows of the episodes of a task and split (any, if not given)."""
        chosen = np.ones(self.num_episodes, bool)
        if task is not None:
            chosen &= self.columns["task_id"] == task
        if split is not None:
            chosen &= self.columns["split"] == split
        return np.flatnonzero(chosen)

    def select(self, names: Sequence[str], episodes_per_task: int = 0) -> OfflineDataset:
        """The named tasks alone, in the given order, with the first so many episodes (0: all).

        They are copied into memory, unless they are the first rows as they are.
        """
        known = self.task_names
        missing = [name for name in names if name not in known]
        if missing:
            raise UserError(f"{self.path} has no task {missing[0]!r}; its tasks are {', '.join(known)}.")
        rows_of = {name: self.episodes(known.index(name)) for name in names}
        for name, rows in rows_of.items():
            if len(rows) < max(episodes_per_task, 1):
                wanted = episodes_per_task or "any"
                raise UserError(f"{self.path} has {len(rows)} episodes of task {name!r}, not {wanted}.")
        rows = np.concatenate([rows[: episodes_per_task or None] for rows in rows_of.values()])
        if tuple(names) == known[: len(names)] and np.array_equal(rows, np.arange(len(rows))):
            columns = {name: column[: len(rows)] for name, column in self.columns.items()}
        else:
            columns = {name: np.asarray(column[rows]) for name, column in self.columns.items()}
            place = np.array([names.index(name) if name in names else -1 for name in known], np.int16)
            columns["task_id"] = place[columns["task_id"]]
        manifest = self.manifest | {
            "task_names": list(names),
            "episodes": len(rows),
            "tasks": describe_tasks(columns, names),
        }
        return replace(self, manifest=manifest, columns=columns)

    def verify(self) -> None:
        """Read the whole data set; a UserError names the file and what is wrong with it, if anything."""
        whole = OfflineDataset.open(self.path)
        for entry in whole.manifest["columns"].values():
            file = whole.path / entry["file"]
            if sha256_of(file) != entry["sha256"]:
                raise UserError(f"{file} is damaged: its content does not match the checksum in {MANIFEST}.")
        rows = max(1, 2**21 // whole.max_length)
        for start in range(0, whole.num_episodes, rows):
            chunk = {name: column[start : start + rows] for name, column in whole.columns.items()}
            problem = content_problem(chunk, len(whole.task_names), whole.num_actions, start)
            if problem:
                raise UserError(f"{whole.path}: {problem}.")
        tasks = describe_tasks(whole.columns, whole.task_names)
        if tasks != whole.manifest["tasks"]:
            raise UserError(
                f"{whole.path / MANIFEST} is damaged: its counts or returns per task differ from the columns."
            )
        for task, counts in tasks.items():
            for split in ("learning", "retrieval"):
                if counts[split] == 0:
                    raise UserError(f"{whole.path / 'split.npy'}: task {task!r} has no {split} episodes.")


class DatasetWriter:
    """Writes a data set shard by shard; it appears at `path` when the `with` block ends well."""

    def __init__(
        self,
        path: PathLike,
        *,
        name: str,
        environment: str,
        task_names: Sequence[str],
        num_actions: int,
        provenance: Mapping[str, Any],
        overwrite: bool = False,
    ):
        if len(set(task_names)) != len(task_names):
            raise ValueError("task names must differ from one another")
        self._path = Path(path)
        self._header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "name": name,
            "environment": environment,
            "task_names": list(task_names),
            "num_actions": num_actions,
            "provenance": dict(provenance),
        }
        self._layout: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self._episodes = 0
        self._atomic_folder = atomic_folder(path, overwrite=overwrite)

    def __enter__(self) -> DatasetWriter:
        """Refuse an existing path now, not after hours of collecting."""
        if os.path.lexists(self._path) and not (self._path / MANIFEST).is_file():
            raise UserError(f"{self._path} exists and is not a data set; choose another name.")
        self._folder = self._atomic_folder.__enter__()
        return self

    def append(self, columns: Mapping[str, Any]) -> None:
        """Add episodes, given as columns [e, ...]; `episode_return` may be left out."""
        shard = as_columns(columns)
        tasks, actions = len(self._header["task_names"]), self._header["num_actions"]
        problem = content_problem(shard, tasks, actions, self._episodes)
        layout = {name: (column.dtype, column.shape[1:]) for name, column in shard.items()}
        if self._layout and layout != self._layout:
            problem = f"columns changed from {self._layout} to {layout}"
        if problem:
            raise ValueError(problem)
        with storage_errors("write", self._path):
            for name, column in shard.items():
                with open(self._folder / f"{name}.npy", "ab") as file:
                    if not self._layout:
                        self._write_header(file, *layout[name])
                    file.write(np.ascontiguousarray(column).data)
        self._layout = layout
        self._episodes += len(shard["length"])

    def __exit__(self, *error: Any) -> bool | None:
        """Complete the files and the manifest, or leave nothing if the block failed."""
        if error[0] is None:
            try:
                self._finish()
            except BaseException:
                self._atomic_folder.__exit__(*sys.exc_info())
                raise
        return self._atomic_folder.__exit__(*error)

    def _write_header(self, file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        # The header of an npy file has room to spare for the first axis: rewriting it never moves the data.
        description = {"descr": dtype.str, "fortran_order": False, "shape": (self._episodes, *shape)}
        np.lib.format.write_array_header_1_0(file, description)

    def _finish(self) -> None:
        if self._episodes == 0:
            raise UserError(f"Cannot write {self._path}: there are no episodes.")
        with storage_errors("write", self._path):
            for name, layout in self._layout.items():
                with open(self._folder / f"{name}.npy", "r+b") as file:
                    self._write_header(file, *layout)
        entries = {
            name: describe_column(self._folder / f"{name}.npy", dtype, (self._episodes, *shape))
            for name, (dtype, shape) in self._layout.items()
        }
        columns = {name: open_column(self._folder, name, entry) for name, entry in entries.items()}
        manifest = self._header | {
            "observation_shape": list(columns["observation"].shape[2:]),
            "episodes": self._episodes,
            "columns": entries,
            "tasks": describe_tasks(columns, self._header["task_names"]),
            "fingerprint": fingerprint_of(entries),
        }
        with storage_errors("write", self._path):
            (self._folder / MANIFEST).write_text(json.dumps(manifest, indent=2, allow_nan=False) + "\n")


def write_dataset(
    path: PathLike,
    columns: Mapping[str, Any],
    *,
    name: str,
    environment: str,
    task_names: Sequence[str],
    num_actions: int,
    provenance: Mapping[str, Any],
    overwrite: bool = False,
) -> OfflineDataset:
    """Write columns that fit in memory as a data set, and open it."""
    with DatasetWriter(
        path,
        name=name,
        environment=environment,
        task_names=task_names,
        num_actions=num_actions,
        provenance=provenance,
        overwrite=overwrite,
    ) as writer:
        writer.append(columns)
    return OfflineDataset.open(path)


class ListedDataset(NamedTuple):
    """A data set found in a folder: opened, or the sentence that says why it cannot be."""

    path: Path
    dataset: OfflineDataset | None
    problem: str | None


def list_datasets(root: PathLike = "datasets") -> list[ListedDataset]:
    """All data sets in the folder `root` and its direct subfolders; broken ones with their problem."""
    found = []
    for manifest in sorted([*Path(root).glob(f"*/{MANIFEST}"), *Path(root).glob(f"*/*/{MANIFEST}")]):
        path = manifest.parent
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue  # half-written, by a process that runs or was killed
        try:
            found.append(ListedDataset(path, OfflineDataset.open(path), None))
        except UserError as error:
            found.append(ListedDataset(path, None, str(error)))
    return found


def find_dataset(name_or_path: PathLike, root: PathLike = "datasets") -> OfflineDataset:
    """Open a data set by its path, or by its name under `root`."""
    candidates = [Path(name_or_path), Path(root) / name_or_path]
    with storage_errors("read", name_or_path):
        for path in candidates:
            if (path / MANIFEST).is_file():
                return OfflineDataset.open(path)
        for path in candidates:
            if path.is_dir():
                raise UserError(f"{path} is not a data set: it has no {MANIFEST}.")
    names = [str(listed.path.relative_to(root)) for listed in list_datasets(root)]
    there = f"{root} has {', '.join(names)}" if names else f"{root} has none"
    raise UserError(f"There is no data set {str(name_or_path)!r} ({there}); {HOW_TO_MAKE_ONE}.")
