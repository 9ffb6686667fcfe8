"""The worlds by name. A world is a folder; nothing outside of it knows more of it than its entry here says.

Parts of a world are named as "module:name" and imported when they are needed: what one world needs installed, or takes
long to import, is no matter to the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from r2a.config import CollectConfig, EnvSettings
from r2a.environments import TITLES
from r2a.environments.api import EnvSpec, PureEnv, VectorEnv
from r2a.environments.workers import Workers
from r2a.errors import UserError


@dataclass(frozen=True)
class World:
    """An entry of the registry."""

    name: str
    make: str
    """make(settings, num_envs, render) gives a VectorEnv."""
    settings: EnvSettings = field(default_factory=EnvSettings)
    """Its settings, each with its default."""
    pure: str = ""
    """pure(settings) gives a PureEnv, where the world can be played inside compiled programs."""
    expert: str = ""
    """expert(env, task, seed, noise, settings) gives a policy; of a pure world it is a function of states."""
    collect: CollectConfig | None = None
    """How its expert's data are collected, each setting with its default."""
    dataset: str = ""
    """What such a data set is called."""
    features: str = ""
    """The module that registers its encoders."""
    page: str = ""
    """The module that says how its states are drawn in reports."""
    provenance: str = ""
    """provenance() tells what else a data set of this world should say of where it comes from."""
    check_data: str = ""
    """check_data(settings, provenance, observation_shape, where) refuses data that do not fit the settings."""
    max_envs: int = 0
    """How many are evaluated at a time (0: all)."""
    in_processes: bool = False
    """Whether each has to be in a process of its own making, rather than in this one."""

    def load(self, part: str) -> Any:
        """A part of the world; None where it has none."""
        module, _, name = getattr(self, part).partition(":")
        loaded = importlib.import_module(module) if module else None
        return getattr(loaded, name) if name else loaded


WORLDS: dict[str, str | World] = {name: f"r2a.environments.{name}" for name in TITLES}


def register(world: World) -> None:
    """Add a world of one's own."""
    WORLDS[world.name] = world


def world_of(name: str) -> World:
    """The world of that name."""
    if name not in WORLDS:
        raise UserError(f"There is no environment {name!r}; choose one of {', '.join(WORLDS)}.")
    entry = WORLDS[name]
    return importlib.import_module(entry).WORLD if isinstance(entry, str) else entry


def make(name: str, settings: Any = None, num_envs: int = 1, *, render: bool = False) -> VectorEnv:
    """Environments of a world, in this process or, where it asks for that, in others."""
    world = world_of(name)
    settings = world.settings if settings is None else settings
    here = partial(make_here, world, settings, render)
    if not world.in_processes:
        return here(num_envs)
    return Workers(here, spec_of(name, settings), num_envs, getattr(settings, "processes", 1))


def make_here(world: str | World, settings: Any, render: bool, num_envs: int) -> VectorEnv:
    """Environments of a world in this process; one that is given the entry need not have it registered."""
    entry = world_of(world) if isinstance(world, str) else world
    return entry.load("make")(entry.settings if settings is None else settings, num_envs, render)


def make_pure(name: str, settings: Any = None) -> PureEnv[Any] | None:
    """The world as pure functions, if it can be had so."""
    world = world_of(name)
    pure = world.load("pure")
    return pure and pure(world.settings if settings is None else settings)


def spec_of(name: str, settings: Any = None) -> EnvSpec:
    """What there is to know of an environment; what it needs installed has to be there."""
    pure = make_pure(name, settings)
    if pure is not None:
        return pure.spec
    with closing(make_here(name, settings, False, 1)) as env:
        return env.spec


def load_features(name: str) -> None:
    """Have a world's own encoders registered, if it has any."""
    world_of(name).load("features")


def check_data(name: str, settings: Any, manifest: Mapping[str, Any], where: str) -> None:
    """Refuse data whose episodes are not those of an environment with these settings."""
    if manifest["environment"] != name:
        raise UserError(f"{where} holds episodes of {manifest['environment']}, not of {name}.")
    check = world_of(name).load("check_data")
    if check is not None:
        check(settings, manifest["provenance"], tuple(manifest["observation_shape"]), where)
