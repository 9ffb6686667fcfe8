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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from r2a.data.dataset import DatasetWriter
from r2a.data.manifest import MANIFEST
from r2a.errors import UserError
from r2a.storage import atomic_write_bytes, atomic_write_text, refuse_existing, remove_folder, storage_errors
from r2a.training.collect.processes import in_processes

SETTINGS = "settings.json"


@runtime_checkable
class ShardTask(Protocol):
    """Which episodes, and all that decides what they are."""

    @property
    def file(self) -> Path:
        """Where the shard is or will be."""
        ...


AnyShardTask = TypeVar("AnyShardTask", bound=ShardTask)


@contextlib.contextmanager
def shard_folder(path: Path, identity: dict[str, Any], overwrite: bool) -> Iterator[Path]:
    """Hold alone the folder of shards of the data set that will be at `path`; it is gone once all went well.

    A folder with shards of other settings is refused.
    """
    refuse_existing(path, overwrite=overwrite)
    if os.path.lexists(path) and not (path / MANIFEST).is_file():
        raise UserError(f"{path} exists and is not a data set; choose another name.")
    folder = path.with_name(f".{path.name}.collecting")
    text = json.dumps(identity, indent=2) + "\n"
    with storage_errors("write", folder):
        if overwrite and folder.is_dir() and _read(folder / SETTINGS) != text:
            remove_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"Another process is collecting into {folder}; wait for it, or choose a name.") from error
        if _read(folder / SETTINGS) is None:
            atomic_write_text(folder / SETTINGS, text)
        elif _read(folder / SETTINGS) != text:
            raise UserError(
                f"{folder} holds an unfinished collection with other settings; finish that one, or ask to overwrite it."
            )
        yield folder
        remove_folder(folder)
    finally:
        os.close(lock)


def finish(tasks: Sequence[AnyShardTask], play: Callable[[AnyShardTask], None], workers: int) -> Iterator[AnyShardTask]:
    """Play what is not there yet; yields every task, those of an earlier start first."""
    left = [task for task in tasks if not task.file.is_file()]
    yield from (task for task in tasks if task.file.is_file())
    yield from in_processes(play, left, workers)


def write_shard(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a finished shard, unless whoever asked for it is gone."""
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
        except (ValueError, KeyError, EOFError) as error:
            raise UserError(f"{file} is damaged; remove it and collect again.") from error


def append_shards(
    writer: DatasetWriter,
    task: int,
    shards: Iterable[Any],
    split: np.ndarray,
    longest: int,
    others: Callable[[Any], dict[str, np.ndarray]],
) -> None:
    """Add a task's shards, in order, to a data set whose rows have `longest` steps.

    All shards have `length`, `observation`, `action` and `reward`; `others` are the columns of their own.
    """
    start = 0
    for shard in shards:
        count = len(shard.length)
        inside = np.arange(longest) < shard.length[:, None]
        seen = np.arange(longest + 1) <= shard.length[:, None]
        writer.append(
            {
                "observation": _padded(shard.observation, seen),
                "action": _padded(shard.action, inside),
                "reward": _padded(shard.reward, inside),
                "length": shard.length,
                "task_id": np.full(count, task),
                "split": split[start : start + count],
                **others(shard),
            }
        )
        start += count


def _padded(steps: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Steps of episodes one after the other, as rows with zeros where `real` [e, L] is False."""
    rows = np.zeros((*real.shape, *steps.shape[1:]), steps.dtype)
    rows[real] = steps
    return rows


def _read(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None
