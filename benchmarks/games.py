"""Our Atari against ale-py's vector environment, in frames per second of CPU time.

Ours are seeded by episode, as exact resumption needs; the other is measured with episodes that are seeded, too, and as
it is shipped, where they are not.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import ale_py
import numpy as np

from r2a.environments.api import VectorEnv
from r2a.environments.atari import AtariSettings
from r2a.environments.minatar import MinAtarSettings
from r2a.environments.registry import make

LANES = 8
GAMES = ("breakout", "seaquest")


def play(env: VectorEnv, steps: int) -> int:
    """Random actions with restarts; how many steps that were."""
    random, seeds = np.random.default_rng(0), iter(range(10**9))

    def fresh(rows: list[int]) -> None:
        env.reset([env.spec.tasks[0]] * len(rows), [next(seeds) for _ in rows], rows)

    fresh(list(range(env.num_envs)))
    for _ in range(steps):
        step = env.step(random.integers(env.spec.action_size, size=env.num_envs))
        if step.ended.any():
            fresh(np.flatnonzero(step.ended).tolist())
    return steps * env.num_envs


def play_vector(vector: ale_py.AtariVectorEnv, steps: int) -> int:
    """The same with ale-py's own, which loads the game anew for every seed."""
    random, seeds = np.random.default_rng(0), iter(range(1, 10**6))

    def fresh(count: int) -> np.ndarray:
        return np.array([next(seeds) for _ in range(count)])

    vector.reset(seed=fresh(LANES))
    for _ in range(steps):
        _, _, terminated, truncated, _ = vector.step(random.integers(vector.single_action_space.n, size=LANES))
        ended = terminated | truncated
        if ended.any():
            vector.reset(seed=fresh(int(ended.sum())), options={"reset_mask": ended})
    return steps * LANES


def play_shipped(vector: ale_py.AtariVectorEnv, steps: int) -> int:
    """The same with episodes that follow one another unseeded: ale-py starts them by itself."""
    random = np.random.default_rng(0)
    vector.reset(seed=0)
    for _ in range(steps):
        vector.step(random.integers(vector.single_action_space.n, size=LANES))
    return steps * LANES


def steps_per_cpu_second(work: Callable[[], int]) -> float:
    begin = time.process_time()
    steps = work()
    return steps / (time.process_time() - begin)


def run(quick: bool = False) -> dict[str, float]:
    """Measure both, one thread each; medians over interleaved repeats and two games, and over MinAtar's own two."""
    repeats, steps = (1, 40) if quick else (5, 500)
    ours, vectors, shipped, boards = [], [], [], []
    for game in GAMES:
        config = AtariSettings(game=game, all_actions=False)
        own = make("atari", config, LANES)
        settings = dict(stack_num=1, noop_max=config.noops, reward_clipping=False, use_fire_reset=False, num_threads=1)
        vector = ale_py.AtariVectorEnv(game, LANES, **settings)
        unseeded = ale_py.AtariVectorEnv(game, LANES, **settings)
        small = make("minatar", MinAtarSettings(game=game), LANES)
        for _ in range(repeats):
            ours.append(config.frame_skip * steps_per_cpu_second(lambda own=own: play(own, steps)))
            vectors.append(config.frame_skip * steps_per_cpu_second(lambda vector=vector: play_vector(vector, steps)))
            shipped.append(config.frame_skip * steps_per_cpu_second(lambda v=unseeded: play_shipped(v, steps)))
            boards.append(steps_per_cpu_second(lambda small=small: play(small, steps)))
    return {
        "frames_per_cpu_second": statistics.median(ours),
        "vector_frames_per_cpu_second": statistics.median(vectors),
        "shipped_frames_per_cpu_second": statistics.median(shipped),
        "ratio_vector": statistics.median(a / b for a, b in zip(ours, vectors, strict=True)),
        "ratio_shipped": statistics.median(a / b for a, b in zip(ours, shipped, strict=True)),
        "minatar_steps_per_cpu_second": statistics.median(boards),
        "lanes": LANES,
    }


if __name__ == "__main__":
    print(json.dumps(run()))
