"""A run that is killed, interrupted or poisoned loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from r2a.cli import main
from r2a.data.dataset import OfflineDataset
from r2a.errors import UserError
from r2a.experiments.gridroboman.presets import SMOKE
from r2a.training.checkpoint import latest_checkpoint
from r2a.training.collect.gridroboman import ScriptedConfig, collect
from r2a.training.course import refuse_nan
from r2a.training.metrics import read_metrics
from r2a.training.offline import train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data set that the smoke preset names."""
    folder = tmp_path_factory.mktemp("resume")
    collect(ScriptedConfig(episodes=40, num_tasks=3), folder / "datasets" / "gridroboman-smoke")
    return folder


def start(place: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "r2a.cli", "train", "--preset", "smoke", *options]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def steps_done(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def stop_midway(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    deadline, enough = time.time() + 400, steps_done(folder) + 2
    while steps_done(folder) < enough and process.poll() is None and time.time() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    process.wait(timeout=120)


def without_times(folder: Path) -> list[dict]:
    return [
        {name: value for name, value in line.items() if not name.startswith("time/")} for line in read_metrics(folder)
    ]


def test_a_run_that_is_interrupted_and_then_killed_resumes_bit_identically(place: Path):
    whole = start(place, "--name", "whole", "--steps", "400")
    assert whole.wait(timeout=500) == 0, whole.stdout.read() if whole.stdout else ""
    folder, options = place / "runs" / "stopped", ("--name", "stopped", "--steps", "400")
    for number in (signal.SIGINT, signal.SIGKILL):
        process = start(place, *options)
        stop_midway(process, folder, number)
        assert 0 < steps_done(folder) < 40, "the run was over before the signal came"
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert "--resume" in process.stdout.read()  # type: ignore[union-attr]
        options = ("--resume", "runs/stopped")
    resumed = start(place, *options)
    assert resumed.wait(timeout=600) == 0, resumed.stdout.read() if resumed.stdout else ""
    assert without_times(folder) == without_times(place / "runs" / "whole")
    checkpoints = [latest_checkpoint(place / "runs" / which) for which in ("stopped", "whole")]
    one, other = (load_file(next(c.glob("*.safetensors"))) for c in checkpoints if c is not None)
    assert one.keys() == other.keys()
    for leaf in one:
        np.testing.assert_array_equal(one[leaf], other[leaf])


def test_a_run_folder_is_never_overwritten(place: Path):
    dataset = OfflineDataset.open(place / "datasets" / "gridroboman-smoke")
    folder = place / "occupied"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="resume"):
        train(SMOKE, folder, dataset)
    assert (folder / "config.json").read_text() == "{}"


def test_nan_stops_with_one_sentence(tmp_path: Path):
    with pytest.raises(UserError, match="last good state"):
        refuse_nan({"rl/loss": float("nan")}, 100, tmp_path)
    refuse_nan({"rl/loss": 1.0}, 100, tmp_path)


def test_nan_keeps_the_last_good_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch):
    """A learning rate that overflows must not replace a good state by a broken one."""
    dataset = OfflineDataset.open(place / "datasets" / "gridroboman-smoke")
    broken = replace(SMOKE, learner=replace(SMOKE.learner, learning_rate=1e30))
    with pytest.raises(UserError, match="became"):
        train(broken, place / "runs" / "nan", dataset)
    newest = latest_checkpoint(place / "runs" / "nan")
    if newest is not None:
        arrays = load_file(next(newest.glob("*.safetensors")))
        assert all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "--retrieval.k-traj", "100"], "k-traj"),
        (["train", "--data.dataset", "nowhere"], "r2a collect"),
        (["train", "--data.tasks-per-step", "99"], "tasks-per-step"),
        (["evaluate", "no/such/run"], "no/such/run"),
        (["datasets", "verify", "nowhere"], "nowhere"),
        (["datasets", "show"], "Which data set"),
        (["nonsense"], "nonsense"),
        (["train", "--preset", "huge"], "huge"),
        (["collect", "gridroboman", "--seed", "-1"], "seed is -1"),
        (["collect", "gridroboman", "--method", "online", "--online.epsilon-fraction", "0"], "epsilon-fraction"),
        (
            ["collect", "gridroboman", "--method", "online", "--online.agent.retrieval.variant", "full"],
            "nothing to read",
        ),
        (["sweep", "gridroboman", "--workers", "0"], "--workers"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not any(tmp_path.iterdir())


def test_a_request_that_the_data_cannot_serve_leaves_no_run_folder(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    assert main(["train", "--preset", "smoke", "--data.num-tasks", "5", "--name", "five"]) == 2
    assert "5" in capsys.readouterr().err
    assert not (place / "runs" / "five").exists()


@pytest.mark.parametrize("command", ["train", "collect", "evaluate", "datasets", "sweep", "bench", "demo"])
def test_every_help_has_examples_and_no_source_comments(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert f"\n  r2a {command}" in text
    assert "(default" not in "".join(line for line in text.splitlines() if "Table" in line or " ours" in line)


def test_unknown_options_exit_with_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--no-such-option", "1"])
    assert stop.value.code == 2


def test_evaluate_swaps_the_data_set(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    if not (place / "runs" / "whole").exists():
        assert start(place, "--name", "whole", "--steps", "400").wait(timeout=500) == 0
    assert (place / "runs" / "whole" / "returns.png").is_file()
    collect(ScriptedConfig(episodes=40, num_tasks=3, seed=5), place / "datasets" / "other", overwrite=True)
    assert main(["evaluate", "runs/whole", "--retrieve-from", "other", "--source", "right", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["per_task"]["right"]) == {"touch red", "touch green", "touch blue"}
    collect(ScriptedConfig(episodes=4, num_tasks=3, seed=5), place / "datasets" / "tiny", overwrite=True)
    assert main(["evaluate", "runs/whole", "--retrieve-from", "tiny"]) == 2
    assert "retrieval episodes" in capsys.readouterr().err
