"""Gridroboman against its pycolab reference, in steps per second of CPU time, both measured in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.pycolab_game import Game
from r2a.environments.gridroboman.env import GRIDROBOMAN, SPEC

BOARDS = 1024


@jax.jit
def _random_episodes(key: jax.Array, tasks: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One episode of random actions on every board, with everything a data set would keep of it."""
    reset_key, action_key = jax.random.split(key)
    states = jax.vmap(GRIDROBOMAN.reset)(jax.random.split(reset_key, len(tasks)))
    # 16 random bits per action, drawn for the whole episode at once; the bias is below 1e-4.
    bits = jax.random.bits(action_key, (SPEC.max_steps, len(tasks)), jnp.uint16).astype(jnp.uint32)
    actions = ((bits * SPEC.action_size) >> 16).astype(jnp.int8)

    def step(states, action):
        states, reward = jax.vmap(GRIDROBOMAN.step)(states, action, tasks)
        return states, (jax.vmap(GRIDROBOMAN.observe)(states), reward)

    _, (observations, rewards) = jax.lax.scan(step, states, actions)
    return observations, actions, rewards


def _fast_steps(keys: list[jax.Array], tasks: jax.Array) -> int:
    outcome = None
    for key in keys:
        outcome = _random_episodes(key, tasks)
    jax.block_until_ready(outcome)
    return len(keys) * len(tasks) * SPEC.max_steps


def _pycolab_steps(starts: np.ndarray, actions: np.ndarray) -> int:
    for episode, start in enumerate(starts):
        game = Game(start, [SPEC.tasks[episode % len(SPEC.tasks)]])
        for action in actions[episode]:
            game.play(int(action))
            game.observe()
    return actions.size


def _steps_per_cpu_second(work: Callable[[], int]) -> float:
    begin = time.process_time()
    steps = work()
    return steps / (time.process_time() - begin)


def run(quick: bool = False) -> dict[str, float]:
    """Measure both; random actions, with resets, observations and rewards; medians over interleaved repeats."""
    repeats, calls, games = (3, 20, 4) if quick else (9, 200, 20)
    tasks = jnp.arange(BOARDS, dtype=jnp.int8) % len(SPEC.tasks)
    keys = list(jax.random.split(jax.random.key(0), calls))
    starts = np.asarray(jax.vmap(lambda key: GRIDROBOMAN.observe(GRIDROBOMAN.reset(key)))(jnp.stack(keys[:games])))
    actions = np.random.default_rng(0).integers(SPEC.action_size, size=(games, SPEC.max_steps))
    _fast_steps(keys[:1], tasks)  # compiles

    fast, pycolab = [], []
    for _ in range(repeats):
        fast.append(_steps_per_cpu_second(lambda: _fast_steps(keys, tasks)))
        pycolab.append(_steps_per_cpu_second(lambda: _pycolab_steps(starts, actions)))
    return {
        "steps_per_cpu_second": statistics.median(fast),
        "pycolab_steps_per_cpu_second": statistics.median(pycolab),
        "ratio_pycolab": statistics.median(a / b for a, b in zip(fast, pycolab, strict=True)),
        "boards": BOARDS,
    }


if __name__ == "__main__":
    print(json.dumps(run()))
