"""An online run by its parts, and the same run on a Ray cluster with 1, 2 and 4 players.

In one process: CPU time of acting, of drawing a batch and of an update, for R2D2 and RA-R2D2. On a cluster: steps of
the environment per second of the clock, next to those of the one-process run just before; learning is left out, since
all that players can do is play.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

from r2a.config import RunConfig, override
from r2a.experiments.minatar import LAPTOP, SMOKE
from r2a.experiments.presets import arm
from r2a.training.cluster import ClusterRun
from r2a.training.learning import draw
from r2a.training.online import OnlineRun
from r2a.training.train import Run

PLAYERS = (1, 2, 4)


def cpu_milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """The median over repeats, after one that compiles."""
    work()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(work())
        seconds.append(time.process_time() - begin)
    return 1e3 * statistics.median(seconds)


def by_parts(config: RunConfig, repeats: int) -> dict[str, float]:
    """What a step, a draw and an update cost in one process, and how many steps a second of CPU time has in all."""
    run = OnlineRun(config)
    while run.counts.updates < 2:
        run.turn()
    per_turn, envs = config.acting.steps_per_turn, config.acting.num_envs
    acting = cpu_milliseconds(lambda: run.actors.play(run.agent, run.encoded, per_turn, 0), repeats)
    drawn = draw(run.replay, config, 0)
    drawing = cpu_milliseconds(lambda: draw(run.replay, config, 0), repeats)
    updating = cpu_milliseconds(lambda: run.learner.update(*drawn), repeats)
    refreshing = cpu_milliseconds(run.refresh, repeats)
    updates = config.acting.samples_per_insert * envs * per_turn / config.replay.period / config.from_replay.batch_size
    turn = acting + refreshing + updates * (drawing + updating)
    run.close()
    return {
        "acting_ms_per_step_of_all_envs": acting / per_turn,
        "drawing_ms": drawing,
        "update_ms": updating,
        "refresh_ms": refreshing,
        "updates_per_cpu_second": 1e3 / (drawing + updating),
        "steps_per_cpu_second": 1e3 * envs * per_turn / turn,
        "share_of_acting": acting / turn,
    }


def steps_per_second(run: Run, turns: int) -> float:
    """Of the clock, after turns that compile."""
    for _ in range(3):
        run.turn()
    begin, before = time.perf_counter(), run.steps
    for _ in range(turns):
        run.turn()
    return (run.steps - before) / (time.perf_counter() - begin)


def run(quick: bool = False) -> dict[str, Any]:
    """Measure both."""
    base = SMOKE if quick else LAPTOP
    repeats, turns, players = (2, 2, (1,)) if quick else (15, 30, PLAYERS)
    figures: dict[str, Any] = {name: by_parts(arm(base, name), repeats) for name in ("r2d2", "ra_r2d2")}
    config = override(arm(base, "r2d2"), {"acting.samples_per_insert": 1e-9})  # nothing is ever learnt
    alone = OnlineRun(config)
    cluster: dict[str, float] = {"one_process": steps_per_second(alone, turns)}
    alone.close()
    for count in players:
        spread = ClusterRun(config, players=count)
        try:
            cluster[f"players_{count}"] = steps_per_second(spread, turns)
        finally:
            spread.close()
    figures["steps_per_second"] = cluster
    figures["ratio_one_process"] = {
        name: value / cluster["one_process"] for name, value in cluster.items() if name != "one_process"
    }
    return figures


if __name__ == "__main__":
    print(json.dumps(run()))
