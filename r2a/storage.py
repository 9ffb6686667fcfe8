"""Files that are written whole or not at all, checksums, and disk trouble told in one sentence."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from r2a.errors import UserError

PathLike = str | os.PathLike[str]

# Tells this process's unfinished files from those of a dead one with the same id (as in containers).
_PROCESS_TOKEN = secrets.token_hex(4)
_LEFTOVER = re.compile(r"\.(?P<name>.+)\.(?P<kind>partial|replaced)-(?P<pid>\d+)-(?P<token>[0-9a-f]{8})")

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another folder",
    errno.EROFS: "the disk is read-only; choose a folder that can be written to",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "the operation is not permitted; choose another folder or change its permissions",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another path",
    errno.ENOENT: "it does not exist; check the path",
    errno.EISDIR: "it is a folder, not a file; check the path",
    errno.EEXIST: "it already exists; choose another name or remove it",
    errno.ENOTEMPTY: "it already exists; choose another name or remove it",
    errno.EFBIG: "the file is too large for this disk or your limits; choose another folder",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EIO: "the disk reported an input/output error; check the disk",
}


@contextlib.contextmanager
def storage_errors(action: Literal["read", "write"], path: PathLike) -> Iterator[None]:
    """Turn an OSError into a UserError that says what could not be done and what to do about it."""
    try:
        yield
    except OSError as error:
        # numpy tells in words alone that only a part of an array could be written.
        number = errno.ENOSPC if error.errno is None and " requested and " in str(error) else error.errno
        reason = _REMEDIES.get(number or 0) or error.strerror or str(error)
        raise UserError(f"Cannot {action} {path}: {reason}.") from error


def sha256_of(path: PathLike) -> str:
    """The hexadecimal SHA-256 of a file's bytes."""
    with storage_errors("read", path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_versioned_json(path: PathLike, *, what: str, format_name: str, version: int) -> dict[str, Any]:
    """Read one of our JSON files; one that is damaged, foreign or too new raises a UserError."""
    with storage_errors("read", path):
        content = Path(path).read_bytes()
    try:
        header = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not valid JSON.") from error
    if not isinstance(header, dict) or header.get("format") != format_name:
        raise UserError(f"{path} does not describe an r2a {what} (its format is not {format_name!r}).")
    found = header.get("format_version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise UserError(f"{path} is damaged: its format_version is {found!r}.")
    if found > version:
        raise UserError(
            f"{path} was written by a newer r2a (format version {found}, this one reads up to {version}); "
            "upgrade r2a to use it."
        )
    return header


def atomic_write_text(path: PathLike, text: str) -> None:
    """Write a text file whole or not at all, replacing an existing one."""
    atomic_write_bytes(path, text.encode())


def atomic_write_bytes(path: PathLike, data: bytes) -> None:
    """Write a file whole or not at all, replacing an existing one."""
    with _unfinished(path) as (partial, target):
        partial.write_bytes(data)
        _sync(partial)
        os.replace(partial, target)


@contextlib.contextmanager
def atomic_folder(path: PathLike, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends well, and vanishes otherwise."""
    refuse_existing(path, overwrite=overwrite)
    with _unfinished(path) as (partial, target):
        partial.mkdir()
        yield partial
        for parent, _, files in os.walk(partial):
            for entry in (*files, "."):
                _sync(os.path.join(parent, entry))
        _move_into_place(partial, target, overwrite)


@contextlib.contextmanager
def _unfinished(path: PathLike) -> Iterator[tuple[Path, Path]]:
    """Where to write what the block then moves to its target; if it fails, nothing is left, missing parents neither."""
    target = Path(os.path.abspath(path))
    partial, missing = _sibling(target, "partial"), [parent for parent in target.parents if not parent.exists()]
    with storage_errors("write", path):
        if not missing and not target.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target.parent))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(target.parent, target.name)
            yield partial, target
            _sync(target.parent)
        except BaseException:
            _remove(partial)
            for parent in missing:
                with contextlib.suppress(OSError):
                    parent.rmdir()
            raise


def refuse_existing(path: PathLike, *, overwrite: bool) -> None:
    """Raise a UserError if something is at `path` and overwriting it was not asked for."""
    if not overwrite and os.path.lexists(path):
        raise UserError(f"{path} already exists; choose another name, remove it, or ask to overwrite it.")


def remove_folder(path: PathLike) -> None:
    """Delete a folder so that an interruption leaves no half-deleted folder under its name."""
    doomed = _sibling(Path(os.path.abspath(path)), "partial")
    with storage_errors("write", path):
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def remove_leftovers(folder: PathLike, name: str | None = None) -> None:
    """Delete what killed writers left in `folder` (of target `name`, or all); put back what they moved."""
    with storage_errors("read", folder):
        entries = list(Path(folder).iterdir())
    for entry in entries:
        match = _LEFTOVER.fullmatch(entry.name)
        if match is None or name not in (None, match["name"]) or _is_in_use(int(match["pid"]), match["token"]):
            continue
        target = entry.with_name(match["name"])
        if match["kind"] == "replaced" and not os.path.lexists(target):
            with contextlib.suppress(OSError):
                os.rename(entry, target)
        else:
            _remove(entry)


def _sibling(path: Path, kind: Literal["partial", "replaced"]) -> Path:
    return path.with_name(f".{path.name}.{kind}-{os.getpid()}-{_PROCESS_TOKEN}")


def _is_in_use(pid: int, token: str) -> bool:
    if pid == os.getpid():
        return token == _PROCESS_TOKEN
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _move_into_place(partial: Path, target: Path, overwrite: bool) -> None:
    if not (overwrite and os.path.lexists(target)):
        os.rename(partial, target)
        return
    # A folder with content cannot be renamed over: the old one steps aside, and back if anything fails.
    old = _sibling(target, "replaced")
    os.rename(target, old)
    try:
        os.rename(partial, target)
    except BaseException:
        os.rename(old, target)
        raise
    _remove(old)


def _sync(path: PathLike) -> None:
    """Have a file, or the names in a folder, written to the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
