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
import gymnasium.utils.seeding
import numpy as np

from r2a.errors import UserError


class _OldEnv:
    """What causal_world expects of `gym.Env`: a class whose observation space is None until it is known."""

    observation_space = None


@contextlib.contextmanager
def _old_gym() -> Iterator[None]:
    """Let Gymnasium answer imports of the old `gym`, of which causal_world uses a few names; nobody else notices."""
    gym: Any = types.ModuleType("gym")
    gym.Env, gym.spaces, gym.utils = _OldEnv, gymnasium.spaces, gymnasium.utils
    modules = {"gym": gym, "gym.spaces": gymnasium.spaces, "gym.utils": gymnasium.utils}
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)


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
        with _quiet(), _old_gym():
            names = ("envs.causalworld", "task_generators.base_task", "task_generators.task")
            pybullet = importlib.import_module("pybullet")
            world, base, tasks = (importlib.import_module(f"causal_world.{name}") for name in names)
    except ModuleNotFoundError as error:
        raise UserError(
            "CausalWorld needs pybullet and causal_world: pip install pybullet==3.2.7, then "
            "pip install --no-deps causal_world==1.2 (its own requirements are old and mostly unused)."
        ) from error
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
