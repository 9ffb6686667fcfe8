"""A sweep that is stopped leaves no process behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from r2a.errors import UserError
from r2a.experiments import harness
from r2a.experiments.presets import experiment
from r2a.training.course import Interrupted

WAITS = "import time; time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_workers_too(monkeypatch, tmp_path, number):
    started = []

    def start_worker(*_):
        started.append(subprocess.Popen([sys.executable, "-c", WAITS]))
        os.kill(os.getpid(), number)
        return started[-1]

    monkeypatch.setattr(harness, "start_worker", start_worker)
    monkeypatch.setattr(harness, "is_done", lambda *_: False)
    with pytest.raises(Interrupted):
        harness.sweep(experiment("causalworld"), "smoke", tmp_path, tmp_path, dataset="any", workers=1)
    assert [process.poll() for process in started] == [-signal.SIGTERM]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": 0}, "at least one process"),
        ({"only": "breakout-7"}, "No run of the smoke scale has 'breakout-7' in its name; ra_r2d2-breakout-0 is one"),
        ({"dataset": "some-data"}, "learnt while acting: --dataset makes no difference"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(tmp_path, options, sentence):
    with pytest.raises(UserError, match=sentence):
        harness.sweep(experiment("minatar"), "smoke", tmp_path, tmp_path, **options)


def test_a_run_that_fails_is_told_with_its_log(monkeypatch, tmp_path):
    fails = [sys.executable, "-c", "raise SystemExit(1)"]
    monkeypatch.setattr(harness, "start_worker", lambda *_: subprocess.Popen(fails))
    with pytest.raises(UserError, match=r"Run ra_r2d2-breakout-0 failed; its log is .*ra_r2d2-breakout-0\.log"):
        harness.sweep(experiment("minatar"), "smoke", tmp_path, tmp_path, workers=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process that its parent died")
def test_a_worker_stops_when_its_sweep_is_killed():
    worker = (
        f"from r2a.experiments.harness import stop_with_parent; stop_with_parent(); print('up', flush=True); {WAITS}"
    )
    begins = f"child = subprocess.Popen([sys.executable, '-c', {worker!r}]); print(child.pid, flush=True)"
    parent = f"import subprocess, sys; {begins}; child.wait()"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert process.stdout.readline() == "up\n"
        process.kill()
    until = time.time() + 60
    while is_running(child) and time.time() < until:
        time.sleep(0.1)
    assert not is_running(child)


def is_running(process: int) -> bool:
    """Whether a process is there, and not only waits to be counted by its parent."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
