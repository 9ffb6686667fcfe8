"""Metrics: valid JSON lines, and the same lines after a resume as without an interruption."""

import json
import math
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2a.errors import UserError
from r2a.training.metrics import MetricsWriter, read_metrics, read_run_config, start_run


def write_steps(folder, steps, resume_at_step=None):
    with MetricsWriter(folder, resume_at_step) as writer:
        for step in steps:
            writer.write(step, {"rl/td_loss": step / 3, "eval/return": step})


def test_lines_are_json_and_read_back(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, {"rl/td_loss": jnp.float32(0.1), "aux/action_loss": np.float64(2), "eval/count": 3})
        assert len(read_metrics(tmp_path)) == 1
        writer.write(2, {"rl/td_loss": jnp.array(jnp.nan), "time/a": -math.inf, "retrieval/kl": math.inf})
    lines = read_metrics(tmp_path)
    assert lines[0] == {
        "step": 1,
        "rl/td_loss": float(np.float32(0.1)),
        "aux/action_loss": 2.0,
        "eval/count": 3,
    }
    assert math.isnan(lines[1]["rl/td_loss"])
    assert (lines[1]["time/a"], lines[1]["retrieval/kl"]) == (-math.inf, math.inf)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.floats(), min_size=1, max_size=20),
    checkpoint=st.integers(0, 20),
    torn=st.integers(0, 40),
)
def test_a_resumed_run_has_the_lines_of_an_undisturbed_one(tmp_path_factory, values, checkpoint, torn):
    undisturbed, resumed = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    checkpoint = min(checkpoint, len(values))

    def run(folder, start, resume_at_step=None):
        with MetricsWriter(folder, resume_at_step) as writer:
            for step in range(start, len(values) + 1):
                writer.write(step, {"rl/td_loss": values[step - 1]})

    run(undisturbed, 1)
    run(resumed, 1)
    with open(resumed / "metrics.jsonl", "ab") as file:
        file.write((json.dumps({"step": len(values) + 1, "rl/td_loss": 0.123456789}) + "\n").encode()[:torn])
    run(resumed, checkpoint + 1, resume_at_step=checkpoint)
    assert (resumed / "metrics.jsonl").read_bytes() == (undisturbed / "metrics.jsonl").read_bytes()


def test_several_lines_of_a_step_are_kept_together(tmp_path):
    write_steps(tmp_path, [10, 20, 20, 30])
    write_steps(tmp_path, [21], resume_at_step=20)
    assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20, 20, 21]


def test_a_torn_last_line_is_not_read(tmp_path):
    write_steps(tmp_path, [1, 2])
    os.truncate(tmp_path / "metrics.jsonl", (tmp_path / "metrics.jsonl").stat().st_size - 1)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1]


def test_damage_in_the_middle_is_named_and_nothing_is_cut(tmp_path):
    write_steps(tmp_path, [1, 2, 3])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "metrics.jsonl").write_text("\n".join([lines[0], "garbage", lines[2], ""]))
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="damaged in line 2"):
        read_metrics(tmp_path)
    with pytest.raises(UserError, match="damaged in line 2"):
        MetricsWriter(tmp_path, resume_at_step=3)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_existing_metrics_are_not_mixed_with_new_ones(tmp_path):
    write_steps(tmp_path, [1])
    with pytest.raises(UserError, match="already holds metrics"):
        MetricsWriter(tmp_path)
    assert len(read_metrics(tmp_path)) == 1


@pytest.mark.parametrize("name", ["loss", "loss/td", "rl/", "step"])
def test_names_belong_to_a_group(tmp_path, name):
    with MetricsWriter(tmp_path) as writer, pytest.raises(ValueError, match="one of the groups"):
        writer.write(1, {name: 1.0})


def test_steps_do_not_go_back(tmp_path):
    write_steps(tmp_path, [5])
    with (
        MetricsWriter(tmp_path, resume_at_step=5) as writer,
        pytest.raises(ValueError, match="must not go back: 4 after 5"),
    ):
        writer.write(4, {})


def test_a_killed_writer_loses_no_complete_line(tmp_path):
    program = f"""
import os, signal
from r2a.training.metrics import MetricsWriter
writer = MetricsWriter({str(tmp_path)!r})
for step in range(100):
    writer.write(step, {{"rl/td_loss": 0.5}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert [line["step"] for line in read_metrics(tmp_path)] == list(range(100))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
def test_a_full_disk(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with MetricsWriter(tmp_path) as writer, pytest.raises(UserError, match="the disk is full"):
        writer.write(1, {"rl/td_loss": 1.0})


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a part of the path is a file"):
        MetricsWriter(tmp_path / "file" / "run")
    with pytest.raises(UserError, match="a part of the path is a file"):
        start_run(tmp_path / "file" / "run", {})
    with pytest.raises(UserError, match="a part of the path is a file"):
        start_run(tmp_path / "file", {})


def test_reading_metrics_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_metrics(tmp_path)


def test_tensorboard_mirror(tmp_path):
    with MetricsWriter(tmp_path, tensorboard=True) as writer:
        writer.write(1, {"rl/td_loss": 1.0, "retrieval/kl": math.nan})
    events = list((tmp_path / "tensorboard").iterdir())
    assert len(events) == 1
    assert b"rl/td_loss" in events[0].read_bytes()


def test_tensorboard_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"pip install 'r2a\[log\]'"):
        MetricsWriter(tmp_path, tensorboard=True)


def test_a_run_folder_is_started_once(tmp_path):
    folder = start_run(tmp_path / "runs" / "first", {"preset": "laptop"})
    assert read_run_config(folder) == {"preset": "laptop"}
    with pytest.raises(UserError, match="already exists; go on with --resume"):
        start_run(folder, {"preset": "paper"})
    assert read_run_config(folder) == {"preset": "laptop"}
    with pytest.raises(UserError, match="not empty and holds no run"):
        start_run(tmp_path / "runs", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1}', "does not describe an r2a run"),
        ('{"format": "r2a-run", "format_version": 2}', "newer r2a"),
        ('{"format": "r2a-run", "format_version": 1}', "'config' is missing"),
    ],
)
def test_run_configs_that_are_not_ours(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=words):
        read_run_config(tmp_path)


def test_no_run_there(tmp_path):
    with pytest.raises(UserError, match=r"has no config\.json"):
        read_run_config(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        read_run_config(tmp_path / "nothing")
