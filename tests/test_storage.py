"""Atomic files and folders: all or nothing, whatever happens, a kill at any moment included."""

import errno
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from r2a.errors import UserError
from r2a.storage import atomic_folder, atomic_write_text, remove_leftovers, sha256_of, storage_errors

# Kills a child before its n-th call that changes the disk, for every n there is, and looks at what is left.
KILL_AT_EVERY_MOMENT = """
import os, signal, sys
from pathlib import Path
from r2a import storage

def arm(countdown):
    left = [countdown]
    def wrap(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call
    for name in ("rename", "replace", "fsync", "mkdir", "unlink", "rmdir"):
        setattr(os, name, wrap(getattr(os, name)))

def write(target, value):
    with storage.atomic_folder(target, overwrite=True) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(value)

target = Path(sys.argv[1]) / "folder"
write(target, "0")
for moment in range(1, 100):
    pid = os.fork()
    if pid == 0:
        arm(moment)
        write(target, str(moment))
        os._exit(0)
    finished = os.waitpid(pid, 0)[1] == 0
    storage.remove_leftovers(target.parent)
    assert [entry.name for entry in target.parent.iterdir()] == ["folder"], moment
    values = {file.read_text() for file in target.iterdir()}
    assert len(values) == 1 and len(list(target.iterdir())) == 2, (moment, values)
    if finished:
        break
print(moment)
"""


def write_or_fail(path, error=None, overwrite=False, text="new"):
    with atomic_folder(path, overwrite=overwrite) as folder:
        (folder / "file").write_text(text)
        if error is not None:
            raise error


def test_a_folder_appears_when_the_block_ends(tmp_path):
    with atomic_folder(tmp_path / "deep" / "folder") as folder:
        (folder / "file").write_text("content")
        assert not (tmp_path / "deep" / "folder").exists()
    assert (tmp_path / "deep" / "folder" / "file").read_text() == "content"
    assert len(list((tmp_path / "deep").iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), SystemExit()])
def test_an_error_leaves_nothing(tmp_path, error):
    with pytest.raises(type(error)):
        write_or_fail(tmp_path / "deep" / "deeper" / "folder", error)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept_unless_told(tmp_path):
    write_or_fail(tmp_path / "folder", text="old")
    with pytest.raises(UserError, match="already exists"):
        write_or_fail(tmp_path / "folder")
    with pytest.raises(ValueError, match="midway"):
        write_or_fail(tmp_path / "folder", ValueError("midway"), overwrite=True)
    assert (tmp_path / "folder" / "file").read_text() == "old"
    write_or_fail(tmp_path / "folder", overwrite=True)
    assert (tmp_path / "folder" / "file").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_at_the_last_moment_keeps_the_old_folder(tmp_path, monkeypatch, call):
    write_or_fail(tmp_path / "folder", text="old")
    original = os.rename

    def fail(source, *rest):
        if call == "fsync" or ".partial-" in str(source):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(source, *rest)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(UserError, match="the disk is full; free some space"):
        write_or_fail(tmp_path / "folder", overwrite=True)
    monkeypatch.undo()
    assert (tmp_path / "folder" / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    atomic_write_text(tmp_path / "file", "old")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match="the disk is full"):
        atomic_write_text(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission denied"),
        (errno.ENOTDIR, "is a file"),
        (errno.ENOENT, "does not exist"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_sentences_for_disk_trouble(number, words):
    with (
        pytest.raises(UserError, match=rf"^Cannot write some/path: .*{words}.*\.$"),
        storage_errors("write", "some/path"),
    ):
        raise OSError(number, os.strerror(number))


def test_a_path_below_a_file(tmp_path):
    (tmp_path / "file").write_text("content")
    with pytest.raises(UserError, match="a part of the path is a file"):
        write_or_fail(tmp_path / "file" / "folder")
    with pytest.raises(UserError, match="a part of the path is a file"):
        atomic_write_text(tmp_path / "file" / "deeper" / "text", "")
    assert (tmp_path / "file").read_text() == "content"


def test_reading_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read .*does not exist"):
        sha256_of(tmp_path / "nothing")


def test_leftovers_of_the_living_are_spared(tmp_path):
    for name in (
        f".a.partial-{os.getppid()}-00000000",
        f".a.partial-{os.getpid()}-00000000",
        ".a.partial-x",
        "b",
    ):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        f".a.partial-{os.getppid()}-00000000",
        ".a.partial-x",
        "b",
    }


def test_killed_at_every_moment_a_folder_is_old_or_new(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_MOMENT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 8


def test_an_array_that_the_disk_has_no_room_for(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(UserError, match="the disk is full"), storage_errors("write", tmp_path):
            np.save(tmp_path / "large.npy", np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
