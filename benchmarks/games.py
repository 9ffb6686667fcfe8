"""Atari's lanes against ale-py's vector environment, in frames per second of CPU time.

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

from r2a.config import AtariConfig, MinAtarConfig
from r2a.environments.atari.lanes import make_atari
from r2a.environments.games import GameLanes
from r2a.environments.minatar.lanes import make_minatar

LANES = 8
GAMES = ("breakout", "seaquest")


def play(lanes: GameLanes, steps: int) -> int:
    """Random actions with restarts; how many steps that were."""
    random = np.random.default_rng(0)
    lanes.reset()
    for _ in range(steps):
        step = lanes.step(random.integers(lanes.spec.num_actions, size=lanes.num_lanes))
        lanes.restart(step.ended)
    return steps * lanes.num_lanes


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
        config = AtariConfig(game=game, all_actions=False)
        lanes = make_atari(config, LANES, seed=0)
        settings = dict(stack_num=1, noop_max=config.noops, reward_clipping=False, use_fire_reset=False, num_threads=1)
        vector = ale_py.AtariVectorEnv(game, LANES, **settings)
        unseeded = ale_py.AtariVectorEnv(game, LANES, **settings)
        small = make_minatar(MinAtarConfig(game=game), LANES, seed=0)
        for _ in range(repeats):
            ours.append(config.frame_skip * steps_per_cpu_second(lambda lanes=lanes: play(lanes, steps)))
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
