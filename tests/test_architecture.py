"""The house rules that a linter does not know: who may import whom, and how large a file may grow."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "r2a"
FILES = sorted(PACKAGE.rglob("*.py"))
GROUND = {"errors", "storage", "types", "config", "records"}
LOWER = GROUND | {"networks", "retrieval", "agents", "data", "environments"}

# Which rooms a room may import from, besides itself. Imports go one way: there is no circle.
MAY_IMPORT = {
    "__init__": set(),
    "errors": set(),
    "storage": {"errors"},
    "types": set(),
    "config": {"errors"},
    "records": {"types"},
    "networks": GROUND,
    "retrieval": GROUND | {"networks"},
    "agents": GROUND | {"networks", "retrieval"},
    "data": GROUND,
    "environments": GROUND,
    "training": LOWER,
    "experiments": LOWER | {"training"},
    "viewer": GROUND | {"data", "environments"},
    "commands": LOWER | {"training", "experiments", "viewer"},
    "cli": LOWER | {"training", "experiments", "viewer", "commands"},
}
# The viewer shows what it is given: it draws boards, and neither plays nor learns.
VIEWER_MAY_SEE = ("r2a.data.dataset", "r2a.environments.gridroboman.render", "r2a.environments.gridroboman.dynamics")
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "shared"}


def module_name(file):
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def room(module):
    """The part of the package a module belongs to: r2a.data.dataset is in data; r2a itself is __init__."""
    return module.split(".")[1] if "." in module else "__init__"


def imported_modules(file):
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively, from a place that cannot be read off the line"
            base = node.module or ""
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                is_module = (PACKAGE.parent / whole.replace(".", "/")).with_suffix(".py").is_file()
                is_package = (PACKAGE.parent / whole.replace(".", "/")).is_dir()
                found.add(whole if is_module or is_package else base)
    return {name for name in found if name == "r2a" or name.startswith("r2a.")}


@pytest.mark.parametrize("file", FILES, ids=[module_name(file) for file in FILES])
def test_imports_go_one_way(file):
    own = room(module_name(file))
    assert own in MAY_IMPORT, f"{own} is a new room: say here what it may import"
    for module in imported_modules(file):
        target = room(module)
        # r2a itself holds the version, which anyone may ask for.
        allowed = target in (own, "__init__") or target in MAY_IMPORT[own]
        assert allowed, f"{module_name(file)} imports {module}: {own} may not know {target}"
        if own == "viewer" and target in ("data", "environments"):
            assert module in VIEWER_MAY_SEE, f"{module_name(file)} imports {module}"


def test_the_rules_have_no_circle():
    order = []
    while len(order) < len(MAY_IMPORT):
        ready = [name for name, needs in MAY_IMPORT.items() if name not in order and needs <= set(order)]
        assert ready, f"a circle among {set(MAY_IMPORT) - set(order)}"
        order += ready


def test_the_rules_of_the_design_hold_in_the_table():
    assert not MAY_IMPORT["retrieval"] & {"agents", "data", "environments"}
    assert "environments" not in MAY_IMPORT["agents"]
    assert not MAY_IMPORT["networks"] & {"retrieval", "agents"}


def test_files_stay_short():
    lengths = {module_name(file): len(file.read_text().splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_names_say_what_is_inside():
    vague = [file for file in [*FILES, *PACKAGE.rglob("*/")] if file.stem.strip("_") in VAGUE_NAMES]
    assert vague == []
