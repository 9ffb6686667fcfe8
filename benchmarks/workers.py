"""Processes that each hold one piece of work on one core, so that repeats of several can be interleaved.

A worker says when it is ready (loaded, compiled, warm), then does its work once per line it is sent and answers
with the CPU time it took. Nothing here needs more than the standard library: the peers' environment runs it too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"


class WorkerError(Exception):
    """A worker could not start, or stopped; says why in a line."""


def serve(measure: Callable[[], float], **facts: Any) -> None:
    """Be a worker: `measure` does some work and returns the seconds of CPU time that a unit of it took."""
    measure()  # compiles, and fills caches
    print(json.dumps({"ready": True, **facts}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": measure()}), flush=True)


def timed(work: Callable[[], Any], units: int) -> Callable[[], float]:
    """Measures `work`, which does `units` of something and returns when they are done."""

    def measure() -> float:
        begin = time.process_time()
        work()
        return (time.process_time() - begin) / units

    return measure


class Worker:
    """The other end: a running worker process."""

    def __init__(self, module: str, *arguments: str, python: str | Path = sys.executable):
        self.log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the process
        with _on_one_core():  # which the worker inherits
            self.process = subprocess.Popen(
                [str(python), "-m", module, *arguments],
                cwd=ROOT,
                env=_one_core_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
        self.seconds: list[float] = []
        self.facts = self._answer()

    def measure(self) -> None:
        """One more repeat."""
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        self.seconds.append(self._answer()["seconds"])

    def rate(self) -> float:
        """Units per second of CPU time, the median of the repeats."""
        return 1.0 / statistics.median(self.seconds)

    def stop(self) -> None:
        """The end of its input ends a worker."""
        self.process.communicate()
        self.log.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries greet on standard output
                return json.loads(line)
        self.process.wait()
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
        raise WorkerError(lines[-1] if lines else f"it ended with exit code {self.process.returncode}")


def interleave(workers: Sequence[Worker], repeats: int) -> None:
    """Measure all of them `repeats` times, in turns: what disturbs the machine disturbs all alike."""
    for _ in range(repeats):
        for worker in workers:
            worker.measure()


@contextmanager
def _on_one_core() -> Iterator[None]:
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def _one_core_environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return {**os.environ, **threads, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
