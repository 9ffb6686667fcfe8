"""A real Ray cluster on this machine: players, replay and learner are processes, some of which are killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import ray

from r2a.cli import main
from r2a.config import override
from r2a.errors import UserError
from r2a.experiments.minatar import SMOKE
from r2a.experiments.presets import arm
from r2a.training.checkpoint import latest_checkpoint, read_checkpoint
from r2a.training.cluster import ClusterRun, put_together
from r2a.training.learning import Learner
from r2a.training.metrics import read_metrics
from r2a.training.online import Chunk, OnlineRun
from r2a.training.train import train

pytestmark = pytest.mark.xdist_group("ray")
PLAIN = arm(SMOKE, "r2d2")


def chunk(lanes: int, rows: int, number: int) -> Chunk:
    flags = np.ones((lanes, rows), bool)
    numbers = np.full((lanes, rows), number, np.float32)
    return Chunk(
        np.full((lanes, rows, 2, 2), number, np.uint8),
        numbers.astype(np.int32),
        numbers,
        numbers,
        flags,
        flags,
        numbers[..., None],
        flags,
    )


def test_chunks_are_put_together_lane_by_lane_and_what_is_missing_is_not_present():
    whole = put_together([chunk(2, 3, 7), None, chunk(2, 5, 9)])
    assert whole.observation.shape == (6, 5, 2, 2)
    assert whole.present.sum(1).tolist() == [3, 3, 0, 0, 5, 5]
    assert whole.reward[:, 0].tolist() == [7, 7, 0, 0, 9, 9]
    assert whole.observation[4:].min() == 9


def process_of(actor) -> int:
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def turns(run: ClusterRun, count: int) -> None:
    for _ in range(count):
        run.turn()


def kill_learner(run: ClusterRun) -> None:
    """Kill it, and have it asked for something."""
    os.kill(process_of(run.learner), signal.SIGKILL)
    run._learn(0)


def wait_for_death(process: int) -> None:
    deadline = time.time() + 30
    while Path(f"/proc/{process}").exists() and time.time() < deadline:
        time.sleep(0.05)


def test_players_and_learner_are_replaced_when_they_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = ClusterRun(PLAIN, tmp_path, players=4)
    try:
        while run.counts.updates < 5:
            run.turn()
        assert run.replaced == {"players": 0, "learners": 0}
        first = run.save(tmp_path, 1.0, None)

        victim = process_of(run.players[2])
        os.kill(victim, signal.SIGKILL)
        wait_for_death(victim)
        before = run.counts
        for _ in range(6):
            run.turn()
        assert run.replaced["players"] == 1
        assert run.counts.sequences > before.sequences
        assert process_of(run.players[2]) != victim

        second = run.save(tmp_path, 2.0, first)
        saved = run.counts.updates
        for _ in range(2):
            run.turn()
        alone = OnlineRun(PLAIN)
        assert alone.restore(second) == 2.0  # a run of a cluster can go on in one process, and be evaluated there
        kill_learner(run)
        run._learnt()
        assert run.replaced["learners"] == 1
        assert run.counts.updates == saved
        for one, other in zip(jax.tree.leaves(run.agent), jax.tree.leaves(alone.agent), strict=True):
            assert np.array_equal(one, other)
        steps = [run.turn().metrics for _ in range(5)]
        assert run.counts.updates > saved
        assert all(np.isfinite(value) for step in steps for value in step.values())
        run._learnt()
        pace = run.pace_and_scores([])
        assert pace["rl/samples_per_insert"] == pytest.approx(PLAIN.acting.samples_per_insert, abs=0.1)
        assert any("rl/score" in step for step in steps)
        agent = run.agent
        assert not np.array_equal(jax.tree.leaves(agent)[0], jax.tree.leaves(Learner(PLAIN, run.spec).agent)[0])

        counts = run.counts
        assert run.restore(alone.save(tmp_path / "alone", 3.0, None)) == 3.0  # and the other way round
        assert run.counts.updates == saved < counts.updates
        alone.close()
        run.turn()

        monkeypatch.setattr("r2a.training.cluster.ROUNDS", 1)
        kill_learner(run)
        run._learnt()
        kill_learner(run)
        with pytest.raises(UserError, match="learner has died 2 times without getting any further"):
            run._learnt()

        os.kill(process_of(run.replay), signal.SIGKILL)
        with pytest.raises(UserError, match=r"held the replay has died.*--resume"):
            run.turn()
    finally:
        run.close()
    assert not ray.is_initialized()


def test_processes_that_do_not_answer_are_replaced_and_a_broken_step_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # one of our own is one of our own
    changes = {
        "learner.learning_rate": 1e30,
        "acting.refresh_turns": 2,
        "seed": 5,
        "steps": 2000,
        "evaluate_every": 400,
    }
    # Nothing breaks before there is something to learn from.
    config = override(SMOKE, {**changes, "replay.minimum": 100})
    run = ClusterRun(config, players=2, patience=20.0)
    try:
        ages = [run.turn().metrics["retrieval/age"] for _ in range(3)]
        assert ages == [40, 80, 120]  # drawn anew after every turn, it would be 80 from the second on
        stopped = process_of(run.players[1]), process_of(run.learner)
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        for _ in range(3):
            run.turn()
        assert (
            min(run.replaced.values()) >= 1
        )  # more, if the machine is so busy that a successor does not answer either
        assert process_of(run.players[1]) != stopped[0]
        assert process_of(run.learner) != stopped[1]
        with pytest.raises(UserError, match=r".* became (nan|inf) in update \d+.*not_finite.*learning-rate"):
            train(run, tmp_path / "run")
    finally:
        if ray.is_initialized():
            run.close()
    kept = latest_checkpoint(tmp_path / "run" / "not_finite")
    assert kept is not None
    assert read_checkpoint(kept).leaves[".sequences.action"]["shape"] == [1, 4, 10]


def ray_processes(session: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in listed if session in line]


def test_the_command_joins_a_cluster_goes_on_after_an_interrupt_and_leaves_nothing_behind(tmp_path: Path):
    # Local clusters leave a token behind, which Ray hands to some of what it starts and not to others.
    environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
    short = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets lie in it, whose names must not be long
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = subprocess.Popen(
        [
            *(Path(sys.executable).parent / "ray", "start", "--head", "--block", "--include-dashboard=false"),
            *("--num-cpus=2", f"--port={port}", f"--temp-dir={short}", "--disable-usage-stats"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    options = ["--preset", "smoke", "--env.game", "breakout", "--steps", "2000", "--name", "joined"]

    def start(address: str, *arguments: str) -> subprocess.Popen[str]:
        spread = ["--ray-address", address, "--players", "2"]
        command = [sys.executable, "-m", "r2a.cli", "train", *arguments, *spread]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)

    try:
        deadline = time.time() + 60
        while time.time() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        time.sleep(3.0)
        run = start("auto", "minatar", "--agent", "ra_r2d2", *options)
        folder = tmp_path / "runs" / "joined"
        deadline = time.time() + 600
        while run.poll() is None and (not (folder / "metrics.jsonl").exists() or len(read_metrics(folder)) < 12):
            assert time.time() < deadline
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=300) == 130, run.communicate()[0]
        assert latest_checkpoint(folder) is not None
        done = len(read_metrics(folder))
        again = start(f"127.0.0.1:{port}", "--resume", "runs/joined")
        assert again.wait(timeout=600) == 0, again.communicate()[0]
        lines = read_metrics(folder)
        assert len(lines) == 50 > done
        assert lines[-1]["rl/samples_per_insert"] == pytest.approx(1.0, abs=0.15)
        assert lines[-1]["retrieval/age"] == 80
        assert "eval/score" in lines[-1]
        assert head.poll() is None  # the cluster is not ours to stop
    finally:
        os.killpg(head.pid, signal.SIGKILL)  # asked politely, it would take half a minute
        head.wait(timeout=60)
        deadline = time.time() + 30
        while ray_processes(short) and time.time() < deadline:
            time.sleep(0.2)
        shutil.rmtree(short)
    assert ray_processes(short) == []


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match=r"acting.num-envs is 4.*players = 3"):
        ClusterRun(PLAIN, players=3)
    arguments = ["train", "minatar", "--preset", "smoke", "--runs", str(tmp_path), "--ray-address", "127.0.0.1:1"]
    assert main(arguments) == 2
    assert "no Ray cluster at '127.0.0.1:1'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_in_one_process_ray_is_not_even_imported(tmp_path: Path):
    program = (
        "import sys; from r2a.cli import main; "
        f"assert main(['train', 'minatar', '--preset', 'smoke', '--agent', 'r2d2', '--runs', {str(tmp_path)!r}]) == 0; "
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=600)
