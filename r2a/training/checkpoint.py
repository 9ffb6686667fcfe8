"""Checkpoints: folders `checkpoints/step_00001234/` that appear whole, hold no pickle, and detect damage.

`state.safetensors` has the arrays, named by their place in the pytree, `checkpoint.json` all the rest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from r2a.errors import UserError
from r2a.renamed import modern_checkpoint
from r2a.storage import (
    PathLike,
    atomic_folder,
    read_versioned_json,
    remove_folder,
    remove_leftovers,
    sha256_of,
    storage_errors,
)

FORMAT = "r2a-checkpoint"
FORMAT_VERSION = 1
HEADER = "checkpoint.json"
ARRAYS = "state.safetensors"
KEPT = 2
"""Checkpoints of a run."""
_STEP_FOLDER = re.compile(r"step_(\d{8,})")


@dataclass(frozen=True)
class CheckpointHeader:
    """What a checkpoint says of itself; `leaves` describes each leaf of the saved pytree."""

    step: int
    config: dict[str, Any]
    extra: dict[str, Any]
    leaves: dict[str, dict[str, Any]]
    sha256: str
    attached: dict[str, str]


def save_checkpoint(
    run_folder: PathLike,
    state: Any,
    *,
    step: int,
    config: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    attach: Callable[[Path], None] | None = None,
) -> Path:
    """Save a pytree of arrays, keys and numbers as the run's checkpoint at `step`; the newest few are kept.

    `attach` may write more into the folder, which appears when all is there: files, which get checksums, and folders
    that look after themselves.
    """
    target = Path(run_folder) / "checkpoints" / f"step_{step:08d}"
    arrays, leaves = _pack(state)
    if target.parent.is_dir():
        remove_leftovers(target.parent)
    with atomic_folder(target, overwrite=True) as partial:
        save_arrays(arrays, partial / ARRAYS)
        if attach is not None:
            attach(partial)
        attached = [file for file in sorted(partial.iterdir()) if file.is_file() and file.name != ARRAYS]
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "step": step,
            "config": dict(config),
            "extra": dict(extra or {}),
            "leaves": leaves,
            "sha256": sha256_of(partial / ARRAYS),
            "attached": {file.name: sha256_of(file) for file in attached},
        }
        header["header_sha256"] = _checksum(header)
        (partial / HEADER).write_text(json.dumps(header, indent=1, allow_nan=False) + "\n")
    for folder in list_checkpoints(run_folder)[:-KEPT]:
        remove_folder(folder)
    return target


def load_checkpoint(folder: PathLike, like: Any, *, whole: bool = True) -> tuple[Any, dict[str, Any]]:
    """The saved pytree in the structure of `like` (arrays or ShapeDtypeStructs), and its `extra`.

    Unless it is asked for as a whole, there may be more in it than in `like`.
    """
    header = read_checkpoint(folder)
    places, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {jax.tree_util.keystr(place): leaf for place, leaf in places}
    file = Path(folder) / ARRAYS
    try:
        with storage_errors("read", file):
            saved, arrays = modern_checkpoint(header.leaves, load_file(file))
        if difference := _first_difference(saved, wanted, whole):
            raise UserError(f"The checkpoint {folder} does not fit the present settings: {difference}.")
        leaves = [_restore(arrays.get(name), saved[name], leaf) for name, leaf in wanted.items()]
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is damaged: its arrays do not fit {HEADER}.") from error
    return jax.tree_util.tree_unflatten(structure, leaves), header.extra


def read_checkpoint(folder: PathLike) -> CheckpointHeader:
    """Read what a checkpoint says of itself, and check all its bytes against their checksums."""
    file = Path(folder) / HEADER
    with storage_errors("read", folder):
        if not file.is_file():
            raise UserError(f"{folder} is not a complete checkpoint: {HEADER} is missing.")
    content = read_versioned_json(file, what="checkpoint", format_name=FORMAT, version=FORMAT_VERSION)
    if content.pop("header_sha256", None) != _checksum(content):
        raise UserError(f"{file} is damaged: its content does not match its checksum.")
    content.setdefault("attached", {})  # checkpoints of offline runs had none at first
    hints = get_type_hints(CheckpointHeader)
    for key, hint in hints.items():
        kind = get_origin(hint) or hint
        if not isinstance(content.get(key), kind):
            raise UserError(f"{file} is damaged: {key!r} is missing or not of type {kind.__name__}.")
    for name, expected in {ARRAYS: content["sha256"], **content["attached"]}.items():
        with storage_errors("read", folder):
            if not (Path(folder) / name).is_file():
                raise UserError(f"{folder} is not a complete checkpoint: {name} is missing.")
        if sha256_of(Path(folder) / name) != expected:
            raise UserError(f"{Path(folder) / name} is damaged: its content does not match the checksum in {HEADER}.")
    return CheckpointHeader(**{key: content[key] for key in hints})


def list_checkpoints(run_folder: PathLike) -> list[Path]:
    """The run's checkpoints from oldest to newest; leftovers of interrupted writes are not among them."""
    folder = Path(run_folder) / "checkpoints"
    with storage_errors("read", folder):
        entries = list(folder.iterdir()) if folder.is_dir() else []
    found = [entry for entry in entries if _STEP_FOLDER.fullmatch(entry.name)]
    return sorted(found, key=lambda entry: int(entry.name.removeprefix("step_")))


