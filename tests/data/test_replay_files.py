"""A replay on disk: restored exactly, whole when the run goes on, cheap when little is new, and damage is told."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
from test_replay import Pair

from r2a.config import ReplayConfig
from r2a.data import replay_files
from r2a.data.replay import SequenceReplay
from r2a.data.replay_files import load_replay, save_replay
from r2a.errors import UserError
from r2a.training.checkpoint import list_checkpoints, save_checkpoint

CONFIG = ReplayConfig(capacity=67, minimum=2, trace=5, period=2, burn_in=3, stack=2)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(replay_files, "SEGMENT_BYTES", 32)


def course(pair, seed):
    """Go on for a while; returns all that was seen."""
    rng, seen = np.random.default_rng(seed), []
    pair.rng = rng
    pair.add(40)
    for _ in range(6):
        pair.add(9)
        sampled = pair.replay.sample(5, rng)
        first, second = pair.replay.draw_apart(2, 3, rng)
        pair.replay.update_priorities(sampled.drawn.ids, rng.random(5))
        seen += [*sampled[1:], sampled.drawn.weight, *first.ids, *second.ids, second.probability]
    return [array.copy() for array in seen]


def another(pair, folder=None):
    """A new replay, with an oracle and rows to come as those of `pair`."""
    new = Pair(CONFIG, 2, pair.rng, folder)
    new.plain, new.is_open, new.next = pair.plain, list(pair.is_open), pair.next
    return new


@pytest.mark.parametrize("in_file", [False, True])
def test_all_goes_on_as_if_nothing_had_happened(tmp_path, in_file):
    live, again = (tmp_path / name if in_file else None for name in ("live", "again"))
    pair = Pair(CONFIG, 2, np.random.default_rng(0), live)
    course(pair, 1)
    save_replay(pair.replay, tmp_path / "saved")
    restored = another(pair, again)
    load_replay(restored.replay, tmp_path / "saved")
    restored.check()
    pair.plain = MagicMock()  # only one of the two may tell the oracle what follows
    expected, found = course(pair, 2), course(restored, 2)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    assert np.array_equal(pair.replay.tree.sums, restored.replay.tree.sums)
    restored.check()


def test_a_checkpoint_stays_valid_when_the_run_goes_on_and_is_lost(tmp_path):
    pair = Pair(CONFIG, 2, np.random.default_rng(0), tmp_path / "live")
    course(pair, 1)
    saved = save_checkpoint(
        tmp_path, {"x": np.zeros(1)}, step=1, config={}, attach=lambda f: save_replay(pair.replay, f / "replay")
    )
    expected = pair.replay.sample(9, np.random.default_rng(3))
    course(pair, 2)
    assert list((tmp_path / "live").iterdir()) == []  # the file has no name, and is gone with the process
    restored = another(pair)
    load_replay(restored.replay, saved / "replay")
    found = restored.replay.sample(9, np.random.default_rng(3))
    assert all(np.array_equal(a, b) for a, b in zip(expected[1:], found[1:], strict=True))


def test_what_has_not_changed_is_not_written_again(tmp_path):
    pair = Pair(replace(CONFIG, capacity=200), 2, np.random.default_rng(0))
    for _ in range(5):
        pair.add(60)
    previous = None
    for step in range(1, 5):
        saved = save_checkpoint(
            tmp_path,
            {"x": np.zeros(1)},
            step=step,
            config={},
            attach=lambda f, p=previous: save_replay(pair.replay, f / "replay", p),
        )
        files = sorted((saved / "replay").glob("frames_*.bin"))
        shared = [file for file in files if file.stat().st_nlink > 1]
        assert (len(shared) > len(files) / 2) == (step > 1)
        assert len(shared) < len(files)
        previous = saved / "replay"
        restored = Pair(replace(CONFIG, capacity=200), 2, pair.rng)
        load_replay(restored.replay, previous)
        restored.plain = pair.plain
        restored.check()
        pair.add(3)
    assert len(list_checkpoints(tmp_path)) == 2, "the older ones are gone, and took nothing with them"


def test_another_course_of_events_shares_nothing(tmp_path):
    pair = Pair(CONFIG, 2, np.random.default_rng(0))
    pair.add(40)
    save_replay(pair.replay, tmp_path / "one")
    restored = another(pair)
    load_replay(restored.replay, tmp_path / "one")
    restored.add(5)
    pair.add(5)
    save_replay(pair.replay, tmp_path / "two", tmp_path / "one")
    save_replay(restored.replay, tmp_path / "other", tmp_path / "two")
    assert all(file.stat().st_nlink == 1 for file in (tmp_path / "other").iterdir())


def test_damage_and_other_settings_are_told_in_a_sentence(tmp_path):
    pair = Pair(CONFIG, 2, np.random.default_rng(0))
    pair.add(40)
    save_replay(pair.replay, tmp_path / "saved")
    for name in ("chances.npy", "frames_00001.bin", "replay.json"):
        file = tmp_path / "saved" / name
        content = file.read_bytes()
        flip = (content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in (len(content) // 2, len(content) - 9))
        for damaged in (content[:-20], b"", *flip):
            file.write_bytes(damaged)
            with pytest.raises(UserError, match="damaged"):
                load_replay(another(pair).replay, tmp_path / "saved")
        file.unlink()
        with pytest.raises(UserError, match=f"not a complete replay: {name} is missing"):
            load_replay(another(pair).replay, tmp_path / "saved")
        file.write_bytes(content)
    other = SequenceReplay(replace(CONFIG, trace=6), pair.spec, 2)
    with pytest.raises(UserError, match="trace is 5, not 6"):
        load_replay(other, tmp_path / "saved")
    header = json.loads((tmp_path / "saved" / "replay.json").read_text())
    assert set(header["sha256"]) == {file.name for file in (tmp_path / "saved").iterdir()} - {"replay.json"}
