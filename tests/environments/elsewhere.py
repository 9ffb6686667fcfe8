"""What tests have done in other processes; these import this file, so it loads no more than they need."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import gymnasium
import numpy as np

from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import EnvSpec
from r2a.errors import UserError

REFUSED = 2
SENTENCE = "Two is too much."


class Walk(gymnasium.Env):
    """A random walk; one of its actions is refused. Rewards and ends differ from row to row."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.normal(size=2)
        return self._place.astype(np.float32), {}

    def step(self, action):
        if action == REFUSED:
            raise UserError(SENTENCE)
        self._place = self._place + self.np_random.normal(size=2) + action
        ended = bool(self.np_random.random() < 0.1)
        return self._place.astype(np.float32), float(self._place.sum()), ended, False, {}

    def render(self):
        return np.full((2, 3, 3), int(abs(self._place[0]) * 10) % 256, np.uint8)


SPEC = EnvSpec("walk", ("long", "short"), Walk.observation_space, Walk.action_space, max_steps=25)


def walks(num_envs):
    return FromGymnasium(SPEC, lambda task: Walk(), num_envs)


def make_walks(settings, num_envs, render):
    return walks(num_envs)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def broken_walks(num_envs):
    raise ZeroDivisionError("a mistake of ours")


def note(file):
    Path(file).write_text("done")


def die_once_then_note(file):
    """Die where nobody has died before."""
    mark = Path(file).with_suffix(".died")
    if not mark.exists():
        mark.touch()
        die()
    note(file)


def die_always(file):
    die()


def refuse(file):
    if Path(file).name == "refused":
        raise UserError(SENTENCE)
    note(file)
