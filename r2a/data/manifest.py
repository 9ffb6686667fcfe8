"""The manifest of an offline data set: reading, checking, and opening the column files it lists."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from r2a.errors import UserError
from r2a.renamed import COLUMNS
from r2a.storage import read_versioned_json, sha256_of, storage_errors

FORMAT = "r2a-dataset"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
HOW_TO_MAKE_ONE = "make one with `r2a collect ENVIRONMENT`"
_COLUMN_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MANIFEST_TYPES: dict[str, type] = {
    "name": str,
    "environment": str,
    "task_names": list,
    "num_actions": int,
    "observation_shape": list,
    "episodes": int,
    "columns": dict,
    "tasks": dict,
    "provenance": dict,
    "fingerprint": str,
}


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check the manifest of the data set at `path`."""
    file = path / MANIFEST
    with storage_errors("read", path):
        there = file.is_file()
    if not there:
        found = "has no manifest.json" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
        raise UserError(f"There is no data set at {path}: it {found}; {HOW_TO_MAKE_ONE}.")
    manifest = read_versioned_json(file, what="data set", format_name=FORMAT, version=FORMAT_VERSION)
    for key, kind in _MANIFEST_TYPES.items():
        if not isinstance(manifest.get(key), kind):
            raise UserError(f"{file} is damaged: {key!r} is missing or not of type {kind.__name__}.")
    if list(manifest["tasks"]) != manifest["task_names"]:
        raise UserError(f"{file} is damaged: 'tasks' and 'task_names' differ.")
    for name, entry in manifest["columns"].items():
        keys_are_right = isinstance(entry, dict) and entry.keys() >= {
            "dtype",
            "shape",
            "file",
            "sha256",
            "bytes",
        }
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
        raise UserError(
            f"{file} holds {column.dtype.name} {list(column.shape)}, "
            f"and {MANIFEST} says {entry['dtype']} {entry['shape']}."
        )
    return column


def describe_column(file: Path, dtype: np.dtype, shape: Sequence[int]) -> dict[str, Any]:
    """The manifest's entry for a finished column file."""
    return {
        "dtype": dtype.name,
        "shape": list(shape),
        "file": file.name,
        "sha256": sha256_of(file),
        "bytes": file.stat().st_size,
    }


def fingerprint_of(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One checksum for all columns, made of their checksums."""
    before = {new: old for old, new in COLUMNS.items()}
    named = {before.get(name, name): entry["sha256"] for name, entry in entries.items()}
    checksums = "".join(f"{name} {named[name]}\n" for name in sorted(named))
    return hashlib.sha256(checksums.encode()).hexdigest()
