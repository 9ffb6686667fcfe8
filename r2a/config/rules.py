"""How settings are checked, and read back from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from r2a.errors import UserError

Config = TypeVar("Config")


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Refuse a setting with one sentence that names the field, the value and the rule."""
    if not condition:
        raise UserError(f"{name} is {value!r}, but {rule}.")


def require_positive(config: object, *names: str, section: str = "") -> None:
    """Refuse zero and negative values of the named fields, which are options --SECTION.NAME."""
    for name in names:
        value = getattr(config, name)
        require(value > 0, f"{section}{name.replace('_', '-')}", value, "it must be greater than zero")


def override(config: Config, *changes: Mapping[str, Any], where: str = "") -> Config:
    """The config with other values of some fields, named by dotted paths: {"agent.retrieval.variant": "none"}.

    Fields of a section can stand together, {"agent.retrieval": {"slots": 2, "k_traj": 5}}, and later changes prevail.
    What a run learns from need not be named: "data.num_tasks" is "experience.data.num_tasks". All fields of a section
    change at once, so that they are checked together; anything unknown or ill-typed is refused.
    """
    hints, own = get_type_hints(type(config)), {}
    nested: dict[str, list[Mapping[str, Any]]] = {}
    for path, value in chain.from_iterable(mapping.items() for mapping in changes):
        name, _, rest = path.partition(".")
        if name not in hints and "experience" in hints:
            name, rest = "experience", path
        is_section = name in hints and is_dataclass(getattr(config, name))
        if name not in hints or (rest and not is_section):
            near = get_close_matches(name, set(hints) - {name}, 1)
            raise UserError(
                f"There is no setting {where}{path}" + (f"; did you mean {where}{near[0]}?" if near else ".")
            )
        if rest or (is_section and isinstance(value, Mapping)):
            nested.setdefault(name, []).append({rest: value} if rest else value)
        else:
            own[name] = value if is_dataclass(value) else _typed(hints[name], value, f"{where}{name}")
            nested.pop(name, None)
    for name, inner in nested.items():
        own[name] = override(own.get(name, getattr(config, name)), *inner, where=f"{where}{name}.")
    return replace(config, **own)  # type: ignore[type-var]


def config_from_dict(
    kind: type, values: Mapping[str, Any], kinds: Mapping[str, type] = {}, where: str = "config"
) -> Any:
    """The config that `dataclasses.asdict` (and JSON) made `values` of; anything unknown or ill-typed is refused.

    `kinds` are the classes of fields that may have several.
    """
    hints = {**get_type_hints(kind), **kinds}
    unknown = set(values) - {f.name for f in fields(kind)}
    if unknown:
        raise UserError(f"{where} has an unknown entry {sorted(unknown)[0]!r}; it may come from another version.")
    return kind(**{name: _typed(hints[name], value, f"{where}.{name}") for name, value in values.items()})


def _typed(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(value, Mapping):
        return config_from_dict(hint, value, where=where)  # type: ignore[arg-type]
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(_typed(get_args(hint)[0], entry, where) for entry in value)
    if get_origin(hint) is Literal:
        require(value in get_args(hint), where, value, f"it must be one of {', '.join(map(str, get_args(hint)))}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    require(type(value) is hint, where, value, f"it must be of type {getattr(hint, '__name__', hint)}")
    return value
