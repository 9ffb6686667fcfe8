"""Work spread over processes that start without jax, stop with their parent, and tell their troubles in a sentence."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from r2a.errors import UserError

Task = TypeVar("Task")


def in_processes(function: Callable[[Task], None], tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Call `function` for every task, in up to `workers` processes; yields each task when it is done, in any order.

    Processes are spawned: `function` is found by its name, and what its module imports is all that they load. They
    hold the other end of a pipe and nothing else, so they see its end if this process is killed.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(tasks))
    staff: dict[Any, Any] = {}
    at_work: dict[Any, Task] = {}
    try:
        for _ in range(min(workers, len(tasks))):
            connection, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, function), daemon=True)
            process.start()
            theirs.close()
            staff[connection] = process
            at_work[connection] = waiting.pop()
            _exchange(connection.send, at_work[connection])
        while at_work:
            for connection in wait(list(at_work)):
                problem = _exchange(connection.recv)  # type: ignore[union-attr]
                if problem:
                    raise UserError(problem)
                done = at_work.pop(connection)
                if waiting:
                    at_work[connection] = waiting.pop()
                    _exchange(connection.send, at_work[connection])  # type: ignore[union-attr]
                yield done
    finally:
        for connection, process in staff.items():
            connection.close()
            if at_work:  # we end early, and nobody wants what they are at
                process.terminate()
            process.join()


def _exchange(transfer: Callable[..., Any], *message: Any) -> Any:
    try:
        return transfer(*message)
    except (EOFError, ConnectionError) as error:
        raise UserError("A collecting process ended unexpectedly; run the same command again to go on.") from error


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
