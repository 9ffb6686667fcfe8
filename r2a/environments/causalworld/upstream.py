"""The parts of causal_world that are used here; the one place that imports it, or says that it is missing."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from r2a.errors import UserError

INSTALL = (
    "CausalWorld needs pybullet and causal_world: pip install pybullet==3.2.7, then "
    "pip install --no-deps causal_world==1.2 (its own requirements are old and mostly unused)."
)


class _OldEnv:
    """What causal_world expects of `gym.Env`: a class whose observation space is None until it is known."""

    observation_space = None


def _old_gym() -> dict[str, types.ModuleType]:
    """The few names of the old `gym` package that causal_world's worlds use, made of Gymnasium's."""
    gym = types.ModuleType("gym")
    gym.__dict__.update(Env=_OldEnv, spaces=gymnasium.spaces, utils=gymnasium.utils)
    importlib.import_module("gymnasium.utils.seeding")
    return {"gym": gym, "gym.spaces": gymnasium.spaces, "gym.utils": gymnasium.utils}


@contextlib.contextmanager
def _in_place_of(modules: dict[str, types.ModuleType]) -> Iterator[None]:
    """Let `modules` answer imports for the length of a block; whoever imports later finds what was there before."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what C code says on the error stream (pybullet its build time) nowhere."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _import() -> tuple[Any, Any, Any]:
    level = logging.getLogger().level
    try:
        with _quiet(), _in_place_of(_old_gym()):
            pybullet = importlib.import_module("pybullet")
            world = importlib.import_module("causal_world.envs.causalworld")
            base = importlib.import_module("causal_world.task_generators.base_task")
            tasks = importlib.import_module("causal_world.task_generators.task")
    except ModuleNotFoundError as error:
        raise UserError(INSTALL) from error
    finally:
        logging.getLogger().setLevel(level)  # causal_world sets everybody's level to INFO
    # It reports refused goals through the root logger, which would then print for everybody; here they are drawn again.
    logger = logging.getLogger("causal_world")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    for module in (world, base):
        vars(module)["logging"] = logger
    return pybullet, world.CausalWorld, tasks.generate_task


pybullet, CausalWorld, generate_task = _import()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, which causal_world draws from, for a block, and give it back as it was."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


__all__ = ["INSTALL", "CausalWorld", "generate_task", "pybullet", "seeded"]
