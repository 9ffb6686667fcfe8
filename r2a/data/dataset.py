"""Offline data sets on disk: a manifest, and one memory-mapped file per column.

r2a/data/columns.py says what the columns are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from r2a.data.columns import as_columns, content_problem, describe_tasks, layout_problem
from r2a.errors import UserError
from r2a.renamed import COLUMNS
from r2a.storage import PathLike, atomic_folder, read_versioned_json, sha256_of, storage_errors

FORMAT, FORMAT_VERSION, MANIFEST = "r2a-dataset", 1, "manifest.json"
HOW_TO_MAKE_ONE = "make one with `r2a collect ENVIRONMENT`"
_COLUMN_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MANIFEST_TYPES: dict[type, tuple[str, ...]] = {
    str: ("name", "environment", "fingerprint"),
    int: ("num_actions", "episodes"),
    list: ("task_names", "observation_shape"),
    dict: ("columns", "tasks", "provenance"),
}


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
            fault = "its counts or returns per task differ from the columns"
            raise UserError(f"{whole.path / MANIFEST} is damaged: {fault}.")
        for task, counts in tasks.items():
            for split in ("learning", "retrieval"):
                if counts[split] == 0:
                    raise UserError(f"{whole.path / 'split.npy'}: task {task!r} has no {split} episodes.")


class DatasetWriter:
    """Writes the columns of a data set into a folder, shard by shard."""

    def __init__(self, folder: Path, header: Mapping[str, Any]):
        self._folder, self._header = folder, header
        self._layout: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self.episodes = 0

    def append(self, columns: Mapping[str, Any]) -> None:
        """Add episodes, given as columns [e, ...]; `episode_return` may be left out."""
        shard = as_columns(columns)
        tasks, actions = len(self._header["task_names"]), self._header["num_actions"]
        problem = content_problem(shard, tasks, actions, self.episodes)
        layout = {name: (column.dtype, column.shape[1:]) for name, column in shard.items()}
        if self._layout and layout != self._layout:
            problem = f"columns changed from {self._layout} to {layout}"
        if problem:
            raise ValueError(problem)
        for name, column in shard.items():
            with open(self._folder / f"{name}.npy", "ab") as file:
                if not self._layout:
                    self._write_header(file, *layout[name])
                file.write(np.ascontiguousarray(column).data)
        self._layout = layout
        self.episodes += len(shard["length"])

    def _write_header(self, file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        # The header of an npy file has room to spare for the first axis: rewriting it never moves the data.
        description = {"descr": dtype.str, "fortran_order": False, "shape": (self.episodes, *shape)}
        np.lib.format.write_array_header_1_0(file, description)

    def finish(self) -> None:
        """Complete the files and write the manifest."""
        entries = {}
        for name, (dtype, shape) in self._layout.items():
            path = self._folder / f"{name}.npy"
            with open(path, "r+b") as file:
                self._write_header(file, dtype, shape)
            entries[name] = {
                "dtype": dtype.name,
                "shape": [self.episodes, *shape],
                "file": path.name,
                "sha256": sha256_of(path),
                "bytes": path.stat().st_size,
            }
        columns = {name: open_column(self._folder, name, entry) for name, entry in entries.items()}
        manifest = {
            **self._header,
            "observation_shape": list(columns["observation"].shape[2:]),
            "episodes": self.episodes,
            "columns": entries,
            "tasks": describe_tasks(columns, self._header["task_names"]),
            "fingerprint": fingerprint_of(entries),
        }
        (self._folder / MANIFEST).write_text(json.dumps(manifest, indent=2, allow_nan=False) + "\n")


@contextlib.contextmanager
def new_dataset(
    path: PathLike,
    *,
    name: str,
    environment: str,
    task_names: Sequence[str],
    num_actions: int,
    provenance: Mapping[str, Any],
    overwrite: bool = False,
) -> Iterator[DatasetWriter]:
    """Write a data set shard by shard; it appears at `path` when the `with` block ends well."""
    if len(set(task_names)) != len(task_names):
        raise ValueError("task names must differ from one another")
    if os.path.lexists(path) and not (Path(path) / MANIFEST).is_file():
        raise UserError(f"{path} exists and is not a data set; choose another name.")
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": name,
        "environment": environment,
        "task_names": list(task_names),
        "num_actions": num_actions,
        "provenance": dict(provenance),
    }
    with atomic_folder(path, overwrite=overwrite) as folder:
        writer = DatasetWriter(folder, header)
        yield writer
        if not writer.episodes:
            raise UserError(f"Cannot write {path}: there are no episodes.")
        writer.finish()


def write_dataset(path: PathLike, columns: Mapping[str, Any], **header: Any) -> OfflineDataset:
    """Write columns that fit in memory as a data set, and open it; the other arguments are those of `new_dataset`."""
    with new_dataset(path, **header) as writer:
        writer.append(columns)
    return OfflineDataset.open(path)


def list_datasets(root: PathLike = "datasets") -> dict[Path, OfflineDataset | UserError]:
    """All data sets in the folder `root` and its direct subfolders, by path; of broken ones, what is wrong."""
    found: dict[Path, OfflineDataset | UserError] = {}
    for manifest in sorted([*Path(root).glob(f"*/{MANIFEST}"), *Path(root).glob(f"*/*/{MANIFEST}")]):
        path = manifest.parent
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue  # half-written, by a process that runs or was killed
        try:
            found[path] = OfflineDataset.open(path)
        except UserError as error:
            found[path] = error
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
    names = [str(path.relative_to(root)) for path in list_datasets(root)]
    there = f"{root} has {', '.join(names)}" if names else f"{root} has none"
    raise UserError(f"There is no data set {str(name_or_path)!r} ({there}); {HOW_TO_MAKE_ONE}.")


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check the manifest of the data set at `path`."""
    file = path / MANIFEST
    with storage_errors("read", path):
        there = file.is_file()
    if not there:
        found = "has no manifest.json" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
        raise UserError(f"There is no data set at {path}: it {found}; {HOW_TO_MAKE_ONE}.")
    manifest = read_versioned_json(file, what="data set", format_name=FORMAT, version=FORMAT_VERSION)
    for kind, keys in _MANIFEST_TYPES.items():
        for key in keys:
            if not isinstance(manifest.get(key), kind):
                raise UserError(f"{file} is damaged: {key!r} is missing or not of type {kind.__name__}.")
    if list(manifest["tasks"]) != manifest["task_names"]:
        raise UserError(f"{file} is damaged: 'tasks' and 'task_names' differ.")
    for name, entry in manifest["columns"].items():
        keys_are_right = isinstance(entry, dict) and entry.keys() >= {"dtype", "shape", "file", "sha256", "bytes"}
        # A file name of its own could lead out of the folder.
        if not keys_are_right or not _COLUMN_NAME.fullmatch(name) or entry["file"] != f"{name}.npy":
            raise UserError(f"{file} is damaged: the entry of column {name!r} is not valid.")
    if manifest["fingerprint"] != fingerprint_of(manifest["columns"]):
        raise UserError(f"{file} is damaged: the fingerprint does not match the columns' checksums.")
    columns = {COLUMNS.get(name, name): entry for name, entry in manifest["columns"].items()}
    return manifest | {"columns": columns}


