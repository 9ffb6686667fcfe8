"""A run that is killed, interrupted or poisoned loses nothing."""

from __future__ import annotations

import json
import resource
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
from r2a.environments.registry import world_of
from r2a.errors import UserError
from r2a.experiments.gridroboman import SMOKE
from r2a.experiments.presets import arm
from r2a.training.checkpoint import latest_checkpoint
from r2a.training.collect import collect
from r2a.training.course import refuse_nan
from r2a.training.metrics import read_metrics
from r2a.training.offline import OfflineRun
from r2a.training.train import train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data set that the smoke preset names."""
    folder = tmp_path_factory.mktemp("resume")
    collect_boards(folder / "datasets" / "gridroboman-smoke")
    return folder


def collect_boards(path: Path, episodes: int = 40, seed: int = 0) -> OfflineDataset:
    settings = replace(world_of("gridroboman").collect, episodes=episodes, num_tasks=3, seed=seed)
    return collect("gridroboman", settings, path, overwrite=True)


def open_boards(place: Path) -> OfflineDataset:
    return OfflineDataset.open(place / "datasets" / "gridroboman-smoke")


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


LONG = ("--steps", "400", "--evaluate-every", "200")
"""Long enough for a signal to come in its midst."""


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    """A run that nothing has stopped, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", "--preset", "smoke", "--name", "whole", *LONG]) == 0
    return place / "runs" / "whole"


def test_a_run_that_is_interrupted_and_then_killed_resumes_bit_identically(
    place: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, options = place / "runs" / "stopped", ("--name", "stopped", *LONG)
    for number in (signal.SIGINT, signal.SIGKILL):
        process = start(place, *options)
        stop_midway(process, folder, number)
        assert 0 < steps_done(folder) < 40, "the run was over before the signal came"
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert "--resume" in process.stdout.read()  # type: ignore[union-attr]
        options = ("--resume", "runs/stopped")
    monkeypatch.chdir(place)
    assert main(["train", *options]) == 0
    assert without_times(folder) == without_times(whole)
    checkpoints = [latest_checkpoint(which) for which in (folder, whole)]
    one, other = (load_file(next(c.glob("*.safetensors"))) for c in checkpoints if c is not None)
    assert one.keys() == other.keys()
    for leaf in one:
        np.testing.assert_array_equal(one[leaf], other[leaf])


def test_a_run_folder_is_never_overwritten(place: Path):
    folder = place / "occupied"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="resume"):
        train(OfflineRun(SMOKE, open_boards(place)), folder)
    assert (folder / "config.json").read_text() == "{}"


def test_nan_stops_with_one_sentence(tmp_path: Path):
    with pytest.raises(UserError, match="last good state"):
        refuse_nan({"rl/loss": float("nan")}, 100, tmp_path)
    refuse_nan({"rl/loss": 1.0}, 100, tmp_path)


def test_nan_keeps_the_last_good_checkpoint(place: Path):
    """A learning rate that overflows must not replace a good state by a broken one."""
    broken = replace(SMOKE, learner=replace(SMOKE.learner, learning_rate=1e30))
    with pytest.raises(UserError, match="became"):
        train(OfflineRun(broken, open_boards(place)), place / "runs" / "nan")
    newest = latest_checkpoint(place / "runs" / "nan")
    if newest is not None:
        arrays = load_file(next(newest.glob("*.safetensors")))
        assert all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")


def test_a_run_goes_on_only_with_its_own_data_and_settings(place: Path, tmp_path: Path):
    config, folder = arm(SMOKE, "dqn"), tmp_path / "run"

    class EnoughError(Exception):
        pass

    def enough(progress):
        if progress.step == 10:
            raise EnoughError

    with pytest.raises(EnoughError):
        train(OfflineRun(config, open_boards(place)), folder, watch=enough)
    with pytest.raises(UserError, match="was trained on other data"):
        train(OfflineRun(config, collect_boards(tmp_path / "other", seed=5)), folder, resume=True)
    with pytest.raises(UserError, match="was started with other settings"):
        train(OfflineRun(replace(config, seed=1), open_boards(place)), folder, resume=True)
    assert [line["step"] for line in read_metrics(folder)] == [10]
    run = train(OfflineRun(config, open_boards(place)), folder, resume=True)
    assert run.steps == config.steps
    assert [line["step"] for line in read_metrics(folder)] == [10, 20, 30, 40]


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(place: Path, tmp_path: Path, monkeypatch):
    whole = OfflineRun.save

    def full(run, *rest):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            if run.steps > 20:  # no file may get any larger: the system refuses as it does when a disk is full
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            return whole(run, *rest)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(OfflineRun, "save", full)
    config, dataset = arm(SMOKE, "dqn"), open_boards(place)
    with pytest.raises(UserError, match=r"Cannot write .*too large for this disk or your limits"):
        train(OfflineRun(config, dataset), tmp_path / "run")
    monkeypatch.undo()
    newest = latest_checkpoint(tmp_path / "run")
    assert newest is not None
    assert newest.name == "step_00000020"
    assert train(OfflineRun(config, dataset), tmp_path / "run", resume=True).steps == config.steps


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
        (["train", "checkers"], "There is no environment 'checkers'"),
        (["train", "--name", "mine", "minatar"], "`r2a train minatar [OPTIONS]`"),
        (["train", "--resume", "no/such/run"], "no/such/run"),
        (["evaluate", "--json", "no/such/run"], "`r2a evaluate no/such/run [OPTIONS]`"),
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
    assert error.count("\n") == 1
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


def test_evaluate_swaps_the_data_set(
    place: Path, whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    assert (whole / "returns.png").is_file()
    collect_boards(place / "datasets" / "other", seed=5)
    assert main(["evaluate", "runs/whole", "--retrieve-from", "other", "--source", "right", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["per_task"]["right"]) == {"touch red", "touch green", "touch blue"}
    collect_boards(place / "datasets" / "tiny", episodes=4, seed=5)
    assert main(["evaluate", "runs/whole", "--retrieve-from", "tiny"]) == 2
    assert "retrieval episodes" in capsys.readouterr().err
    collect_boards(place / "elsewhere" / "gridroboman-smoke", seed=5)  # another data set that has taken its name
    assert main(["evaluate", "runs/whole", "--datasets", "elsewhere"]) == 2
    assert "is not what runs/whole was trained with any more" in capsys.readouterr().err
    assert main(["train", "--resume", "runs/whole", "--datasets", "elsewhere"]) == 2
    assert "was trained on other data" in capsys.readouterr().err
