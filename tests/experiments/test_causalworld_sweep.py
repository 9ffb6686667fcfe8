"""Table 2: its arms, a real small sweep from collecting to the table, and how its figures are made."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from PIL import Image, ImageSequence
from test_presets import differences

from r2a.cli import main
from r2a.config import RetrievalConfig, RunConfig, config_from_dict
from r2a.data.dataset import OfflineDataset
from r2a.errors import UserError
from r2a.experiments.causalworld import analysis
from r2a.experiments.causalworld.presets import ARMS, CONTROLS, LAPTOP, PRESETS, SMOKE, arm, size_of
from r2a.experiments.causalworld.sweep import EXPERIMENT, SCALES, all_runs
from r2a.training.collect.causalworld import CausalWorldCollectConfig, collect
from r2a.training.offline import train
from r2a.training.tasks import choose_tasks, settle_tasks


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ra_bc_multi", set()),
        ("ra_bc_single", {"data.retrieve_from"}),
        ("ra_bc_random", {"data.retrieve_from"}),
    ],
)
def test_an_arm_changes_exactly_what_it_names(name, changed):
    assert differences(asdict(LAPTOP), asdict(arm(LAPTOP, name))) == changed


def test_bc_has_nothing_of_retrieval_and_all_else():
    bc = arm(LAPTOP, "bc")
    assert bc.agent.retrieval == RetrievalConfig(variant="none")
    assert replace(bc, agent=replace(bc.agent, retrieval=LAPTOP.agent.retrieval)) == LAPTOP


def test_the_matched_baseline_has_as_many_parameters():
    sizes = {name: size_of(arm(LAPTOP, name)) for name in ARMS}
    assert (sizes["bc"], sizes["ra_bc_multi"]) == (94_175, 432_005)  # as the runs' results say
    assert sizes["bc_matched"] == pytest.approx(sizes["ra_bc_multi"], rel=0.005)
    assert differences(asdict(arm(LAPTOP, "bc")), asdict(arm(LAPTOP, "bc_matched"))) == {
        "agent.encoder.hidden",
        "agent.head.hidden",
    }


def test_so_it_has_where_pictures_are_seen():
    seeing = replace(
        SMOKE,
        causalworld=replace(SMOKE.causalworld, cameras=(0, 2), side=32),
        agent=replace(SMOKE.agent, encoder=replace(SMOKE.agent.encoder, features="strided_half")),
    )
    small, matched, full = (size_of(arm(seeing, name)) for name in ("bc", "bc_matched", "ra_bc_multi"))
    assert small < full
    assert matched == pytest.approx(full, rel=0.05)


def test_every_run_has_valid_settings_and_a_name_of_its_own():
    for scale, settings in SCALES.items():
        runs = list(all_runs(scale))
        assert len({run.name for run in runs}) == len(runs)
        each = {name: settings.demonstrations for name in ARMS} | dict.fromkeys(CONTROLS, (settings.controls,))
        assert len(runs) == settings.seeds * sum(map(len, each.values()))
        assert all(run.demonstrations in each[run.arm] for run in runs)
        assert all(run.config().data.episodes_per_task == run.demonstrations for run in runs)
    final = SCALES["laptop"].final_evaluation
    assert final.episodes * final.retrieval_batches >= 50
    for config in PRESETS.values():
        assert config_from_dict(RunConfig, json.loads(json.dumps(asdict(config)))) == config


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
    assert set(records[0]) == {"arm", "task", "demonstrations", "seeds", "success", "fractional", "low", "high"}
    assert all(0 <= record["success"] <= 1 and np.isfinite(record["fractional"]) for record in records)
    assert (swept / "results" / "smoke" / "success_by_demonstrations.png").is_file()
    table = (swept / "results" / "smoke" / "table.md").read_text()
    assert "RA-BC, multi-task" in table
    assert "82 %" in table
    assert "reads data with far goals" in table
    bc, reader = (
        json.loads((swept / f"results/smoke/runs/{arm}-4-0.json").read_text()) for arm in ("bc", "ra_bc_multi")
    )
    what = {"evaluation", "dataset", "training_data"}
    assert bc["far_goals"].keys() == what  # it reads nothing: there is nothing to swap
    assert reader["far_goals"].keys() == what | {"far_data"}
    assert reader["far_goals"]["far_data"]["per_task"].keys() == {"pushing", "picking"}
    assert "weight" in reader
    assert "weight" not in bc
    assert "own share" in table
    run, data = next(iter(all_runs("smoke"))), str(swept / "datasets" / "causalworld-smoke")
    assert EXPERIMENT.comes_from(reader, run, data)
    for far_goals in ({}, reader["far_goals"] | {"dataset": "other"}):
        assert not EXPERIMENT.comes_from(reader | {"far_goals": far_goals}, run, data)
    far = OfflineDataset.open(swept / "datasets" / "causalworld-smoke-far")
    assert far.manifest["provenance"]["settings"]["goals"] == "space_b"


def test_an_episode_of_every_task_can_be_seen(swept, monkeypatch, capsys):
    monkeypatch.chdir(swept)
    run = next((swept / "runs" / "sweep" / "smoke").glob("bc-4-0"))
    assert main(["evaluate", str(run), "--films", "films", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"mean", "per_task", "fraction"}
    for task in ("pushing", "picking"):
        with Image.open(swept / "films" / f"{task}.gif") as film:
            shown = [(picture.info["duration"], picture.size) for picture in ImageSequence.Iterator(film)]
        # Every second of the first and 75 more, and the last; a film shows pictures that are alike as one.
        assert sum(duration for duration, _ in shown) == 39 * 80
        assert {size for _, size in shown} == {(320, 240)}


def test_a_swap_by_hand_reads_all_of_the_other_data(swept, monkeypatch, capsys):
    monkeypatch.chdir(swept)
    collect(CausalWorldCollectConfig(tasks=("pushing", "picking"), episodes=3, goals="space_b"), "datasets/few")
    ask = ["evaluate", "runs/sweep/smoke/ra_bc_multi-4-0", "--retrieve-from", "few", "--goals", "space_b"]
    assert main([*ask, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per_task"]["all_tasks"].keys() == {"pushing", "picking"}
    for option in (["--retrieve-from", "few"], ["--values", "shuffled"]):
        assert main(["evaluate", "runs/sweep/smoke/bc-4-0", *option]) == 2
        assert "reads nothing" in capsys.readouterr().err
    (swept / "occupied").write_text("")
    assert main(["evaluate", "runs/sweep/smoke/bc-4-0", "--films", "occupied/films"]) == 2
    assert "choose another folder for the films" in " ".join(capsys.readouterr().err.split())


def test_a_missing_simulator_is_told_before_anything_is_learnt(swept, monkeypatch, tmp_path):
    def missing(environment):
        raise UserError(f"{environment} needs packages")

    monkeypatch.setattr("r2a.training.offline.require_world", missing)
    run, dataset = choose_tasks(SMOKE, OfflineDataset.open(swept / "datasets" / "causalworld-smoke"))
    with pytest.raises(UserError, match="causalworld needs packages"):
        train(run, tmp_path / "run", dataset)
    assert not (tmp_path / "run").exists()


def test_data_of_another_rate_layout_or_task_are_refused(swept):
    dataset = OfflineDataset.open(swept / "datasets" / "causalworld-smoke")
    faster = replace(SMOKE, causalworld=replace(SMOKE.causalworld, skip_frame=5))
    with pytest.raises(UserError, match=r"lasts 10 frames, and causalworld.skip-frame is 5; set it to 10"):
        settle_tasks(faster, dataset)
    columns = {**dataset.columns, "observation": dataset.columns["observation"][..., :100]}
    with pytest.raises(UserError, match=r"has shape \(100,\), and CausalWorld's are 148 numbers"):
        settle_tasks(SMOKE, replace(dataset, columns=columns))
    looking = replace(SMOKE, causalworld=replace(SMOKE.causalworld, cameras=(1,)))
    with pytest.raises(UserError, match="shows numbers, and the run's worlds would not"):
        settle_tasks(looking, dataset)
    told = replace(SMOKE, data=replace(SMOKE.data, task_input="one_hot"))
    with pytest.raises(UserError, match=r"data.task-input is one_hot, but what is seen in causalworld tells the task"):
        settle_tasks(told, dataset)
    with pytest.raises(UserError, match="has 2 tasks; 5 were asked for"):
        settle_tasks(LAPTOP, dataset)
    with pytest.raises(UserError, match="episodes of causalworld, not of babyai"):
        settle_tasks(replace(SMOKE, environment="babyai"), dataset)


def run(name, demonstrations, seed, solved, covered):
    tasks = {"pushing": solved, "picking": 0.0}
    return {
        "arm": name,
        "demonstrations": demonstrations,
        "seed": seed,
        "per_task": {"right": tasks},
        "fraction": {"right": {"pushing": covered, "picking": covered}},
    }


def test_records_are_means_over_seeds_with_intervals():
    seeds = [run("bc", 10, 0, 0.4, 0.5), run("bc", 10, 1, 0.6, 0.7), run("bc", 10, 2, 0.2, 0.6)]
    runs = [*seeds, run("ra_bc_multi", 10, 0, 1.0, 0.9), run("ra_bc_multi", 10, 1, 1.0, 0.9)]
    records = analysis.summarise(runs)
    whole = next(r for r in records if r["arm"] == "bc" and r["task"] == "all")
    assert (whole["success"], whole["fractional"], whole["seeds"]) == (0.2, 0.6, 3)
    half = 4.303 * np.std([0.2, 0.3, 0.1], ddof=1) / np.sqrt(3)
    assert whole["high"] == pytest.approx(0.2 + half, abs=1e-4)
    assert whole["low"] == 0.0  # a share is not below
    alone = next(r for r in records if r["arm"] == "ra_bc_multi" and r["task"] == "pushing")
    assert (alone["success"], alone["low"]) == (1.0, None)  # of two that are alike one cannot tell
    text = analysis.table(records)
    assert "| BC | 20 % (" in text
    assert "| pushing | 40 % (60) | 100 % (90) |" in text
