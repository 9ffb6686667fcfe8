"""A replay on disk, as part of a checkpoint: a folder of plain arrays with a header, checksums and no pickle.

Frames are saved in segments of several blocks. A segment into which nothing was written since the previous checkpoint
becomes a second name of that one's file: saving takes as long as what is new, and either may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from r2a.data.replay import Env, SequenceReplay
from r2a.errors import UserError
from r2a.storage import PathLike, read_versioned_json, sha256_of, storage_errors

FORMAT, FORMAT_VERSION, HEADER = "r2a-replay", 1, "replay.json"
SEGMENT_BYTES, MOST_SEGMENTS = 16 << 20, 2048
COLUMNS = ("action", "reward", "discount", "state", "previous_action", "blocks")
TOTALS = np.dtype([(name, "i8") for name in ("sequences", "episodes", "writes")] + [("highest_priority", "f8")])
ENVS = np.dtype([(field.name, "f8" if field.name == "return_so_far" else "i8") for field in fields(Env)])


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
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "settings": _settings(replay)}
        header |= {"lineage": replay.lineage, "writes": replay.writes, "sha256": checksums}
        header["header_sha256"] = _checksum(header)
        (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n")


def load_replay(replay: SequenceReplay, folder: PathLike) -> None:
    """Make a new replay, of the same settings, equal to the one that was saved; nothing is changed if that fails."""
    folder = Path(folder)
    header = _read_header(folder)
    for name, wanted in _settings(replay).items():
        found = header["settings"].get(name)
        if found != wanted:
            fault = f"{name} is {found}, not {wanted}"
            raise UserError(f"The replay in {folder} does not fit the present settings: {fault}.")
    for name, checksum in header["sha256"].items():
        if not (folder / name).is_file():
            raise UserError(f"{folder} is not a complete replay: {name} is missing.")
        if sha256_of(folder / name) != checksum:
            raise UserError(f"{folder / name} is damaged: its content does not match the checksum in {HEADER}.")
    with storage_errors("read", folder):
        saved = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in _arrays(replay)}
        for name in COLUMNS:
            column = getattr(replay, name)
            column[...] = saved[name] if name == "blocks" else saved[name].view(column.dtype).reshape(column.shape)
        replay.tree.set(np.arange(len(replay.blocks)), saved["chances"])
        replay.envs = [Env(bool(is_open), bool(ended), *rest) for is_open, ended, *rest in saved["lanes"].tolist()]
        for name in TOTALS.names or ():
            setattr(replay, name, saved["totals"][name].item())
        for name, frames, _ in _segments(replay):
            if name in header["sha256"]:
                with open(folder / name, "rb") as file:
                    file.readinto(frames.data)


def _arrays(replay: SequenceReplay) -> dict[str, np.ndarray]:
    """All but the frames; of the sum tree, the leaves say all. Environments are saved as lanes, their earlier name."""
    arrays = {name: getattr(replay, name) for name in COLUMNS}
    arrays |= {name: arrays[name].reshape(-1).view(np.uint8) for name in ("action", "previous_action")}
    totals = np.array([tuple(getattr(replay, name) for name in TOTALS.names or ())], TOTALS)
    lanes = np.array([astuple(env) for env in replay.envs], ENVS)
    return {**arrays, "lanes": lanes, "totals": totals, "chances": replay.tree.values}


def _settings(replay: SequenceReplay) -> dict[str, Any]:
    """What must be the same for the saved numbers to mean the same."""
    config, columns = replay.config, {"observation": replay.observation, "action": replay.action}
    settings: dict[str, Any] = {f"{name}_shape": [*column.shape[1:]] for name, column in columns.items()}
    settings |= {f"{name}_dtype": column.dtype.str for name, column in columns.items()}
    settings |= {f"{name}_bytes": column[0].nbytes for name, column in columns.items()}
    settings |= {"lanes": len(replay.envs), "lane_blocks": replay.env_blocks, "state_size": replay.spec.state_size}
    settings |= {name: getattr(config, name) for name in ("period", "trace", "burn_in", "stack")}
    settings |= {"blocks_before": replay.blocks_before, "blocks_after": replay.blocks_after}
    settings |= {"state_offset": replay.state_offset, "priority_exponent": replay.exponent}
    return settings | {"ready_offset": config.trace % config.period}


def _segments(replay: SequenceReplay) -> Iterator[tuple[str, np.ndarray, int]]:
    """The frames, cut into segments: the names of their files, the frames, and when one was written last."""
    period, written = replay.config.period, replay.blocks["written"]
    blocks = max(1, SEGMENT_BYTES // (period * replay.observation[0].nbytes), -(-len(written) // MOST_SEGMENTS))
    for number, first in enumerate(range(0, len(written), blocks)):
        frames = replay.observation[first * period : (first + blocks) * period]
        yield f"frames_{number:05d}.bin", frames, int(written[first : first + blocks].max())


def _save_segments(replay: SequenceReplay, folder: Path, previous: PathLike | None) -> dict[str, str]:
    """Write or link all segments that hold anything; returns their checksums."""
    before, checksums, known, writes = Path(previous or folder), {}, {}, -1
    if (before / HEADER).is_file():
        header = _read_header(before)
        if header["lineage"] == replay.lineage:  # else it tells of another replay, or of another course of this one
            known, writes = header["sha256"], header["writes"]
    for name, frames, last in _segments(replay):
        if last <= writes and name in known:
            checksums[name] = known[name]
            try:
                os.link(before / name, folder / name)
            except OSError:  # not every disk has second names
                shutil.copyfile(before / name, folder / name)
        elif last > 0:
            checksums[name] = hashlib.sha256(frames.data).hexdigest()
            (folder / name).write_bytes(frames.data)
    return checksums


def _read_header(folder: Path) -> dict[str, Any]:
    if not (folder / HEADER).is_file():
        raise UserError(f"{folder} is not a complete replay: {HEADER} is missing.")
    header = read_versioned_json(folder / HEADER, what="replay", format_name=FORMAT, version=FORMAT_VERSION)
    if header.pop("header_sha256", None) != _checksum(header):
        raise UserError(f"{folder / HEADER} is damaged: its content does not match its checksum.")
    return header


def _checksum(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
