"""CausalWorld: a small sweep from collecting to the table, far goals, films, swaps by hand, data that do not fit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageSequence

from r2a.cli import main
from r2a.config import override
from r2a.data.dataset import OfflineDataset
from r2a.environments.babyai import BabyAISettings
from r2a.environments.causalworld import WORLD, CausalWorldSettings
from r2a.errors import UserError
from r2a.experiments.causalworld import EXPERIMENT, LAPTOP, SMOKE
from r2a.experiments.harness import has_data, has_settings
from r2a.training.collect import collect
from r2a.training.offline import OfflineRun
from r2a.training.runs import settle


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A smoke sweep of two arms, as a user would run it."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("ra_bc_multi", "bc"):
            only = f"{name}-4"
            assert main(["sweep", "causalworld", "--scale", "smoke", "--only", only, "--results", "results"]) == 0
    return folder


def test_a_sweep_goes_from_collecting_to_the_table(swept):
    records = json.loads((swept / "results" / "smoke" / "summary.json").read_text())
    assert {record["arm"] for record in records} >= {"ra_bc_multi", "bc"}
    assert {record["task"] for record in records} == {"all", "pushing", "picking"}
    assert set(records[0]) >= {"arm", "task", "demonstrations", "seeds", "success", "fractional", "low", "high"}
    assert all(0 <= record["success"] <= 1 and np.isfinite(record["fractional"]) for record in records)
    assert (swept / "results" / "smoke" / "success_by_demonstrations.png").is_file()
    table = (swept / "results" / "smoke" / "table.md").read_text()
    assert "RA-BC, multi-task" in table
    assert "82 %" in table
    assert "data with far goals" in table
    bc, reader = (
        json.loads((swept / f"results/smoke/runs/{arm}-4-0.json").read_text()) for arm in ("bc", "ra_bc_multi")
    )
    what = {"evaluation", "dataset", "training_data"}
    assert bc["far_goals"].keys() == what  # it reads nothing: there is nothing to swap
    assert reader["far_goals"].keys() == what | {"far_data"}
    assert reader["far_goals"]["far_data"]["per_task"].keys() == {"pushing", "picking"}
    assert "weight" in reader
    assert "weight" not in bc
    assert "own share; most from" in table
    run, data = next(EXPERIMENT.runs("smoke")), str(swept / "datasets" / "causalworld-smoke")
    assert has_settings(reader, run)
    assert has_data(reader, run, data)
    assert not has_data(reader | {"dataset": "other"}, run, data)
    for far_goals in ({}, reader["far_goals"] | {"dataset": "other"}):
        assert not has_data(reader | {"far_goals": far_goals}, run, data)
    far = OfflineDataset.open(swept / "datasets" / "causalworld-smoke-far")
    assert far.manifest["provenance"]["settings"]["env"]["goals"] == "space_b"


def test_an_episode_of_every_task_can_be_seen(swept, monkeypatch, capsys):
    monkeypatch.chdir(swept)
    run = next((swept / "runs" / "sweep" / "smoke").glob("bc-4-0"))
    assert main(["evaluate", str(run), "--videos", "videos", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"mean", "per_task", "fraction"}
    for task in ("pushing", "picking"):
        with Image.open(swept / "videos" / f"{task}.gif") as film:
            shown = [(picture.info["duration"], picture.size) for picture in ImageSequence.Iterator(film)]
        # Every second of the first and 75 more, and the last; a film shows pictures that are alike as one.
        assert sum(duration for duration, _ in shown) == 39 * 80
        assert {size for _, size in shown} == {(320, 240)}


def test_a_swap_by_hand_reads_all_of_the_other_data(swept, monkeypatch, capsys):
    monkeypatch.chdir(swept)
    far = replace(WORLD.collect, tasks=("pushing", "picking"), episodes=3, env=CausalWorldSettings(goals="space_b"))
    collect("causalworld", far, "datasets/few")
    ask = ["evaluate", "runs/sweep/smoke/ra_bc_multi-4-0", "--retrieve-from", "few", "--env.goals", "space_b"]
    assert main([*ask, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per_task"]["all_tasks"].keys() == {"pushing", "picking"}
    for option in (["--retrieve-from", "few"], ["--values", "shuffled"]):
        assert main(["evaluate", "runs/sweep/smoke/bc-4-0", *option]) == 2
        assert "reads nothing" in capsys.readouterr().err
    (swept / "occupied").write_text("")
    assert main(["evaluate", "runs/sweep/smoke/bc-4-0", "--videos", "occupied/videos"]) == 2
    assert "choose another folder for videos" in " ".join(capsys.readouterr().err.split())


def test_a_missing_simulator_is_told_before_anything_is_learnt(swept, monkeypatch):
    def missing(environment, settings):
        raise UserError(f"{environment} needs packages")

    monkeypatch.setattr("r2a.training.offline.spec_of", missing)
    with pytest.raises(UserError, match="causalworld needs packages"):
        OfflineRun(SMOKE, OfflineDataset.open(swept / "datasets" / "causalworld-smoke"))


def test_data_of_another_rate_layout_or_task_are_refused(swept):
    dataset = OfflineDataset.open(swept / "datasets" / "causalworld-smoke")
    faster = override(SMOKE, {"env.skip_frame": 5})
    with pytest.raises(UserError, match=r"lasts 10 frames, and env.skip-frame is 5; set it to 10"):
        settle(faster, dataset)
    with pytest.raises(UserError, match=r"has shape \(100,\), and CausalWorld's are 148 numbers"):
        settle(SMOKE, replace(dataset, manifest=dataset.manifest | {"observation_shape": [100]}))
    with pytest.raises(UserError, match="shows numbers, and the run's environments would not"):
        settle(override(SMOKE, {"env.cameras": (1,)}), dataset)
    with pytest.raises(UserError, match="has 2 tasks; 5 were asked for"):
        settle(LAPTOP, dataset)
    with pytest.raises(UserError, match="episodes of causalworld, not of babyai"):
        settle(replace(SMOKE, environment="babyai", env=BabyAISettings()), dataset)