def latest_checkpoint(run_folder: PathLike) -> Path | None:
    """The run's newest checkpoint, or None if there is none; a damaged one is never passed over silently."""
    found = list_checkpoints(run_folder)
    if not found:
        return None
    try:
        read_checkpoint(found[-1])
    except UserError as error:
        remedy = "there is no older checkpoint to go on from"
        if len(found) > 1:
            remedy = f"delete the folder {found[-1]} to go on from the older {found[-2].name}"
        raise UserError(f"{str(error).removesuffix('.')}; {remedy}.") from error
    return found[-1]


def _checksum(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode()).hexdigest()


def save_arrays(arrays: dict[str, np.ndarray], file: Path) -> None:
    """Write arrays by their names; what the disk has to say against it is an OSError."""
    try:
        save_file(arrays, file)
    except SafetensorError as error:
        # safetensors tells a full disk in words only; the sentence for people is chosen by the number.
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error)) from error


def _pack(state: Any) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    """Split a pytree into arrays that safetensors can hold and a JSON description of every leaf."""
    arrays, leaves = {}, {}
    for place, leaf in jax.tree_util.tree_leaves_with_path(state):
        name = jax.tree_util.keystr(place)
        leaves[name] = _describe(leaf, name)
        if leaves[name]["kind"] == "python":
            leaves[name]["value"] = leaf.hex() if isinstance(leaf, float) else leaf
        elif leaves[name]["kind"] == "key":
            leaves[name]["implementation"] = str(jax.random.key_impl(leaf))
            arrays[name] = np.asarray(jax.random.key_data(leaf), order="C")
        else:
            array = np.asarray(leaf, order="C")
            # Types that numpy lacks, such as bfloat16, are stored as unsigned integers with the same bits.
            arrays[name] = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
    return arrays, leaves


def _describe(leaf: Any, name: str) -> dict[str, Any]:
    if isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic):
        return {"kind": "python", "dtype": type(leaf).__name__}
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape") or leaf.dtype == object:
        raise TypeError(f"leaf {name} of the state is neither array nor number: {type(leaf).__name__}")
    kind = "key" if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else "array"
    return {"kind": kind, "dtype": str(leaf.dtype), "shape": list(leaf.shape)}


def _restore(stored: np.ndarray | None, description: Mapping[str, Any], like: Any) -> Any:
    if description["kind"] == "python":
        value = description["value"]
        return float.fromhex(value) if description["dtype"] == "float" else value
    if stored is None:
        raise ValueError("an array is missing")
    if description["kind"] == "key":
        return jax.random.wrap_key_data(jnp.array(stored), impl=description["implementation"])
    array = stored.view(like.dtype) if stored.dtype != like.dtype else stored
    if list(array.shape) != description["shape"]:
        raise ValueError("an array has the wrong shape")
    if isinstance(like, np.ndarray):
        return array
    return array[()] if isinstance(like, np.generic) else jnp.array(array)


def _first_difference(saved: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Any], whole: bool) -> str | None:
    for name, leaf in wanted.items():
        if name not in saved:
            return f"it has no {name}"
        expected = _describe(leaf, name)
        found = {key: saved[name].get(key) for key in expected}
        if found != expected:
            described = [" ".join(str(value) for value in d.values()) for d in (found, expected)]
            return f"{name} is {described[0]} there and {described[1]} here"
    unwanted = [name for name in saved if name not in wanted] if whole else []
    return f"it has {unwanted[0]}, which is unknown here" if unwanted else None
