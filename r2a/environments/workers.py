"""Environments in processes of their own: one that dies or hangs is replaced, and its episodes are played again.

Also work that is spread over such processes. They are spawned, so they load no more than they need, ignore Ctrl-C
(their parent is interrupted too) and end with their parent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import numpy as np

from r2a.environments.api import (
    Actions,
    Picture,
    Played,
    Rows,
    Seed,
    TimeStep,
    VectorEnv,
    blank,
    play_again,
    require_task,
    rows_to_reset,
    rows_to_step,
)
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

    def __init__(self, make: Callable[..., Any], *arguments: Any, patience: float = PATIENCE):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self._patience = patience

    def ask(self, method: str, *arguments: Any) -> None:
        """Have a method called; the answer is fetched later."""
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
                answer = getattr(served, method)(*given)
            except UserError as error:
                refusal = str(error)
            connection.send((refusal, answer))


class Workers:
    """An environment whose rows are spread over processes; `make(n)` gives one with n rows and can be pickled."""

    def __init__(
        self, make: Callable[[int], VectorEnv], spec: Any, num_envs: int, processes: int, patience: float = PATIENCE
    ):
        self.spec, self.num_envs = spec, num_envs
        self._make, self._patience = make, patience
        self._groups = [g for g in np.array_split(np.arange(num_envs), max(1, min(processes, num_envs))) if len(g)]
        self._remotes = [Remote(make, len(group), patience=patience) for group in self._groups]
        self._episodes: list[Played | None] = [None] * num_envs
        self._now = blank(spec, num_envs)
        self._deaths = 0

    def reset(self, tasks: Sequence[str], seeds: Sequence[Seed], rows: Rows | None = None) -> TimeStep:
        """Begin episodes, in all processes at the same time."""
        for task in tasks:
            require_task(task, self.spec.tasks, f"task of {self.spec.id}")
        chosen = rows_to_reset(self.num_envs, tasks, seeds, rows)
        for row, task, seed in zip(chosen, tasks, seeds, strict=True):
            self._episodes[row] = Played(task, seed, [])
        self._deaths = 0
        given = dict(zip(chosen, zip(tasks, seeds, strict=True), strict=True))

        def request(own: np.ndarray) -> tuple[Any, ...] | None:
            mine = [(i, given[row]) for i, row in enumerate(own.tolist()) if row in given]
            return (
                ("reset", [t for _, (t, _) in mine], [s for _, (_, s) in mine], [i for i, _ in mine]) if mine else None
            )

        return self._all(request)

    def step(self, actions: Actions, rows: Rows | None = None) -> TimeStep:
        """One action in every row that goes on, in all processes at the same time."""
        chosen, going_on = rows_to_step(self.spec, self._now.ended, actions, rows)
        for row in going_on:
            episode = self._episodes[row]
            assert episode is not None
            episode.actions.append(chosen[row].copy())  # it may be a part of what the caller writes into again
        self._now.reward[:] = 0.0
        allowed = set(going_on)

        def request(own: np.ndarray) -> tuple[Any, ...] | None:
            mine = [i for i, row in enumerate(own.tolist()) if row in allowed]
            return ("step", chosen[own], mine) if mine else None

        return self._all(request)

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

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _all(self, request: Callable[[np.ndarray], tuple[Any, ...] | None]) -> TimeStep:
        """Ask all processes; if one refuses, the others are heard first, so that no answer is left behind."""
        asked, refusal = [], None
        for number, own in enumerate(self._groups):
            wanted = request(own)
            if wanted is not None:
                self._remotes[number].ask(*wanted)
                asked.append((number, own, wanted[-1]))
        for number, own, rows in asked:
            try:
                answer: TimeStep = self._answer(number, own)
            except UserError as error:
                refusal = refusal or error
                continue
            for column, values in zip(self._now, answer, strict=True):
                column[own[rows]] = values[rows]
        if refusal is not None:
            raise refusal
        return self._now.copy()

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
            self._remotes[number] = Remote(_Revived, self._make, len(own), patience=self._patience)
            begun = [(i, episode) for i, row in enumerate(own.tolist()) if (episode := self._episodes[row]) is not None]
            self._remotes[number].ask("play_again", [episode for _, episode in begun], [i for i, _ in begun])
            with contextlib.suppress(DiedError):
                return self._remotes[number].answer()


class _Revived:
    """In a process that takes the place of another: an environment that can go through episodes at once."""

    def __init__(self, make: Callable[[int], VectorEnv], num_envs: int):
        self._env = make(num_envs)

    def play_again(self, episodes: list[Played], rows: list[int]) -> TimeStep:
        return play_again(self._env, episodes, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def in_processes(function: Callable[[Task], None], tasks: Sequence[Task], workers: int) -> Iterator[Task]:
    """Call `function` for every task, in up to `workers` processes; yields each task when it is done, in any order.

    `function` is found by its name, and what its module imports is all that a process loads. One that dies is replaced,
    and its task done again.
    """
    waiting = list(reversed(tasks))
    busy: dict[Any, tuple[Remote, Task]] = {}
    deaths: dict[int, int] = {}

    def start(remote: Remote, task: Task) -> None:
        busy[remote.connection] = remote, task
        remote.ask("__call__", task)

    try:
        for _ in range(min(workers, len(tasks))):
            start(Remote(_Function, function), waiting.pop())
        while busy:
            for connection in wait(list(busy)):
                remote, task = busy.pop(connection)
                try:
                    remote.answer()
                except DiedError:
                    remote.close()
                    deaths[id(task)] = deaths.get(id(task), 0) + 1
                    if deaths[id(task)] >= MOST_DEATHS:
                        said = "A collecting process ends again and again; run the same command again to go on."
                        raise UserError(said) from None
                    start(Remote(_Function, function), task)
                    continue
                except UserError:
                    remote.close()
                    raise
                if waiting:
                    start(remote, waiting.pop())
                else:
                    remote.close()
                yield task
    finally:
        for remote, _ in busy.values():  # we end early, and nobody wants what they are at
            remote.close(at_once=True)


class _Function:
    """A function as an object of a process."""

    def __init__(self, function: Callable[[Any], None]):
        self._function = function

    def __call__(self, task: Any) -> None:
        self._function(task)
