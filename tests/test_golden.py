"""The first steps of every agent in every world, and of two laptop presets, as recorded before the house was rebuilt.

What is compared is what people see: the metrics that `r2a train` writes, and the fingerprints of the data that `r2a
collect` makes. A processor with other vector units adds numbers in another order, and an online run then soon does
something else; so every file has figures of several kinds of processor, and on others only names are compared.
`R2A_RECORD=1 pytest tests/test_golden.py` records those of this one anew.

Agents that differ from another in a setting alone are left out, unless R2A_GOLDEN is `all`: `make golden`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_house import crossed, said

from r2a.cli import main
from r2a.data.dataset import find_dataset
from r2a.training.metrics import read_metrics

GOLDEN = Path(__file__).parent / "golden"
LEVELS = (
    *("GoToObj", "GoToRedBallGrey", "GoToLocal", "PickupLoc", "OpenDoor", "GoToDoor", "ActionObjDoor"),
    *("PutNextLocal", "OpenRedBlueDoors", "OpenTwoDoors", "OpenDoorsOrderN4", "UnlockPickupDist"),
)
COLLECT = {
    "gridroboman-smoke": ["gridroboman", "--episodes", "80", "--num-tasks", "3"],
    "gridroboman-scripted": ["gridroboman", "--episodes", "400", "--num-tasks", "10"],
    "babyai-smoke": ["babyai", "--episodes", "48", "--tasks", "GoToObj", "GoToLocal", "PutNextLocal"],
    "babyai-laptop": ["babyai", "--episodes", "240", "--tasks", *LEVELS],
    "causalworld-smoke": ["causalworld", "--episodes", "4", "--tasks", "pushing", "picking"],
}
AGENTS = {
    "gridroboman": ("ra_dqn", "dqn", "dqn_matched", "ra_dqn_random"),
    "babyai": ("ra_rdqn_multi", "rdqn", "ra_rdqn_single", "ra_rdqn_multi_no_ib", "ra_rdqn_random", "rdqn_auxiliary"),
    "causalworld": ("ra_bc_multi", "bc", "ra_bc_single", "bc_matched", "ra_bc_random"),
    "minatar": ("ra_r2d2", "r2d2", "ra_r2d2_slots_only", "r2d2_auxiliary"),
    "atari": ("ra_r2d2", "r2d2"),
}
ALL = os.environ.get("R2A_GOLDEN") == "all"
WAYS = {
    ("gridroboman", "ra_dqn"): "files with a function that runs in `r2a train`, from data",
    ("minatar", "ra_r2d2"): "files with a function that runs in `r2a train`, while acting",
}
"""The runs that go through the house as docs/architecture.md tells."""
DATA = {"gridroboman": "gridroboman-smoke", "babyai": "babyai-smoke", "causalworld": "causalworld-smoke"}
SHORT = ["--steps-per-call", "5", "--evaluate-every", "10", "--checkpoint-every", "10", "--steps", "10"]
LAPTOP = {
    "gridroboman": (["--agent", "ra_dqn", *SHORT, "--learner.schedule-steps", "2500"], "gridroboman-scripted"),
    "babyai": (["--agent", "ra_rdqn_multi", *SHORT, "--learner.schedule-steps", "1500"], "babyai-laptop"),
}
EVALUATED_LESS = {"gridroboman": [], "babyai": ["--evaluation.episodes", "2", "--evaluation.retrieval-batches", "1"]}


def processor() -> str:
    """What decides the order in which numbers are added: the vector units that this processor has."""
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return " ".join(sorted(flag for flag in flags.split() if flag.startswith(("avx", "fma", "amx"))))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


def have_dataset(place: Path, name: str) -> None:
    if not (place / "datasets" / name).is_dir():
        assert main(["collect", *COLLECT[name], "--name", name, "--root", str(place / "datasets")]) == 0


def compare(name: str, found: dict[str, Any]) -> None:
    file, kind = GOLDEN / f"{name}.json", processor()
    records = json.loads(file.read_text()) if file.is_file() else {}
    if os.environ.get("R2A_RECORD"):
        records[kind] = found
        file.write_text(json.dumps(records, indent=1) + "\n")
    golden = records.get(kind) or next(iter(records.values()))
    assert [line.keys() for line in found["metrics"]] == [line.keys() for line in golden["metrics"]]
    assert [line["step"] for line in found["metrics"]] == [line["step"] for line in golden["metrics"]]
    if kind not in records:
        return
    assert found.get("dataset") == golden.get("dataset")
    for ours, theirs in zip(found["metrics"], golden["metrics"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6), f"step {theirs['step']}"


def run(place: Path, world: str, dataset: str, options: list[str]) -> dict[str, Any]:
    if dataset:
        have_dataset(place, dataset)
        options = [*options, "--datasets", str(place / "datasets")]
    number = sum(1 for _ in place.glob("runs/*"))
    folder = place / "runs" / str(number)
    runs = ["--runs", str(folder.parent), "--name", folder.name, "--no-tensorboard"]
    assert main(["train", world, *options, *runs]) == 0
    lines = [{k: v for k, v in line.items() if not k.startswith("time/")} for line in read_metrics(folder)]
    fingerprint = {"dataset": find_dataset(place / "datasets" / dataset).fingerprint} if dataset else {}
    return {**fingerprint, "metrics": lines}


@pytest.mark.parametrize(
    ("world", "agent"), [(world, agent) for world, own in AGENTS.items() for agent in (own if ALL else own[:2])]
)
def test_a_smoke_run_is_as_recorded(place: Path, world: str, agent: str):
    options, dataset = ["--preset", "smoke", "--agent", agent], DATA.get(world, "")
    if dataset:
        have_dataset(place, dataset)
    row = WAYS.get((world, agent))
    if row is None:
        compare(f"{world}-{agent}", run(place, world, dataset, options))
        return
    found: dict[str, Any] = {}
    files = crossed(lambda: found.update(run(place, world, dataset, options)))
    compare(f"{world}-{agent}", found)
    # Fewer, where an earlier test of the same process has made what is made once.
    assert 40 <= len(files) <= said(row)[0], sorted(files)


@pytest.mark.parametrize("world", LAPTOP if ALL else list(LAPTOP)[:1])
def test_a_laptop_preset_begins_as_recorded(place: Path, world: str):
    options, dataset = LAPTOP[world]
    compare(f"{world}-laptop", run(place, world, dataset, [*options, *EVALUATED_LESS[world]]))
