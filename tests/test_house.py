"""The counts of the house plan: one of each, and a world named nowhere but in its own folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from r2a.environments.registry import WORLDS
from r2a.experiments.presets import EXPERIMENTS

PACKAGE = Path(__file__).resolve().parent.parent / "r2a"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {str(file.relative_to(PACKAGE)): ast.parse(file.read_text()) for file in FILES}
LINES = 17_250
"""Of r2a/, at most."""


def outside(*rooms: str) -> dict[str, ast.Module]:
    """The modules that are in none of these rooms."""
    return {name: tree for name, tree in TREES.items() if not name.startswith(rooms)}


def documentation(tree: ast.Module) -> set[int]:
    """The string constants that stand alone: docstrings, of fields too."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_there_is_one_interface_for_stepping_and_one_inside_jit():
    found = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases):
                methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                if {"reset", "step"} <= methods:
                    found.append((name, node.name))
    assert found == [("environments/api.py", "VectorEnv"), ("environments/api.py", "PureEnv")]


def test_one_loop_steps_host_environments_and_one_those_inside_jit():
    """`env.step` anywhere else is not in a loop: the recorder asks what another task would pay for the same step."""
    steps = {name for name, tree in outside("environments").items() if re.search(r"\benv\.step\b", ast.unparse(tree))}
    assert steps == {"training/rollout.py", "training/rollout_pure.py", "training/record.py"}


def test_nothing_is_decided_by_the_name_of_an_environment():
    for name, tree in outside("environments").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                text = ast.unparse(node)
                assert not re.search(r"\benvironment\b\s*(==|!=|in\b)", text), f"{name}: {text}"


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


def test_the_package_stays_short():
    assert sum(len(file.read_text().splitlines()) for file in FILES) < LINES
