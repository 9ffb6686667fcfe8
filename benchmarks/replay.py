"""The replay of sequences against others: one cycle draws 64 sequences, changes their priorities and adds 16.

CPU time of one thread, everything in one run, each replay in a process of its own, repeats interleaved. The others hold
sequences as items of their own and nothing but observations; ours delivers actions, rewards and all else as well, and
the frame after a sequence's last step. `sharing` is ours as R2D2 uses it: a sequence begins every half sequence, so
that 16 more of them are half as many new steps.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from benchmarks.replay_peers import ADDED, EXPONENT, IMPORTANCE, LANES, PEERS, SAMPLED, SIZES, sequences
from benchmarks.workers import PEERS_PYTHON, Worker, WorkerError, interleave, serve, timed

CYCLES = {"vectors": 300, "images": 20}
SETUP = "`make bench-setup` installs the peers"


def serve_cycles(size: str, count: int, cycles: int, sharing: bool) -> None:
    """Be the worker of this package."""
    from r2a.config import ReplayConfig
    from r2a.data.replay import ReplaySpec, SequenceReplay

    _, (steps, *frame), dtype = SIZES[size]
    period = steps // 2 if sharing else steps
    config = ReplayConfig(
        capacity=count,
        minimum=1,
        trace=steps,
        period=period,
        priority_exponent=EXPONENT,
        importance_exponent=IMPORTANCE,
    )
    replay = SequenceReplay(config, ReplaySpec(tuple(frame), dtype), LANES)
    rng, new = np.random.default_rng(1), sequences((period, *frame), dtype)
    nothing = np.zeros((ADDED, period), np.float32)
    step = {"action": nothing.astype(np.int32), "reward": nothing, "discount": nothing + 1}
    is_first = np.zeros((ADDED, period), np.bool_)
    for number in range(count // LANES + 1):
        is_first[:, 0] = number == 0
        replay.add(new, **step, is_first=is_first)
    batch = replay.sample(SAMPLED, rng)

    def work() -> None:
        for _ in range(cycles):
            sampled = replay.sample(SAMPLED, rng, out=batch)
            replay.update_priorities(sampled.drawn.ids, rng.random(SAMPLED))
            replay.add(new, **step, is_first=is_first)

    serve(timed(work, cycles))


def start_peers(work: tuple[str, str, str], names: tuple[str, ...]) -> tuple[dict[str, Worker], dict[str, str]]:
    """The peers that start, and why the others do not."""
    started, missing = {}, {}
    for name in names:
        try:
            started[name] = Worker("benchmarks.replay_peers", name, *work, python=PEERS_PYTHON)
        except WorkerError as reason:
            missing[name] = f"not measured: {reason}"
    return started, missing


def measure_size(size: str, count: int, cycles: int, names: tuple[str, ...], repeats: int) -> dict[str, Any]:
    """The figures of one size, in microseconds of CPU time per cycle."""
    work = size, str(count), str(cycles)
    own, sharing = (Worker("benchmarks.replay", *work, how) for how in ("apart", "sharing"))
    peers, missing = start_peers(work, names)
    try:
        interleave([own, sharing, *peers.values()], repeats)
    finally:
        for worker in (own, sharing, *peers.values()):
            worker.stop()
    times = {name: 1e6 / worker.rate() for name, worker in peers.items()}
    best = min(times, key=lambda name: times[name], default=None)
    return {
        "microseconds": 1e6 / own.rate(),
        "microseconds_sharing": 1e6 / sharing.rate(),
        "peers": {name: round(time, 1) for name, time in times.items()},
        "best_peer": best,
        "ratio_best_peer": times[best] * own.rate() / 1e6 if best else None,
        "ratio_best_peer_sharing": times[best] * sharing.rate() / 1e6 if best else None,
        "not_measured": missing,
    }


def run(quick: bool = False) -> dict[str, Any]:
    """Both sizes; `ratio_best_peer` at the top is the lower of the two."""
    names = tuple(PEERS) if PEERS_PYTHON.exists() else ()
    figures = {}
    for size, cycles in CYCLES.items():
        count = 40 * LANES if quick else SIZES[size][0]
        figures[size] = measure_size(size, count, 2 if quick else cycles, names, repeats=2 if quick else 9)
    worst = min(figures, key=lambda size: figures[size]["ratio_best_peer"] or 0.0)
    named = ("peers", "best_peer", "ratio_best_peer")
    notes = {} if names else {"note": f"The peers are not installed, so nothing is compared; {SETUP}."}
    return {"sizes": figures, **{name: figures[worst][name] for name in named}, **notes}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_cycles(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "sharing")
    else:
        print(json.dumps(run(), indent=1))
