"""Environments and work in other processes: whatever happens to these, the outcome is the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import closing

import numpy as np
import pytest
from elsewhere import (
    REFUSED,
    SENTENCE,
    SPEC,
    broken_walks,
    die_always,
    die_once_then_note,
    note,
    refuse,
    walks,
)

from r2a.environments.causalworld import CausalWorldSettings
from r2a.environments.registry import make, make_here
from r2a.environments.workers import MOST_DEATHS, Workers, in_processes
from r2a.errors import UserError

ROWS, STEPS = 3, 30
TASKS = ("long", "short", "long")


def play(env, disturb=None, tasks=TASKS, steps=STEPS):
    """All that is shown along random actions; rows that end begin another episode, so that they differ in length."""
    count = len(tasks)
    generator = np.random.default_rng(0)
    shown = [env.reset(tasks, [(7, row) for row in range(count)])]
    buffer = np.zeros((count, *env.spec.action.shape), env.spec.action.dtype)
    for number in range(steps):
        if disturb is not None:
            disturb(number)
        # One array for all steps: what an environment remembers of an action must be its own.
        if env.spec.action.shape:
            buffer[:] = generator.uniform(-0.5, 0.2, buffer.shape)
        else:
            buffer[:] = generator.integers(2, size=count)
        shown.append(env.step(buffer, [0] if number % 7 == 3 else None))
        ended = np.flatnonzero(shown[-1].ended)
        if len(ended):
            shown.append(env.reset([tasks[row] for row in ended], [(number, int(row)) for row in ended], ended))
    return shown


def assert_same(these, those):
    assert len(these) == len(those)
    for one, other in zip(these, those, strict=True):
        for name, ours, theirs in zip(one._fields, one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=name, strict=True)


@pytest.fixture(scope="module")
def undisturbed():
    shown = play(walks(ROWS))
    assert sum(now.ended.sum() for now in shown) > 3
    assert len({len(now.reward.nonzero()[0]) for now in shown}) > 2
    return shown


def kill(workers, number):
    os.kill(workers._remotes[number].process.pid, signal.SIGKILL)


def stop(workers, number):
    """Have a process hang; nobody waits long for this one."""
    workers._remotes[number]._patience = 0.2
    os.kill(workers._remotes[number].process.pid, signal.SIGSTOP)


def interrupt(workers, number):
    """What Ctrl-C does to all processes of a terminal."""
    os.kill(workers._remotes[number].process.pid, signal.SIGINT)


@pytest.mark.parametrize("processes", [1, 5])
def test_the_number_of_processes_makes_no_difference(undisturbed, processes):
    with closing(Workers(walks, SPEC, ROWS, processes)) as workers:
        assert len(workers._remotes) == min(processes, ROWS)
        assert_same(play(workers), undisturbed)


@pytest.mark.parametrize("accident", [kill, stop, interrupt])
def test_a_process_that_dies_or_hangs_is_replaced_and_nothing_else_happens(undisturbed, accident):
    with closing(Workers(walks, SPEC, ROWS, processes=2)) as workers:
        first = [remote.process.pid for remote in workers._remotes]

        def disturb(number):
            if number in (0, 20):
                accident(workers, 1 - number // 20)  # the later one where two rows are on their way

        assert_same(play(workers, disturb), undisturbed)
        revived = [remote.process.pid for remote in workers._remotes]
        assert all((one == other) == (accident is interrupt) for one, other in zip(first, revived, strict=True))


@pytest.mark.parametrize("tasks_again", [(), ("short",)])
def test_a_process_that_dies_between_episodes_is_replaced(tasks_again):
    here = walks(ROWS)
    with closing(Workers(walks, SPEC, ROWS, processes=1)) as workers:
        for env in (here, workers):
            env.reset(TASKS, [1, 2, 3])
            env.step(np.ones(ROWS, int), [0, 2])
        kill(workers, 0)
        rows = range(len(tasks_again))
        if tasks_again:
            assert_same([workers.reset(tasks_again, [5], rows)], [here.reset(tasks_again, [5], rows)])
        else:
            np.testing.assert_array_equal(workers.render(0), here.render(0))
        assert_same([workers.step(np.ones(ROWS, int))], [here.step(np.ones(ROWS, int))])


def test_the_real_simulator_is_replaced_too():
    settings, tasks = CausalWorldSettings(max_steps=5), ("pushing", "pick_and_place")
    here = make_here("causalworld", settings, False, 2)
    expected = play(here, None, tasks, steps=7)
    here.close()
    workers = make("causalworld", settings, 2)
    assert isinstance(workers, Workers)
    with closing(workers):
        assert_same(play(workers, lambda number: number == 3 and kill(workers, 0), tasks, steps=7), expected)
    assert any(now.truncated.any() for now in expected)
    assert np.isfinite([now.scores for now in expected]).all()


def test_a_process_that_always_dies_is_given_up_with_a_sentence(capfd):
    with (
        closing(Workers(broken_walks, SPEC, 1, processes=1)) as workers,
        pytest.raises(UserError, match="A process of walk ends, or stops answering, again and again"),
    ):
        workers.reset(["long"], [0])
    assert workers._deaths == MOST_DEATHS + 1
    assert "a mistake of ours" in capfd.readouterr().err  # what was wrong is not swallowed


def test_what_is_refused_there_is_refused_here_and_leaves_no_answer_behind():
    here = walks(ROWS)
    with closing(Workers(walks, SPEC, ROWS, processes=ROWS)) as workers:
        workers.reset(TASKS, [1, 2, 3])
        with pytest.raises(UserError, match=SENTENCE):
            workers.step(np.array([0, REFUSED, REFUSED]))
        with pytest.raises(UserError, match="did you mean short"):
            workers.reset(("long", "shirt", "long"), [1, 2, 3])
        with pytest.raises(ValueError, match="from 0 to 2"):
            workers.step(np.array([0, 0, 3]))
        for env in (here, workers):
            env.reset(TASKS, [1, 2, 3])
        kill(workers, 1)  # nor is what was refused done again
        assert_same([workers.step(np.ones(ROWS, int))], [here.step(np.ones(ROWS, int))])


def test_nothing_is_left_running():
    with closing(Workers(walks, SPEC, ROWS, processes=3)) as workers:
        workers.reset(TASKS, [1, 2, 3])
        stop(workers, 2)
    assert not any(remote.process.is_alive() for remote in workers._remotes)
    assert not multiprocessing.active_children()


def test_work_is_spread_over_processes_and_done_once(tmp_path):
    files = [str(tmp_path / str(number)) for number in range(5)]
    assert sorted(in_processes(note, files, workers=2)) == files
    assert sorted(map(str, tmp_path.iterdir())) == files
    assert list(in_processes(note, [], workers=2)) == []


def test_the_task_of_a_process_that_dies_is_done_by_another(tmp_path):
    files = [str(tmp_path / str(number)) for number in range(2)]
    assert sorted(in_processes(die_once_then_note, files, workers=2)) == files
    assert len(list(tmp_path.iterdir())) == 4


def test_a_task_that_always_kills_is_given_up_with_a_sentence(tmp_path):
    with pytest.raises(UserError, match="ends again and again"):
        list(in_processes(die_always, [str(tmp_path / "task")], workers=1))


def test_a_refused_task_ends_the_work_with_its_sentence(tmp_path):
    with pytest.raises(UserError, match=SENTENCE):
        list(in_processes(refuse, [str(tmp_path / name) for name in ("fine", "refused", "also fine")], workers=1))
    assert (tmp_path / "fine").is_file()
    assert not multiprocessing.active_children()


def test_work_that_nobody_waits_for_is_ended():
    work = in_processes(time.sleep, [0.0, 600.0], workers=2)
    assert next(work) == 0.0
    work.close()
    assert not multiprocessing.active_children()
