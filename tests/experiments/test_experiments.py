"""What holds of every experiment: its arms, presets and runs, its committed results, and sweeps from data to tables."""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import pytest

from r2a.cli import main
from r2a.errors import UserError
from r2a.experiments import gridroboman
from r2a.experiments.harness import choose_runs, has_settings, is_done, read_result
from r2a.experiments.presets import EXPERIMENTS, arm, experiment, preset
from r2a.training.runs import run_config

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "r2a" / "experiments").glob("*.py"))
VARIANT, READS = "agent.retrieval.variant", "experience.data.retrieve_from"
WIDER = {"agent.encoder.hidden", "agent.head.hidden"}
CHANGED = {
    "gridroboman": {"ra_dqn": set(), "dqn": {VARIANT}, "dqn_matched": {VARIANT, *WIDER}, "ra_dqn_random": {READS}},
    "babyai": {
        "ra_rdqn_multi": set(),
        "rdqn": {VARIANT},
        "ra_rdqn_single": {READS},
        "ra_rdqn_multi_no_ib": {"agent.retrieval.bottleneck"},
        "ra_rdqn_random": {READS},
        "rdqn_auxiliary": {VARIANT},
    },
    "causalworld": {
        "ra_bc_multi": set(),
        "bc": {"agent.retrieval"},
        "ra_bc_single": {READS},
        "bc_matched": {"agent.retrieval", *WIDER},
        "ra_bc_random": {READS},
    },
    "minatar": {"ra_r2d2": set(), "r2d2": {VARIANT}, "ra_r2d2_slots_only": {VARIANT}, "r2d2_auxiliary": {VARIANT}},
    "atari": {"ra_r2d2": set(), "r2d2": {VARIANT}, "ra_r2d2_slots_only": {VARIANT}, "r2d2_auxiliary": {VARIANT}},
}
every_world = pytest.mark.parametrize("world", EXPERIMENTS)


def differences(one: dict, other: dict, where: str = "") -> set[str]:
    found = set()
    for name, value in one.items():
        if isinstance(value, dict):
            found |= differences(value, other[name], f"{where}{name}.")
        elif value != other[name]:
            found.add(where + name)
    return found


@every_world
def test_an_arm_changes_exactly_what_it_names(world: str):
    config = preset(world, "laptop")
    assert list(experiment(world).arms) == list(CHANGED[world])
    for name, changed in CHANGED[world].items():
        found = differences(asdict(config), asdict(arm(config, name)))
        whole = {field for field in found if field.rpartition(".")[0] in changed or ".auxiliary." in field}
        assert found - whole == changed - {"agent.retrieval"}
        assert bool(whole) == ("agent.retrieval" in changed)


@every_world
def test_presets_are_valid_and_survive_json(world: str):
    presets = experiment(world).presets
    assert {"laptop", "smoke"} <= set(experiment(world).scales) == set(presets) - {"demo"}
    for config in presets.values():
        assert config.environment == world
        assert run_config(json.loads(json.dumps(asdict(config)))) == config


@every_world
def test_every_run_has_valid_settings_and_a_name_of_its_own(world: str):
    own = experiment(world)
    for name, scale in own.scales.items():
        runs = list(own.runs(name))
        assert len({run.name for run in runs}) == len(runs)
        comparisons = [(run.seed, *run.values.values()) for run in runs]
        assert len(list(groupby(comparisons))) == len(set(comparisons))  # one is finished before the next begins
        assert [run.seed for run in runs] == sorted(run.seed for run in runs)
        for run in runs[: len(own.arms)] + runs[-1:]:
            config = run.config
            assert (config.seed, config.environment) == (run.seed, world)
            result = {**run.about, "config": json.loads(json.dumps(asdict(config)))}
            assert has_settings(result, run)
            assert not has_settings(result | {"evaluation": {"episodes": -1}}, run)
            assert has_settings(result, runs[0]) == (run == runs[0])
        assert {run.seed for run in runs} == set(range(scale.seeds))


@every_world
def test_all_committed_results_are_of_the_settings_that_are_declared(world: str):
    own = experiment(world)
    runs = {run.name: run for run in own.runs("laptop")}
    files = sorted((ROOT / "results" / world / "laptop" / "runs").glob("*.json"))
    for file in files:
        run, result = runs[file.stem], read_result(file)
        about = {"world": world, **result}  # which older results do not name
        assert {name: about[name] for name in run.about} == run.about
        assert has_settings(result, run), file
    assert {file.stem for file in files} >= {run.name for run in choose_runs(own, "laptop", "")}


def expert_and_floor(num_tasks: int) -> dict[str, float]:
    """As committed: to play them anew takes minutes where programs are compiled fast rather than well."""
    records = json.loads((ROOT / "results" / "gridroboman" / "summary.json").read_text())
    return next({k: r[k] for k in ("expert", "floor")} for r in records if r["num_tasks"] == num_tasks)


