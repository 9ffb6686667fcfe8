"""Shards: finished episodes, a few to a file, so that collecting can go on after a stop.

They are kept in a hidden folder beside the data set until it is complete. Imports nothing heavy: processes that play
load this module.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import multiprocessing
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from r2a.data.dataset import MANIFEST
from r2a.errors import UserError
from r2a.storage import atomic_write_bytes, atomic_write_text, refuse_existing, remove_folder, storage_errors


@contextlib.contextmanager
def shard_folder(path: Path, identity: dict[str, Any], overwrite: bool) -> Iterator[Path]:
    """Hold alone the folder of shards of the data set that will be at `path`; it is gone once all went well.

    A folder with shards of other settings is refused.
    """
    refuse_existing(path, overwrite=overwrite)
    if os.path.lexists(path) and not (path / MANIFEST).is_file():
        raise UserError(f"{path} exists and is not a data set; choose another name.")
    folder = path.with_name(f".{path.name}.collecting")
    settings, text = folder / "settings.json", json.dumps(identity, indent=2) + "\n"
    with storage_errors("write", folder):
        if overwrite and folder.is_dir() and not (settings.is_file() and settings.read_text() == text):
            remove_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"Another process is collecting into {folder}; wait for it, or choose a name.") from error
        if not settings.is_file():
            atomic_write_text(settings, text)
        elif settings.read_text() != text:
            raise UserError(
                f"{folder} holds an unfinished collection with other settings; finish that one, or ask to overwrite it."
            )
        yield folder
        remove_folder(folder)
    finally:
        os.close(lock)


def write_shard(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a finished shard, unless the process that asked for it is gone."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    parent = multiprocessing.parent_process()
    if parent is None or parent.is_alive():  # otherwise nobody waits for it, and its folder may be another's by now
        atomic_write_bytes(file, content.getvalue())


def read_shard(file: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of a shard that `write_shard` wrote."""
    with storage_errors("read", file):
        try:
            with np.load(file, allow_pickle=False) as content:
                return {name: content[name] for name in names}
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(f"{file} is damaged; remove it and collect again.") from error
