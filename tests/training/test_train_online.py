"""Online runs from the command line: recorded, stopped, broken, gone on with, evaluated and filmed."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image
from test_resume import stop_midway, without_times

from r2a.cli import main
from r2a.config import override
from r2a.errors import UserError
from r2a.experiments.minatar import SMOKE
from r2a.experiments.presets import arm, preset
from r2a.training import learning
from r2a.training.checkpoint import latest_checkpoint, load_checkpoint
from r2a.training.learning import initial_state, learn
from r2a.training.metrics import read_metrics
from r2a.training.online import OnlineRun, load_run
from r2a.training.train import train

PLAIN = arm(SMOKE, "r2d2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an agent that reads has learnt a little."""
    folder = tmp_path_factory.mktemp("online")
    options = ["--preset", "smoke", "--env.game", "breakout", "--runs", str(folder), "--no-tensorboard"]
    assert main(["train", "minatar", *options]) == 0
    return folder


def test_a_run_says_how_it_went(trained: Path):
    folder = trained / "ra_r2d2-breakout-0"
    lines = read_metrics(folder)
    assert [line["step"] for line in lines] == list(range(40, 401, 40))
    assert [line["step"] for line in lines if "eval/score" in line] == [200, 400]
    last = lines[-1]
    assert last["rl/updates"] > 10
    assert last["rl/samples_per_insert"] == pytest.approx(1.0, abs=0.1)
    assert last["retrieval/age"] == 40
    assert any("rl/score" in line for line in lines)
    with Image.open(folder / "scores.png") as plot:
        assert plot.size[0] > 400


