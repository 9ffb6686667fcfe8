"""The run folder's `config.json` and `metrics.jsonl`: one JSON object per line, same lines after a resume."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from r2a.errors import UserError
from r2a.storage import PathLike, atomic_write_text, read_versioned_json, storage_errors

METRICS = "metrics.jsonl"
CONFIG = "config.json"
GROUPS = ("rl", "bc", "retrieval", "aux", "eval", "time")
RUN_FORMAT = "r2a-run"
RUN_FORMAT_VERSION = 1
_NOT_FINITE = ("nan", "inf", "-inf")
"""JSON has no such numbers; as strings they keep the file readable for every other tool."""


def start_run(run_folder: PathLike, config: Mapping[str, Any]) -> Path:
    """Make the run folder with its `config.json`; a folder that already has something in it is refused."""
    folder = Path(run_folder)
    with storage_errors("write", folder):
        occupied = folder.is_dir() and next(folder.iterdir(), None) is not None
    if occupied and (folder / CONFIG).exists():
        raise UserError(f"The run folder {folder} already exists; go on with --resume, or choose another folder.")
    if occupied:
        raise UserError(f"The folder {folder} is not empty and holds no run; choose another folder.")
    header = {"format": RUN_FORMAT, "format_version": RUN_FORMAT_VERSION, "config": dict(config)}
    atomic_write_text(folder / CONFIG, json.dumps(header, indent=2, allow_nan=False) + "\n")
    return folder


def read_run_config(run_folder: PathLike) -> dict[str, Any]:
    """The config that a run was started with."""
    file = Path(run_folder) / CONFIG
    with storage_errors("read", run_folder):
        if not file.is_file():
            found = f"it has no {CONFIG}" if Path(run_folder).is_dir() else "there is no such folder"
            raise UserError(f"{run_folder} is not a run folder: {found}; start a run with `r2a train`.")
    header = read_versioned_json(file, what="run", format_name=RUN_FORMAT, version=RUN_FORMAT_VERSION)
    if not isinstance(header.get("config"), dict):
        raise UserError(f"{file} is damaged: 'config' is missing or not an object.")
    return header["config"]


class MetricsWriter(contextlib.AbstractContextManager):
    """Appends metrics to `metrics.jsonl`, line by line without buffering, and to TensorBoard on request.

    Write a step's metrics before saving its checkpoint: a resume keeps the lines up to the checkpoint's step.
    """

    def __init__(self, run_folder: PathLike, resume_at_step: int | None = None, *, tensorboard: bool = False):
        self._file_path = Path(run_folder) / METRICS
        self._last_step = 0
        with storage_errors("write", self._file_path):
            self._file_path.parent.mkdir(parents=True, exist_ok=True)
            there = self._file_path.exists()
            if there and resume_at_step is not None:
                self._cut_after(resume_at_step)
            elif there and self._file_path.stat().st_size > 0:
                raise UserError(f"{self._file_path} already holds metrics; resume that run or choose another folder.")
            self._file = io.FileIO(self._file_path, "ab")
        self._tensorboard: Any = None
        if tensorboard:
            require_tensorboard()
            from tensorboardX import SummaryWriter

            purge_step = None if resume_at_step is None else resume_at_step + 1
            with storage_errors("write", run_folder):
                self._tensorboard = SummaryWriter(str(Path(run_folder) / "tensorboard"), purge_step=purge_step)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append one line; names look like `rl/td_loss`, values are numbers or arrays of one number."""
        if step < self._last_step:
            raise ValueError(f"steps must not go back: {step} after {self._last_step}")
        line: dict[str, Any] = {"step": int(step)}
        for name, value in metrics.items():
            if name.partition("/")[0] not in GROUPS or not name.partition("/")[2]:
                raise ValueError(f"metric {name!r} must be named after one of the groups {', '.join(GROUPS)}")
            line[name] = _as_json_number(value)
        with storage_errors("write", self._file_path):
            _write_all(self._file, (json.dumps(line, allow_nan=False) + "\n").encode())
        self._last_step = int(step)
        if self._tensorboard is not None:
            for name in metrics:
                self._tensorboard.add_scalar(name, float(line[name]), int(step))

    def sync(self) -> None:
        """Make sure that the lines survive a power cut; call it before saving a checkpoint."""
        with storage_errors("write", self._file_path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _cut_after(self, step: int) -> None:
        kept_bytes = 0
        for line, end in _read_lines(self._file_path):
            if line["step"] > step:
                break
            kept_bytes, self._last_step = end, line["step"]
        os.truncate(self._file_path, kept_bytes)


def read_metrics(run_folder: PathLike) -> list[dict[str, Any]]:
    """All lines of a run's metrics; a torn last line, as a kill can leave, is not among them."""
    file = Path(run_folder) / METRICS
    with storage_errors("read", file):
        lines = [line for line, _ in _read_lines(file)]
    return [{name: float(v) if v in _NOT_FINITE else v for name, v in line.items()} for line in lines]


def _read_lines(file: Path) -> list[tuple[dict[str, Any], int]]:
    """The complete lines and the byte at which each ends."""
    lines, end = [], 0
    content = file.read_bytes().splitlines(keepends=True)
    for number, text in enumerate(content, start=1):
        end += len(text)
        try:
            line = json.loads(text)
            intact = isinstance(line, dict) and isinstance(line.get("step"), int) and text.endswith(b"\n")
        except (ValueError, RecursionError):
            intact = False
        if intact:
            lines.append((line, end))
        elif number < len(content):
            raise UserError(f"{file} is damaged in line {number}; mend or delete that line.")
    return lines


def _write_all(file: io.FileIO, data: bytes) -> None:
    start = file.seek(0, os.SEEK_END)
    try:
        while data:
            data = data[file.write(data) :]
    except OSError:
        # A full disk must not leave half a line that a later line would be glued to.
        with contextlib.suppress(OSError):
            file.truncate(start)
        raise


def _as_json_number(value: Any) -> int | float | str:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool | int):
        return int(number)
    if isinstance(number, str):
        raise ValueError(f"a metric must be a number, not {number!r}")
    number = float(number)
    return number if math.isfinite(number) else str(number)


def tensorboard_is_installed() -> bool:
    """Whether metrics can be mirrored to TensorBoard."""
    return importlib.util.find_spec("tensorboardX") is not None


def require_tensorboard() -> None:
    """Say how to install what mirroring to TensorBoard needs, if it is not there."""
    if not tensorboard_is_installed():
        raise UserError("TensorBoard logging needs tensorboardX: pip install 'r2a[log]'.")
