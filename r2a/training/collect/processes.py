"""Work spread over processes that start without jax, stop with their parent, and tell their troubles in a sentence."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from r2a.errors import UserError

Task = TypeVar("Task")


MOST_ENDS = 3
"""As many processes lost by one task are no accident."""


def in_processes(function: Callable[[Task], None], tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Call `function` for every task, in up to `workers` processes; yields each task when it is done, in any order.

    Processes are spawned: `function` is found by its name, and what its module imports is all that they load. They
    hold the other end of a pipe and nothing else, so they see its end if this process is killed. One that dies is
    replaced, and its task done again.
    """
    waiting = list(reversed(tasks))
    staff: dict[Any, Any] = {}
    at_work: dict[Any, Task] = {}
    ends: dict[int, int] = {}

    def start(task: Task) -> None:
        connection, process = _hire(function)
        staff[connection], at_work[connection] = process, task
        with contextlib.suppress(ConnectionError):  # found again when the answer is fetched
            connection.send(task)

    try:
        for _ in range(min(workers, len(tasks))):
            start(waiting.pop())
        while at_work:
            for connection in wait(list(at_work)):
                task = at_work.pop(connection)
                try:
                    problem = connection.recv()  # type: ignore[union-attr]
                except (EOFError, ConnectionError):
                    connection.close()  # type: ignore[union-attr]
                    staff.pop(connection).join()
                    ends[id(task)] = ends.get(id(task), 0) + 1
                    if ends[id(task)] >= MOST_ENDS:
                        raise UserError(
                            "A collecting process ends again and again; run the same command again to go on."
                        ) from None
                    start(task)
                    continue
                if problem:
                    raise UserError(problem)
                if waiting:
                    at_work[connection] = waiting.pop()
                    with contextlib.suppress(ConnectionError):
                        connection.send(at_work[connection])  # type: ignore[union-attr]
                yield task
    finally:
        for connection, process in staff.items():
            connection.close()
            if at_work:  # we end early, and nobody wants what they are at
                process.terminate()
            process.join()


def _hire(function: Callable[[Any], None]) -> tuple[Connection, Any]:
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, function), daemon=True)
    process.start()
    theirs.close()
    return connection, process


def _serve(connection: Connection, function: Callable[[Any], None]) -> None:
    """One worker: do what the pipe brings, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends its workers
    while True:
        try:
            task = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            function(task)
            problem = None
        except UserError as error:
            problem = str(error)
        try:
            connection.send(problem)
        except ConnectionError:
            return
