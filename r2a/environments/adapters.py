"""Environments of other kinds behind the one interface: any Gymnasium environment, and pure functions; and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from r2a.environments import api
from r2a.environments.api import EnvSpec, HostEnv, Picture, PureEnv, Seed, TimeStep, VectorEnv
from r2a.errors import UserError


class FromGymnasium(HostEnv):
    """One Gymnasium environment per row, in this process.

    `make(task)` gives an environment of a task. Its info may have `scores`, in the order of the spec's, and a
    `discount`; otherwise the score is the return. An environment whose metadata has `seed_sequences` is reset with
    numpy's seed sequences, others with numbers. The first observation, and all else, is theirs.
    """

    def __init__(self, spec: EnvSpec, make: Callable[[str], Any], num_envs: int):
        super().__init__(spec, num_envs)
        self._make = make
        self._envs: list[Any] = [None] * num_envs
        self._tasks: list[str | None] = [None] * num_envs
        self._length = np.zeros(num_envs, np.int64)

    @classmethod
    def registered(cls, id: str, num_envs: int, **options: Any) -> FromGymnasium:
        """Rows of an environment that Gymnasium knows by this id; its only task has the same name."""

        def make(task: str) -> Any:
            # Our own count of steps takes the place of the wrapper that truncates.
            return gymnasium.make(id, render_mode="rgb_array", disable_env_checker=True, **options)

        return cls.of_one_task(id, id, make, num_envs)

    @classmethod
    def of_one_task(cls, id: str, task: str, make: Callable[[str], Any], num_envs: int, **known: Any) -> FromGymnasium:
        """Rows of an environment with one task; what is not `known` of it, it says itself."""
        first = make(task)
        spaces = {"observation": first.observation_space, "action": first.action_space}
        for what, kinds in (("observation", (Box,)), ("action", (Box, Discrete))):
            if not isinstance(spaces[what], kinds):
                found, names = type(spaces[what]).__name__, " or ".join(kind.__name__ for kind in kinds)
                raise UserError(f"Its {what}s are a {found}, and only {names} spaces are supported.")
        said = spaces | {
            "action_names": getattr(first, "action_names", ()),
            "max_steps": getattr(first.spec, "max_episode_steps", None) or 2**31,
            "fps": float(first.metadata.get("render_fps") or 15.0),
        }
        env = cls(EnvSpec(id=id, tasks=(task,), **(said | known)), make, num_envs)
        env._envs[0], env._tasks[0] = first, task
        return env

    def _begin(self, rows: list[int], tasks: Sequence[str], seeds: Sequence[Seed]) -> None:
        """A row whose task changes gets another environment."""
        now = self._now
        for row, task, seed in zip(rows, tasks, seeds, strict=True):
            if task != self._tasks[row]:
                self._close(row)
                self._envs[row], self._tasks[row] = self._make(task), task
            env = self._envs[row]
            own = api.seed_sequence(seed) if env.metadata.get("seed_sequences") else api.seed_number(seed)
            now.observation[row], info = env.reset(seed=own)
            now.begin(row)
            now.instruction[row], now.scores[row] = info.get("instruction", 0), info.get("scores", 0.0)
            self._length[row] = 0

    def _advance(self, actions: np.ndarray, rows: list[int]) -> None:
        now = self._now
        for row in rows:
            action = int(actions[row]) if isinstance(self.spec.action, Discrete) else actions[row]
            now.observation[row], reward, terminated, truncated, info = self._envs[row].step(action)
            self._length[row] += 1
            now.reward[row], now.terminated[row] = reward, terminated
            now.discount[row] = info.get("discount", 0.0 if terminated else 1.0)
            now.truncated[row] = not terminated and (truncated or self._length[row] >= self.spec.max_steps)
            now.scores[row] = info["scores"] if "scores" in info else now.scores[row] + reward

    def render(self, row: int) -> Picture:
        """What the environment itself draws."""
        picture = self._envs[row].render()
        if not isinstance(picture, np.ndarray):
            raise UserError(f"{self.spec.id} draws no pictures.")
        return picture

    def env(self, row: int) -> Any:
        """The Gymnasium environment of a row, for experts that need to know more than is seen."""
        return self._envs[row].unwrapped

    def close(self) -> None:
        """Close all environments."""
        for row in range(self.num_envs):
            self._close(row)

    def _close(self, row: int) -> None:
        if self._envs[row] is not None:
            self._envs[row].close()
        self._envs[row] = self._tasks[row] = None


class FromPure(HostEnv):
    """Rows of a pure environment, stepped from outside of compiled programs."""

    def __init__(self, pure: PureEnv[Any], num_envs: int):
        super().__init__(pure.spec, num_envs)
        self._pure = pure
        self._reset, self._observe, self._step = _compiled(pure)
        self._length = np.zeros(num_envs, np.int64)
        self._task = np.zeros(num_envs, np.int32)
        self._states: Any = self._reset(np.zeros(num_envs, np.uint32))

    def _begin(self, rows: list[int], tasks: Sequence[str], seeds: Sequence[Seed]) -> None:
        """An episode's start is drawn with the key of its seed."""
        numbers = np.zeros(self.num_envs, np.uint32)
        numbers[rows] = [api.seed_number(seed) % 2**32 for seed in seeds]
        self._show(self._reset(numbers), rows)
        self._now.begin(rows)
        self._length[rows] = 0
        self._task[rows] = [self.spec.tasks.index(task) for task in tasks]

    def _advance(self, actions: np.ndarray, rows: list[int]) -> None:
        now = self._now
        following, reward = self._step(self._states, actions.astype(np.int32), self._task)
        self._show(following, rows)
        now.reward[rows] = reward[rows]
        now.scores[rows, 0] += reward[rows]
        self._length[rows] += 1
        now.truncated[rows] = self._length[rows] >= self.spec.max_steps

    def render(self, row: int) -> Picture:
        """The state of a row as the environment draws it."""
        import jax

        return self._pure.render(jax.tree.map(lambda column: column[row], self._states))

    def _show(self, states: Any, rows: list[int]) -> None:
        """Take these rows of new states, and see what they show."""
        import jax

        def with_rows(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            changed = old.copy()
            changed[rows] = new[rows]
            return changed

        self._states = jax.tree.map(with_rows, self._states, states)
        self._now.observation[rows] = self._observe(self._states)[rows]


@cache
def _compiled(pure: PureEnv[Any]) -> tuple[Callable[..., Any], ...]:
    """How rows are reset by seeds, observed and stepped; compiled once, however often rows are made."""
    import jax

    def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = jax.jit(jax.vmap(function))
        return lambda *given: jax.tree.map(np.asarray, compiled(*given))

    return on_host(lambda seed: pure.reset(jax.random.key(seed))), on_host(pure.observe), on_host(pure.step)


class AsGymnasium(gymnasium.Env[Any, Any]):
    """One row of an environment of ours for Gymnasium; with instructions, observations are a dictionary of both."""

    def __init__(self, env: VectorEnv, task: str, render_mode: str | None = None):
        api.require_task(task, env.spec.tasks, f"task of {env.spec.id}")
        self._env, self.task, self.render_mode = env, task, render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": env.spec.fps}
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"unknown render mode {render_mode!r}: choose rgb_array or none")
        self.action_space = env.spec.action
        self.observation_space: Any = env.spec.observation
        if env.spec.instruction_length:
            words = Box(0, 255, (env.spec.instruction_length,), np.uint8)
            self.observation_space = gymnasium.spaces.Dict(observation=env.spec.observation, instruction=words)
        self._is_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode whose seed is drawn from the environment's own random generator."""
        super().reset(seed=seed)
        now = self._env.reset([self.task], [int(self.np_random.integers(2**31))])
        self._is_reset = True
        return self._shown(now)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do one action."""
        self._require_reset()
        now = self._env.step(np.asarray(action)[None])
        seen, info = self._shown(now)
        return seen, float(now.reward[0]), bool(now.terminated[0]), bool(now.truncated[0]), info

    def render(self) -> Any:
        """A picture, if the render mode asks for one."""
        self._require_reset()
        return self._env.render(0) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Let go of the environment."""
        self._env.close()

    def _require_reset(self) -> None:
        if not self._is_reset:
            raise gymnasium.error.ResetNeeded("call reset before the first step or picture")

    def _shown(self, now: TimeStep) -> tuple[Any, dict[str, Any]]:
        """What Gymnasium calls observation and info."""
        both = {"observation": now.observation[0], "instruction": now.instruction[0]}
        scores = dict(zip(self._env.spec.scores, now.scores[0].tolist(), strict=True))
        return both if self._env.spec.instruction_length else now.observation[0], {"task": self.task, **scores}
