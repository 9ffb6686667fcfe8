"""Environments in processes of their own: one that dies or hangs is replaced, and its episodes are played again.

Also work that is spread over such processes. They are spawned, so they load no more than they need, ignore Ctrl-C
(their parent is interrupted too) and end with their parent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import numpy as np

from r2a.environments.api import EnvSpec, HostEnv, Picture, Played, Seed, TimeStep, VectorEnv, play_again
from r2a.errors import UserError

Task = TypeVar("Task")
MOST_DEATHS = 3
"""Of one process at one piece of work: more are no accident."""
PATIENCE = 600.0
"""Seconds without an answer after which a process is replaced."""
ADVICE = 'In a script of your own, put what uses it below `if __name__ == "__main__":`.'


class DiedError(Exception):
    """A process has ended, or does not answer."""


class Remote:
    """An object in a process of its own, made there by `make(*arguments)`; what it refuses is refused here."""

    def __init__(self, make: Callable[..., Any], *arguments: Any):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self._patience = PATIENCE

    def ask(self, method: str | Callable[..., Any], *arguments: Any) -> None:
        """Have a method called, or a function of the object; the answer is fetched later."""
        with contextlib.suppress(ConnectionError):  # found again when the answer is fetched
            self.connection.send((method, arguments))

    def answer(self) -> Any:
        """What the method returned."""
        try:
            if not self.connection.poll(self._patience):
                raise DiedError
            refusal, answer = self.connection.recv()
        except (EOFError, ConnectionError) as gone:
            raise DiedError from gone
        if refusal is not None:
            raise UserError(refusal)
        return answer

    def close(self, *, at_once: bool = False) -> None:
        """End the process, or kill it."""
        if at_once:
            self.process.kill()
        self.connection.close()
        self.process.join(self._patience)
        if self.process.is_alive():  # it hangs
            self.process.kill()
            self.process.join()


def _serve(connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The process: make the object, then do what the pipe brings until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    served: Any = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            method, given = connection.recv()
            refusal = answer = None
            try:
                served = make(*arguments) if served is None else served
                answer = method(served, *given) if callable(method) else getattr(served, method)(*given)
            except UserError as error:
                refusal = str(error)
            connection.send((refusal, answer))


class Workers(HostEnv):
    """An environment whose rows are spread over processes; `make(n)` gives one with n rows and can be pickled."""

    def __init__(self, make: Callable[[int], VectorEnv], spec: EnvSpec, num_envs: int, processes: int):
        super().__init__(spec, num_envs)
        self._make = make
        self._groups = np.array_split(np.arange(num_envs), max(1, min(processes, num_envs)))
        self._remotes = [Remote(make, len(group)) for group in self._groups]
        self._episodes: dict[int, Played] = {}
        self._deaths = 0

    def _begin(self, rows: list[int], tasks: Sequence[str], seeds: Sequence[Seed]) -> None:
        begun = {row: Played(task, seed, []) for row, task, seed in zip(rows, tasks, seeds, strict=True)}
        self._episodes |= begun
        self._deaths = 0

        def request(own: np.ndarray) -> tuple[Any, ...]:
            mine = [begun[row] for row in own.tolist() if row in begun]
            return "reset", [episode.task for episode in mine], [episode.seed for episode in mine]

        self._ask(rows, request)

    def _advance(self, actions: np.ndarray, rows: list[int]) -> None:
        for row in rows:
            # A copy: it may be a part of what the caller writes into again.
            self._episodes[row].actions.append(actions[row].copy())
        self._ask(rows, lambda own: ("step", actions[own]))

    def render(self, row: int) -> Picture:
        """What a person would see of a row now."""
        number, own = next((number, own) for number, own in enumerate(self._groups) if row in own)
        while True:
            self._remotes[number].ask("render", int(np.flatnonzero(own == row)[0]))
            try:
                return self._remotes[number].answer()
            except DiedError:
                self._revive(number, own)

    def close(self) -> None:
        """End the processes."""
        for remote in self._remotes:
            remote.close()

    def _ask(self, rows: list[int], request: Callable[[np.ndarray], tuple[Any, ...]]) -> None:
        """Ask the processes of these rows, all at the same time, for what `request` says of a process's rows.

        If one refuses, the others are heard first, so that no answer is left behind.
        """
        asked, refusal = [], None
        for number, own in enumerate(self._groups):
            mine = np.flatnonzero(np.isin(own, rows)).tolist()
            if mine:
                self._remotes[number].ask(*request(own), mine)
                asked.append((number, own, mine))
        for number, own, mine in asked:
            try:
                answer = self._answer(number, own)
            except UserError as error:
                refusal = refusal or error
                continue
            for column, values in zip(self._now, answer, strict=True):
                column[own[mine]] = values[mine]
        if refusal is not None:
            raise refusal

    def _answer(self, number: int, own: np.ndarray) -> TimeStep:
        try:
            return self._remotes[number].answer()
        except DiedError:
            return self._revive(number, own)

    def _revive(self, number: int, own: np.ndarray) -> TimeStep:
        """Replace a process and bring its rows to where they were; gives what they show there."""
        while True:
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                raise UserError(f"A process of {self.spec.id} ends, or stops answering, again and again. {ADVICE}")
            self._remotes[number].close(at_once=True)
            self._remotes[number] = Remote(self._make, len(own))
            begun = {i: self._episodes[row] for i, row in enumerate(own.tolist()) if row in self._episodes}
            self._remotes[number].ask(play_again, list(begun.values()), list(begun))
            with contextlib.suppress(DiedError):
                return self._remotes[number].answer()


def in_processes(function: Callable[[Task], None], tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Call `function` for every task, in up to `workers` processes; yields each task when it is done, in any order.

    `function` is found by its name, and what its module imports is all that a process loads. One that dies is replaced,
    and its task done again.
    """
    waiting = list(reversed(tasks))
    busy: dict[Any, tuple[Remote, Task]] = {}
    deaths: Counter[int] = Counter()

    def start(task: Task, remote: Remote | None = None) -> None:
        remote = remote or Remote(partial, function)  # there, the object is the function
        busy[remote.connection] = remote, task
        remote.ask("__call__", task)

    try:
        for _ in range(min(workers, len(tasks))):
            start(waiting.pop())
        while busy:
            for connection in wait(list(busy)):
                remote, task = busy.pop(connection)
                try:
                    remote.answer()
                except DiedError:
                    remote.close()
                    deaths[id(task)] += 1
                    if deaths[id(task)] >= MOST_DEATHS:
                        said = "A collecting process ends again and again; run the same command again to go on."
                        raise UserError(said) from None
                    start(task)
                    continue
                except UserError:
                    remote.close()
                    raise
                if waiting:
                    start(waiting.pop(), remote)
                else:
                    remote.close()
                yield task
    finally:
        for remote, _ in busy.values():  # we end early, and nobody wants what they are at
            remote.close(at_once=True)