@every_world
def test_a_sweep_of_what_is_committed_has_nothing_to_do_and_makes_the_tables_that_are_committed(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    committed = ROOT / "results" / world
    shutil.copytree(committed / "laptop", tmp_path / "results" / "laptop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gridroboman, "bounds_of", expert_and_floor)
    assert main(["sweep", world, "--results", "results"]) == 0
    count = len(choose_runs(experiment(world), "laptop", ""))
    assert f"{count} of {count} runs are done" in capsys.readouterr().out
    assert not (tmp_path / "datasets").exists()  # nothing is to be learnt, so nothing is collected
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (tmp_path / "results", committed))
    assert ours == theirs
    text = (tmp_path / "results" / "table.md").read_text()
    assert text == (committed / "table.md").read_text()
    assert max(map(len, text.splitlines())) <= 100
    pictures = {file.name for file in (tmp_path / "results").glob("*.png")}
    assert pictures
    assert pictures == {file.name for file in committed.glob("*.png")}


def test_results_of_other_settings_or_damaged_ones_are_refused_in_one_sentence(tmp_path: Path):
    run = next(experiment("minatar").runs("laptop"))
    file = run.file(tmp_path)
    assert not is_done(run, tmp_path)
    file.parent.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "minatar" / "laptop" / "runs" / file.name, file)
    assert is_done(run, tmp_path)
    assert is_done(run, tmp_path, "")
    result = read_result(file)
    result["config"]["learner"]["learning_rate"] = 1.0
    file.write_text(json.dumps(result))
    with pytest.raises(UserError, match="comes from other settings or data; move it away"):
        is_done(run, tmp_path)
    file.write_text("{}")
    with pytest.raises(UserError, match="is damaged; remove it"):
        is_done(run, tmp_path)


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(UserError, match="no experiment 'chess'; choose one of gridroboman, babyai"):
        experiment("chess")
    with pytest.raises(UserError, match="no preset 'gigantic'; choose one of paper, laptop, smoke"):
        preset("babyai", "gigantic")
    with pytest.raises(UserError, match="no agent 'ppo' for gridroboman; choose one of ra_dqn"):
        arm(gridroboman.LAPTOP, "ppo")
    with pytest.raises(UserError, match="no scale 'paper'; choose one of smoke, laptop"):
        list(experiment("minatar").runs("paper"))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"nonsense": 1}, "nonsense"), ({"steps": "many"}, "steps"), ({"environment": "chess"}, "environment")],
)
def test_a_damaged_config_is_refused_by_name(change: dict, named: str):
    with pytest.raises(UserError, match=named):
        run_config(asdict(gridroboman.LAPTOP) | change)


def code_of(file: Path) -> str:
    """The code of a file without comments and docstrings."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            told = [n for n in body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
            node.body = [n for n in body if n not in told] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_no_world_is_named_outside_its_own_file(file: Path):
    code = code_of(file).lower()
    named = {world for world in EXPERIMENTS if world in code}
    assert named <= {file.stem}


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_only_one_file_knows_how_training_is_done(file: Path):
    imported = [node.module or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    allowed = ("r2a.training.course", "r2a.training.collect")
    known = [module for module in imported if module.startswith("r2a.training") and not module.startswith(allowed)]
    assert not known or file.stem == "runs"


@pytest.mark.parametrize(
    ("world", "runs", "made"),
    [
        ("babyai", ("ra_rdqn_multi-24", "rdqn-24"), {"success_by_steps.png", "retrieved_from.png"}),
        ("minatar", ("r2d2-breakout",), {"score_by_steps.png", "score_by_seconds.png"}),
    ],
)
def test_a_sweep_goes_from_nothing_to_the_table(
    world: str,
    runs: tuple[str, ...],
    made: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    for part in runs:
        assert main(["sweep", world, "--scale", "smoke", "--only", part, "--workers", "1"]) == 0
    folder, own = tmp_path / "results" / world / "smoke", experiment(world)
    names = {file.stem for file in (folder / "runs").glob("*.json")}
    assert names == {f"{part}-0" for part in runs}
    records = json.loads((folder / "summary.json").read_text())
    assert {record["arm"] for record in records} == {name.split("-")[0] for name in names}
    assert all(record["seeds"] == 1 and record["low"] is None for record in records)
    assert made <= {file.name for file in folder.iterdir() if file.stat().st_size > 400}
    assert all(own.arms[record["arm"]].label in (folder / "table.md").read_text() for record in records)
    capsys.readouterr()
    assert main(["sweep", world, "--scale", "smoke", "--only", runs[-1], "--workers", "1"]) == 0
    assert "1 of 1 runs are done" in capsys.readouterr().out
    for name in names:
        run = next(run for run in own.runs("smoke") if run.name == name)
        result = read_result(run.file(tmp_path / "results" / world))
        assert {name: result[name] for name in run.about} == run.about
        assert result["evaluation"]
