"""Other people's prioritised replays, one worker each, and one in plain numpy; run in the environment of `make
bench-setup`.

Each holds sequences as items of their own, and nothing but their observations. One cycle draws 64 of them, by
priority, as one array whose elements lie side by side, changes their priorities, and adds 16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workers import serve, timed

SIZES = {"vectors": (100_000, (40, 32), "float32"), "images": (3_504, (80, 84, 84), "uint8")}
"""How many sequences, the shape and type of each: 0.5 and 2 GB."""
SAMPLED, ADDED, LANES = 64, 16, 16
EXPONENT, IMPORTANCE = 0.9, 0.6
Work = Callable[[], Any]


def sequences(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What is added in every cycle."""
    return np.random.default_rng(0).integers(0, 256, (ADDED, *shape)).astype(dtype)


def plain_numpy(count: int, shape: tuple[int, ...], dtype: str, cycles: int) -> Work:
    """Priorities in rows, with the sum of each row: drawing looks at all sums and at one row per sequence."""
    rng, new = np.random.default_rng(1), sequences(shape, dtype)
    items = np.empty((count, *shape), dtype)
    for first in range(0, count, ADDED):
        items[first : first + ADDED] = new[: count - first]
    batch = np.empty((SAMPLED, *shape), dtype)
    width = int(np.ceil(np.sqrt(count)))
    chances = np.zeros((-(-count // width), width))
    chances.reshape(-1)[:count] = 1.0
    sums = chances.sum(axis=1)
    highest, cursor = 1.0, 0

    def change(places: np.ndarray, values: np.ndarray | float) -> None:
        chances.reshape(-1)[places] = values
        rows = places // width
        sums[rows] = chances[rows].sum(axis=1)

    def cycle() -> None:
        nonlocal highest, cursor
        above = np.cumsum(sums)
        targets = (np.arange(SAMPLED) + rng.random(SAMPLED)) / SAMPLED * above[-1]
        rows = np.minimum(np.searchsorted(above, targets, side="right"), len(sums) - 1)
        inside = np.cumsum(chances[rows], axis=1)
        columns = np.sum(inside <= (targets - above[rows] + sums[rows])[:, None], axis=1)
        places = np.minimum(rows * width + columns, count - 1)
        probability = chances.reshape(-1)[places] / above[-1]
        weights = probability**-IMPORTANCE
        weights /= weights.max()
        np.take(items, places, axis=0, out=batch, mode="clip")  # other modes copy once more
        priorities = rng.random(SAMPLED)
        highest = max(highest, priorities.max())
        change(places, priorities**EXPONENT)
        added = (cursor + np.arange(ADDED)) % count
        items[added] = new
        change(added, highest**EXPONENT)
        cursor = (cursor + ADDED) % count

    return lambda: [cycle() for _ in range(cycles)]


def cpprb(count: int, shape: tuple[int, ...], dtype: str, cycles: int) -> Work:
    """cpprb's PrioritizedReplayBuffer."""
    from cpprb import PrioritizedReplayBuffer

    rng, new = np.random.default_rng(1), sequences(shape, dtype)
    buffer = PrioritizedReplayBuffer(count, {"obs": {"shape": shape, "dtype": np.dtype(dtype)}}, alpha=EXPONENT)
    for _ in range(-(-count // ADDED)):
        buffer.add(obs=new)

    def cycle() -> None:
        sample = buffer.sample(SAMPLED, beta=IMPORTANCE)
        buffer.update_priorities(sample["indexes"], rng.random(SAMPLED))
        buffer.add(obs=new)

    return lambda: [cycle() for _ in range(cycles)]


def flashbax(count: int, shape: tuple[int, ...], dtype: str, cycles: int) -> Work:
    """flashbax's prioritised trajectory buffer, every call compiled and its state given away, as its manual says."""
    import flashbax as fbx
    import jax
    import jax.numpy as jnp

    steps = shape[0]
    buffer = fbx.make_prioritised_trajectory_buffer(
        add_batch_size=LANES,
        sample_batch_size=SAMPLED,
        sample_sequence_length=steps,
        period=steps,
        min_length_time_axis=steps,
        max_length_time_axis=count // LANES * steps,
        priority_exponent=EXPONENT,
        device="cpu",
    )
    add, sample = jax.jit(buffer.add, donate_argnums=0), jax.jit(buffer.sample)
    change = jax.jit(buffer.set_priorities, donate_argnums=0)
    new = jnp.asarray(sequences(shape, dtype))
    state = buffer.init(new[0, 0])
    for _ in range(count // LANES):
        state = add(state, new)
    rng, key = np.random.default_rng(1), jax.random.key(1)

    def work() -> None:
        nonlocal state, key
        for _ in range(cycles):
            key, sample_key = jax.random.split(key)
            drawn = sample(state, sample_key)
            weights = drawn.probabilities**-IMPORTANCE
            jax.block_until_ready((drawn.experience, weights / weights.max()))
            state = change(state, drawn.indices, jnp.asarray(rng.random(SAMPLED), jnp.float32))
            state = add(state, new)
        jax.block_until_ready(state)

    return work


PEERS = {work.__name__: work for work in (plain_numpy, cpprb, flashbax)}

if __name__ == "__main__":
    name, size, items, repeats = sys.argv[1:]
    serve(timed(PEERS[name](int(items), *SIZES[size][1:], int(repeats)), int(repeats)))
