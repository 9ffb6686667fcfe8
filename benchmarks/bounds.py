"""How fast an update could be: its matrix products at the highest speed this core multiplies matrices at."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

import jax

from benchmarks.workers import serve

SIZES = (256, 512, 768)
"""Sides of the square matrices that are multiplied; the fastest counts."""


def best_seconds_per_gflop(sizes: tuple[int, ...] = SIZES, calls: int = 20) -> Callable[[], float]:
    """A function that times float32 products of each size and returns the best."""
    multiply = jax.jit(lambda a, b: a @ b)
    pairs = []
    for size in sizes:
        a, b = jax.random.normal(jax.random.key(size), (2, size, size))
        multiply(a, b).block_until_ready()
        pairs.append((a, b))

    def measure() -> float:
        best = math.inf
        for a, b in pairs:
            for _ in range(calls):
                begin = time.process_time()
                multiply(a, b).block_until_ready()
                best = min(best, (time.process_time() - begin) / (2e-9 * a.shape[0] ** 3))
        return best

    return measure


def matmul_gflop(compiled_text: str) -> float:
    """GFLOP of all matrix products in a compiled program (its HLO text), loops counted as often as they run.

    `cost_analysis()["flops"]` counts the body of a loop once and adds what is not a product.
    """
    computations = dict(re.findall(r"^(?:ENTRY )?%([\w.\-]+) \(.*?\{\n(.*?)^\}", compiled_text, re.M | re.S))
    entry = re.search(r"^ENTRY %([\w.\-]+)", compiled_text, re.M)
    assert entry is not None, "this is not the text of a compiled program"
    known: dict[str, float] = {}

    def flop(name: str) -> float:
        if name not in known:
            body = computations[name]
            shapes = dict(re.findall(r"%([\w.\-]+) = \w+\[([\d,]*)\]", body))
            known[name] = sum(_own_flop(line, shapes) + _called_flop(line, flop) for line in body.splitlines())
        return known[name]

    return flop(entry.group(1)) / 1e9


def _own_flop(line: str, shapes: dict[str, str]) -> float:
    """FLOP of one instruction, if it is a product: two for each element of the result and contracted index."""
    dot = re.search(r"= \w+\[([\d,]*)\]\S* dot\(%([\w.\-]+), .*lhs_contracting_dims=\{([\d,]*)\}", line)
    if dot is None:
        return 0.0
    result, left, contracted = dot.groups()
    sizes = _numbers(shapes[left])
    return 2.0 * math.prod(_numbers(result)) * math.prod(sizes[axis] for axis in _numbers(contracted))


def _called_flop(line: str, flop: Callable[[str], float]) -> float:
    """FLOP of the computations that one instruction runs."""
    loop = re.search(r" while\(.*body=%([\w.\-]+)", line)
    if loop:
        trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line)
        return flop(loop.group(1)) * (int(trips.group(1)) if trips else 1)
    branches = re.search(r" conditional\(.*branch_computations=\{(.*?)\}", line)
    if branches:
        return max(flop(name) for name in re.findall(r"%([\w.\-]+)", branches.group(1)))
    call = re.search(r" (?:fusion|call)\(.*(?:calls|to_apply)=%([\w.\-]+)", line)
    return flop(call.group(1)) if call else 0.0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    serve(best_seconds_per_gflop())
