"""A replay on disk, as part of a checkpoint: a folder of plain arrays with a header, checksums and no pickle.

Frames are saved in segments of several blocks. A segment into which nothing was written since the previous checkpoint
becomes a second name of that one's file: saving takes as long as what is new, and either may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from r2a.data.replay.sequences import SequenceReplay
from r2a.data.replay.store import Layout
from r2a.errors import UserError
from r2a.storage import PathLike, read_versioned_json, sha256_of, storage_errors

FORMAT = "r2a-replay"
FORMAT_VERSION = 1
HEADER = "replay.json"
SEGMENT_BYTES, MOST_SEGMENTS = 16 << 20, 2048
_REBUILT = ("layout", "observation", "nodes", "starts")


def save_replay(replay: SequenceReplay, folder: PathLike, previous: PathLike | None = None) -> None:
    """Save all of a replay in a new folder; `previous` is where this run saved it before, if it did.

    The folder is for the caller to make appear whole, with all else that belongs to the same moment.
    """
    folder = Path(folder)
    with storage_errors("write", folder):
        folder.mkdir(parents=True)
        checksums = {}
        for name, array in _arrays(replay).items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
            checksums[f"{name}.npy"] = sha256_of(folder / f"{name}.npy")
        checksums |= _save_segments(replay, folder, previous)
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": _settings(replay),
            "lineage": replay.lineage,
            "writes": int(replay.store.totals["writes"][0]),
            "sha256": checksums,
        }
        header["header_sha256"] = _checksum(header)
        (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n")


def load_replay(replay: SequenceReplay, folder: PathLike) -> None:
    """Make a new replay, of the same settings, equal to the one that was saved; nothing is changed if that fails."""
    folder = Path(folder)
    header = _read_header(folder)
    for name, wanted in _settings(replay).items():
        found = header["settings"].get(name)
        if found != wanted:
            raise UserError(
                f"The replay in {folder} does not fit the present settings: {name} is {found}, not {wanted}."
            )
    for name, checksum in header["sha256"].items():
        if not (folder / name).is_file():
            raise UserError(f"{folder} is not a complete replay: {name} is missing.")
        if sha256_of(folder / name) != checksum:
            raise UserError(f"{folder / name} is damaged: its content does not match the checksum in {HEADER}.")
    with storage_errors("read", folder):
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in _arrays(replay)}
        for name, array in arrays.items():
            if name != "chances":
                getattr(replay.store, name)[...] = array
        replay.tree.restore(arrays["chances"])
        for number, frames in enumerate(_segments(replay)):
            if _segment_name(number) in header["sha256"]:
                with open(folder / _segment_name(number), "rb") as file:
                    file.readinto(frames.data)


def _arrays(replay: SequenceReplay) -> dict[str, np.ndarray]:
    """All but the frames; of the sum tree, the leaves say all."""
    arrays = {name: array for name, array in replay.store._asdict().items() if name not in _REBUILT}
    return arrays | {"chances": replay.tree.values}


def _settings(replay: SequenceReplay) -> dict[str, Any]:
    """What must be the same for the saved numbers to mean the same."""
    spec = asdict(replay.spec) | {
        "observation_dtype": np.dtype(replay.spec.observation_dtype).str,
        "action_dtype": np.dtype(replay.spec.action_dtype).str,
        "observation_shape": list(replay.spec.observation_shape),
        "action_shape": list(replay.spec.action_shape),
    }
    return {**spec, **replay.layout._asdict(), "priority_exponent": replay.exponent}


def _blocks_per_segment(layout: Layout) -> int:
    by_size = SEGMENT_BYTES // max(1, layout.period * layout.observation_bytes)
    return max(1, by_size, -(-layout.slots // MOST_SEGMENTS))


def _segments(replay: SequenceReplay) -> list[np.ndarray]:
    """The frames, cut into segments."""
    size = _blocks_per_segment(replay.layout) * replay.layout.period * replay.layout.observation_bytes
    frames = replay.store.observation
    return [frames[first : first + size] for first in range(0, len(frames), max(1, size))]


def _segment_name(number: int) -> str:
    return f"frames_{number:05d}.bin"


def _save_segments(replay: SequenceReplay, folder: Path, previous: PathLike | None) -> dict[str, str]:
    """Write or link all segments that hold anything; returns their checksums."""
    known, writes = {}, -1
    if previous is not None and (Path(previous) / HEADER).is_file():
        header = _read_header(Path(previous))
        if header["lineage"] == replay.lineage:  # else it tells of another replay, or of another course of this one
            known, writes = header["sha256"], header["writes"]
    written, per_segment = replay.store.blocks["written"], _blocks_per_segment(replay.layout)
    checksums = {}
    for number, frames in enumerate(_segments(replay)):
        name, last = _segment_name(number), written[number * per_segment : (number + 1) * per_segment].max()
        if last <= writes and name in known:
            assert previous is not None
            _link_or_copy(Path(previous) / name, folder / name)
            checksums[name] = known[name]
        elif last > 0:
            checksums[name] = hashlib.sha256(frames.data).hexdigest()
            with open(folder / name, "wb") as file:
                file.write(frames.data)
    return checksums


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # not every disk has second names
        shutil.copyfile(source, target)


def _read_header(folder: Path) -> dict[str, Any]:
    if not (folder / HEADER).is_file():
        raise UserError(f"{folder} is not a complete replay: {HEADER} is missing.")
    header = read_versioned_json(folder / HEADER, what="replay", format_name=FORMAT, version=FORMAT_VERSION)
    if header.pop("header_sha256", None) != _checksum(header):
        raise UserError(f"{folder / HEADER} is damaged: its content does not match its checksum.")
    return header


def _checksum(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
