"""The counts of the house plan: one of each, and a world named nowhere but in its own folder.

What docs/architecture.md says in numbers is measured here; the files that a run goes through, in test_golden.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from contextlib import closing
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from r2a.environments.adapters import FromGymnasium
from r2a.environments.registry import WORLDS
from r2a.experiments.presets import EXPERIMENTS

PACKAGE = Path(__file__).resolve().parent.parent / "r2a"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {str(file.relative_to(PACKAGE)): ast.parse(file.read_text()) for file in FILES}
LINES = 15_500
"""Of r2a/, at most."""
ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"


def outside(*rooms: str) -> dict[str, ast.Module]:
    """The modules that are in none of these rooms."""
    return {name: tree for name, tree in TREES.items() if not name.startswith(rooms)}


def documentation(tree: ast.Module) -> set[int]:
    """The string constants that stand alone: docstrings, of fields too."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def said(row: str) -> list[int]:
    """The numbers in the last column of a row of the document's table."""
    rows = [line for line in ARCHITECTURE.read_text().splitlines() if line.startswith(f"| {row}")]
    assert len(rows) == 1
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", rows[0].split("|")[-2])]


def crossed(call: Callable[[], object]) -> set[str]:
    """The files of the package with a function that runs in a call."""
    found: set[str] = set()

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_flags & CO_OPTIMIZED:  # a function's, not the body of a class or a module
            found.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return {str(Path(file).relative_to(PACKAGE)) for file in found if file.startswith(f"{PACKAGE}/")}


def test_there_is_one_interface_for_stepping_and_one_inside_jit():
    found = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases):
                methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                if {"reset", "step"} <= methods:
                    found.append((name, node.name))
    assert found == [("environments/api.py", "VectorEnv"), ("environments/api.py", "PureEnv")]
    assert said("interfaces that step environments") == [1, 1]


def test_one_loop_steps_host_environments_and_one_those_inside_jit():
    """`env.step` anywhere else is not in a loop: the recorder asks what another task would pay for the same step."""
    steps = {name for name, tree in outside("environments").items() if re.search(r"\benv\.step\b", ast.unparse(tree))}
    assert steps == {"training/rollout.py", "training/rollout_pure.py", "training/record.py"}
    assert said("loops that step them") == [1, 1]


def test_nothing_is_decided_by_the_name_of_an_environment():
    found = []
    for name, tree in outside("environments").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                text = ast.unparse(node)
                found += [(name, text)] if re.search(r"\benvironment\b\s*(==|!=|in\b)", text) else []
    assert found == []
    assert said("decisions by an environment's name") == [0]


def test_one_place_lists_the_worlds():
    """A list of worlds is whatever has the names of several of them as constants."""
    lists = []
    for name, tree in TREES.items():
        documented = documentation(tree)
        constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in documented]
        if len({c.value.split(".")[-1] for c in constants if isinstance(c.value, str)} & WORLDS.keys()) > 1:
            lists.append(name)
    assert lists == ["environments/__init__.py"]
    assert said("lists of worlds") == [len(lists)]


@pytest.mark.parametrize("world", WORLDS)
def test_no_world_is_named_outside_its_folder(world: str):
    """Helps and examples may name worlds: people have to; code may not, but for the world's experiment."""
    for name, tree in outside("environments/", f"experiments/{world}.py").items():
        documented = documentation(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                assert world not in node.value.split("."), f"{name} names {world}: {node.value[:60]!r}"
            if isinstance(node, ast.ImportFrom | ast.Import) and not name.startswith("experiments/"):
                assert f".{world}" not in ast.unparse(node), f"{name}: {ast.unparse(node)}"
        assert name.startswith("experiments/") or f"environments.{world}" not in ast.unparse(tree)


def test_worlds_know_only_themselves():
    for name, tree in TREES.items():
        own = Path(name).parts[1] if name.startswith("environments/") and len(Path(name).parts) > 2 else ""
        for other in WORLDS:
            if own and other != own:
                assert f"environments.{other}" not in ast.unparse(tree), f"{name} knows {other}"


def test_there_is_one_registry_of_worlds_and_one_harness():
    assert list(EXPERIMENTS) == list(WORLDS)
    harnesses = [name for name, tree in TREES.items() if "subprocess.Popen" in ast.unparse(tree)]
    assert harnesses == ["experiments/harness.py"]
    assert said("experiment harnesses") == [1]


def test_any_gymnasium_environment_is_one_without_a_file_touched():
    with closing(FromGymnasium.registered("MountainCar-v0", 2)) as env:
        assert env.reset(env.spec.tasks * 2, [0, 1]).observation.shape == (2, 2)
        assert env.step(np.zeros(2, int)).reward.tolist() == [-1.0, -1.0]
    assert said("files to edit for a Gymnasium environment") == [0]


def test_the_package_stays_short():
    lines = sum(len(file.read_text().splitlines()) for file in FILES)
    assert lines < LINES
    assert said("lines of `r2a/`") == [-(-lines // 100) * 100]


def test_every_file_that_the_document_names_is_there():
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", ARCHITECTURE.read_text())
    assert len(named) > 30
    roots = (PACKAGE, PACKAGE.parent)
    assert [name for name in named if not any((root / name).is_file() for root in roots)] == []