def open_column(folder: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    """Map a column into memory; only its header is read."""
    file = folder / entry["file"]
    if not file.is_file():
        raise UserError(f"{file} is missing: column {name!r} of the data set is lost.")
    with storage_errors("read", file):
        size = file.stat().st_size
        if size != entry["bytes"]:
            raise UserError(f"{file} is damaged: it has {size} bytes, and {MANIFEST} says {entry['bytes']}.")
        try:
            column = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, SyntaxError, EOFError) as error:
            raise UserError(f"{file} is damaged: it is not a readable npy file.") from error
    if not isinstance(column, np.memmap) or column.offset + column.nbytes != size:
        raise UserError(f"{file} is damaged: its header does not fit its size.")
    if column.dtype.name != entry["dtype"] or list(column.shape) != entry["shape"]:
        found, said = f"{column.dtype.name} {list(column.shape)}", f"{entry['dtype']} {entry['shape']}"
        raise UserError(f"{file} holds {found}, and {MANIFEST} says {said}.")
    return column


def fingerprint_of(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One checksum for all columns, made of their checksums."""
    before = {new: old for old, new in COLUMNS.items()}
    named = {before.get(name, name): entry["sha256"] for name, entry in entries.items()}
    checksums = "".join(f"{name} {named[name]}\n" for name in sorted(named))
    return hashlib.sha256(checksums.encode()).hexdigest()
