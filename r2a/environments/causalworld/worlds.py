"""Many CausalWorld episodes side by side, simulated in processes of their own.

A process that dies is replaced, and the episodes it was at are played again to where they were: the same seed and the
same actions lead to the same state.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Shaped

from r2a.errors import UserError

if TYPE_CHECKING:
    from r2a.environments.causalworld.gym import CausalWorldEnv

MOST_RESTARTS = 3
"""Of one group of worlds, within one episode: more are no accident."""


class Steps(NamedTuple):
    """What all worlds showed after a step; a world whose episode is over stays as it ended."""

    observation: Shaped[np.ndarray, "n ..."]
    reward: Float32[np.ndarray, " n"]
    over: Bool[np.ndarray, " n"]
    fraction: Float64[np.ndarray, " n"]
    """How much of the goal is covered."""


class Setting(NamedTuple):
    """How worlds are made."""

    skip_frame: int = 10
    max_steps: int | None = None
    goals: str = "space_a"
    cameras: tuple[int, ...] = ()
    """Whose pictures are seen in place of numbers."""
    side: int = 64
    """Pixels of a picture's side."""

    def make(self, task: str, **options: Any) -> CausalWorldEnv:
        """A world of a task; needs causal_world."""
        from r2a.environments.causalworld.gym import CausalWorldEnv

        if self.cameras:
            options |= {"observation": "pixels", "cameras": self.cameras, "side": self.side}
        return CausalWorldEnv(task, self.skip_frame, self.max_steps, self.goals, **options)


class Worlds:
    """One world per entry of `tasks`, in `processes` processes."""

    def __init__(self, tasks: Sequence[str], setting: Setting, processes: int = 1):
        parts = np.array_split(np.arange(len(tasks)), max(1, min(processes, len(tasks))))
        self._groups = [_Group([tasks[int(i)] for i in part], setting) for part in parts]
        self._ends = np.cumsum([len(part) for part in parts])[:-1]

    def reset(self, seeds: Sequence[int]) -> Shaped[np.ndarray, "n ..."]:
        """Begin an episode in every world."""
        for group, own in zip(self._groups, np.split(np.asarray(seeds), self._ends), strict=True):
            group.ask(("reset", own.tolist()))
        return np.concatenate(self._answers())

    def step(self, actions: Float32[np.ndarray, "n a"]) -> Steps:
        """One step of every world whose episode is not over."""
        for group, own in zip(self._groups, np.split(np.asarray(actions), self._ends), strict=True):
            group.ask(("step", own))
        return Steps(*(np.concatenate(column) for column in zip(*self._answers(), strict=True)))

    def _answers(self) -> list[Any]:
        """What every group answers; if one refuses, the others are heard first, so that no answer is left behind."""
        answers, refusal = [], None
        for group in self._groups:
            try:
                answers.append(group.answer())
            except UserError as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        return answers

    def close(self) -> None:
        """End the processes."""
        for group in self._groups:
            group.close()

    def __enter__(self) -> Worlds:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class _Group:
    """Worlds that share a process, and what it takes to bring them back."""

    def __init__(self, tasks: list[str], setting: Setting):
        self._tasks, self._setting = tasks, setting
        self._asked: list[Any] = []  # since the last reset
        self._restarts = 0
        self._start()

    def ask(self, request: tuple[str, Any]) -> None:
        if request[0] == "reset":
            self._asked, self._restarts = [], 0
        self._asked.append(request)
        with contextlib.suppress(ConnectionError):  # found again when the answer is fetched
            self._connection.send(request)

    def answer(self) -> Any:
        try:
            return _refused(self._connection.recv())
        except (EOFError, ConnectionError):
            return self._revive()

    def close(self) -> None:
        self._connection.close()
        self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._tasks, self._setting), daemon=True)
        self._process.start()
        theirs.close()

    def _revive(self) -> Any:
        """Replace the process and go through the episode again; gives the answer to the last request."""
        while True:
            self._restarts += 1
            if self._restarts > MOST_RESTARTS:
                raise UserError(
                    f"The simulator of {', '.join(dict.fromkeys(self._tasks))} ends again and again. "
                    'In a script of your own, put what uses it below `if __name__ == "__main__":`.'
                )
            self._connection.close()
            self._process.join()
            self._start()
            try:
                answer = None
                for request in self._asked:
                    self._connection.send(request)
                    answer = _refused(self._connection.recv())
                return answer
            except (EOFError, ConnectionError):
                continue


def _refused(answer: Any) -> Any:
    if isinstance(answer, str):
        raise UserError(answer)
    return answer


def _serve(connection: Connection, tasks: list[str], setting: Setting) -> None:
    """The process of a group: do what the pipe brings, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and closes the pipe
    try:
        envs = [setting.make(task) for task in tasks]
        latest: list[Any] = [None] * len(envs)
        while True:
            what, given = connection.recv()
            try:
                if what == "reset":
                    answer = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, given, strict=True)])
                    latest = [(row, 0.0, False, 0.0) for row in answer]
                else:
                    latest = [_stepped(*at) for at in zip(envs, latest, given, strict=True)]
                    kinds = (None, np.float32, bool, np.float64)
                    answer = tuple(
                        np.array(column, kind) for column, kind in zip(zip(*latest, strict=True), kinds, strict=True)
                    )
            except UserError as error:
                answer = str(error)
            connection.send(answer)
    except UserError as error:  # causal_world is missing
        connection.recv()
        connection.send(str(error))
    except (EOFError, ConnectionError):
        return


def _stepped(env: Any, before: tuple[Any, float, bool, float], action: np.ndarray) -> tuple[Any, float, bool, float]:
    if before[2]:
        return (before[0], 0.0, True, before[3])
    observation, reward, terminated, truncated, info = env.step(action)
    return observation, reward, terminated or truncated, info["fractional_success"]