def test_a_trained_agent_is_evaluated_and_filmed(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(trained / "ra_r2d2-breakout-0")
    assert main(["evaluate", run, "--json", "--videos", str(tmp_path / "videos")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["scores"]) == SMOKE.evaluation.episodes
    assert result["score"] == pytest.approx(np.mean(result["scores"]))
    last = read_metrics(run)[-1]
    assert result["score"] == last["eval/score"]  # the checkpoint holds all that the score depends on
    with Image.open(tmp_path / "videos" / "breakout.gif") as film:
        middle = sorted(zip(result["scores"], result["lengths"], strict=True))[0]
        assert film.n_frames <= middle[1] + 1
        assert film.n_frames > 1
    assert main(["evaluate", run, "--episodes", "3"]) == 0
    assert "breakout" in capsys.readouterr().out
    assert main(["evaluate", f"{run}-misspelt", "--videos", str(tmp_path / "others")]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_what_is_read_can_be_swapped_and_must_fit(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = trained / "ra_r2d2-breakout-0"
    train(OnlineRun(override(PLAIN, {"env.game": "freeway"})), tmp_path / "freeway")
    own, other = load_run(run), load_run(run)
    other.read_from(own.replay)
    assert not np.array_equal(own.encoded.states, other.encoded.states)  # it does not begin with the agent's memory
    assert main(["evaluate", str(run), "--retrieve-from", str(tmp_path / "freeway")]) == 2
    assert "is about freeway" in capsys.readouterr().err
    for option in (("--retrieve-from", str(run)), ("--values", "shuffled")):
        assert main(["evaluate", str(tmp_path / "freeway"), *option]) == 2
        assert f"reads nothing: {option[0]} makes no difference" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--values", "shuffled", "--episodes", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["scores"]) == 2


def test_a_run_that_is_interrupted_and_then_killed_goes_on_as_if_it_had_not_stopped(tmp_path: Path, monkeypatch):
    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "r2a.cli", "train", *options]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    monkeypatch.chdir(tmp_path)
    new = ("minatar", "--preset", "smoke", "--env.game", "breakout", "--steps", "1200", "--name")
    assert main(["train", *new, "whole"]) == 0
    folder, options = tmp_path / "runs" / "stopped", (*new, "stopped")
    for number in (signal.SIGINT, signal.SIGKILL):
        process = start(*options)
        stop_midway(process, folder, number)
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert latest_checkpoint(folder) is not None
        assert len(read_metrics(folder)) < 30
        options = ("--resume", "runs/stopped")
    assert main(["train", *options]) == 0
    assert without_times(folder) == without_times(tmp_path / "runs" / "whole")
    assert load_state(folder) == load_state(tmp_path / "runs" / "whole")


def load_state(folder: Path) -> bytes:
    checkpoint = latest_checkpoint(folder)
    assert checkpoint is not None
    return (checkpoint / "state.safetensors").read_bytes()


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_what_led_there(tmp_path, monkeypatch):
    broken_at = 5

    def breaks(state, batch, config):
        state, metrics, priority = learn(state, batch, config)
        return state, metrics | {"rl/loss": np.float32(np.nan if int(state.step) > broken_at else 0.5)}, priority

    monkeypatch.setattr(learning, "learn", breaks)
    config = replace(PLAIN, checkpoint_every=40)
    with pytest.raises(UserError, match=r"rl/loss became nan in update 5.*not_finite.*learning-rate"):
        train(OnlineRun(config), tmp_path / "run")
    good = latest_checkpoint(tmp_path / "run")
    assert good is not None
    run = OnlineRun(config)
    run.restore(good)
    assert run.counts.updates <= broken_at
    kept = latest_checkpoint(tmp_path / "run" / "not_finite")
    assert kept is not None
    drawn = learning.draw(run.replay, config, 0)
    like = learning.learning_batch(*drawn, config.replay.burn_in, run.learner.stored_states)
    batch, _ = load_checkpoint(kept, like)
    assert batch.sequences.action.shape == (1, 4, 10)


def test_frames_that_are_too_many_for_the_memory_are_kept_on_the_disk(tmp_path):
    run = OnlineRun(override(PLAIN, {"replay.memory_share": 1e-9}), tmp_path)
    train(run, tmp_path / "on_disk")
    assert isinstance(run.replay.observation.base, np.memmap)
    in_memory = OnlineRun(PLAIN)
    train(in_memory, tmp_path / "in_memory")
    assert in_memory.replay.observation.base is None
    for one, other in zip(jax.tree.leaves(run.agent), jax.tree.leaves(in_memory.agent), strict=True):
        assert np.array_equal(one, other)
    assert {entry.name for entry in tmp_path.iterdir()} == {"on_disk", "in_memory"}


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    config = replace(PLAIN, checkpoint_every=80)
    whole = OnlineRun.save

    def full(run, *rest):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            if run.steps > 160:  # no file may get any larger: the system refuses as it does when a disk is full
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            return whole(run, *rest)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(OnlineRun, "save", full)
    with pytest.raises(UserError, match=r"Cannot write .*too large for this disk or your limits"):
        train(OnlineRun(config), tmp_path / "run")
    monkeypatch.undo()
    newest = latest_checkpoint(tmp_path / "run")
    assert newest is not None
    assert newest.name == "step_00000160"
    run = train(OnlineRun(config), tmp_path / "run", resume=True)
    assert run.steps == config.steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["minatar", "--env.game", "chess"], "There is no MinAtar game 'chess'"),
        (["atari", "--env.game", "pongg"], "did you mean pong"),
        (["minatar", "--agent", "ppo"], "choose one of ra_r2d2, r2d2, ra_r2d2_slots_only"),
        (["minatar", "--preset", "paper"], "no preset 'paper'; choose one of laptop, smoke"),
        (["minatar", "--steps", "41"], "multiple of"),
        (["minatar", "--replay.capacity", "40"], "may never be more than 28 whole sequences"),
        (["minatar", "--replay.burn-in", "20"], "replay.minimum is 30, but"),
        (["minatar", "--retrieval.length", "5"], "retrieval.length is 5, but"),
        (["minatar", "--retrieval.num-neighbours", "0", "--retrieval.k-states", "31"], "only 30 states are there"),
        (["minatar", "--learner.loss", "cloning"], "nobody to clone"),
        (["minatar", "--learner.loss", "sarsa"], "must be one of q_learning, squashed_q_lambda, cloning"),
        (["minatar", "--runs", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    preset = [] if "--preset" in options else ["--preset", "smoke"]
    assert main(["train", *options, *preset]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_only_the_same_run_is_gone_on_with(trained: Path):
    with pytest.raises(UserError, match="other settings"):
        train(OnlineRun(PLAIN), trained / "ra_r2d2-breakout-0", resume=True)


@pytest.mark.parametrize(("world", "game"), [("atari", "pong"), ("minatar", "breakout")])
def test_presets_learn_in_their_world(world, game, tmp_path):
    run = OnlineRun(arm(preset(world, "smoke"), "ra_r2d2" if world == "atari" else "r2d2"))
    train(run, tmp_path / "run")
    last = read_metrics(tmp_path / "run")[-1]
    assert run.counts.updates > 0
    assert ("eval/human_normalised" in last) == (world == "atari")
    assert main(["evaluate", str(tmp_path / "run"), "--videos", str(tmp_path / "videos")]) == 0
    with Image.open(tmp_path / "videos" / f"{game}.gif") as film:
        assert getattr(film, "n_frames", 1) > 10


def test_nothing_is_compiled_twice():
    run = OnlineRun(replace(PLAIN, seed=3))
    learn.clear_cache()
    while run.counts.updates < 3:
        run.turn()
    assert learn._cache_size() == 1
    reading = initial_state(SMOKE, run.actors.env.spec)
    assert not [leaf for leaf in jax.tree.leaves(reading) if getattr(leaf, "weak_type", False)]
