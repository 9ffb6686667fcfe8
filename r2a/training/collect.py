"""Make offline data sets: an expert with a ladder of noise, or an agent that learns online, into a writer.

What an episode is depends on the settings, its task and its number only: neither on the number of processes nor on
interruptions. Imports no jax unless the world needs it: processes that play load this module.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from r2a import __version__
from r2a.config import CollectConfig
from r2a.data.columns import assign_splits
from r2a.data.dataset import DatasetWriter, OfflineDataset, new_dataset
from r2a.data.shards import read_shard, shard_folder, write_shard
from r2a.environments.api import EnvSpec, NoEpisodeError, require_task
from r2a.environments.registry import make_here, make_pure, spec_of, world_of
from r2a.environments.workers import in_processes
from r2a.errors import UserError
from r2a.training.rollout import Episode, play

SHARD_EPISODES = 10
MOST_ATTEMPTS = 200
"""Seeds for one episode."""
_make_once = cache(make_here)
Watch = Callable[[str, int, float], None]
"""Hears of finished episodes: their task, how many, and their mean score."""


def collect(
    environment: str,
    config: CollectConfig,
    path: str | Path,
    *,
    overwrite: bool = False,
    watch: Watch = lambda task, episodes, score: None,
) -> OfflineDataset:
    """Write a data set, going on where an interrupted collection of the same settings was."""
    world, path = world_of(environment), Path(path)
    if world.collect is None:
        raise UserError(f"{environment} has no expert to collect from.")
    spec = spec_of(environment, config.env)
    names = tasks_to_collect(config, spec)
    pure = make_pure(environment, config.env)
    if config.method == "online" and pure is None:
        raise UserError(f"method is 'online', but {environment} does not run inside compiled programs.")
    origin = provenance(environment, config, names)
    header = {"name": path.name, "environment": environment, "task_names": names, "num_actions": spec.action_size}
    if pure is not None:
        from r2a.training.collect_pure import collect_pure

        with new_dataset(path, **header, provenance=origin, overwrite=overwrite) as writer:
            collect_pure(pure, environment, config, writer, watch)
        return OfflineDataset.open(path)
    origin = {"environment": environment, **origin}
    with shard_folder(path, origin, overwrite) as folder:
        starts = range(0, config.episodes, SHARD_EPISODES)
        numbers = [range(start, min(start + SHARD_EPISODES, config.episodes)) for start in starts]
        tasks = {name: [ShardTask(folder, environment, config, name, own) for own in numbers] for name in names}
        every = [task for own in tasks.values() for task in own]
        done = [task for task in every if task.file.is_file()]
        left = [task for task in every if not task.file.is_file()]
        for task in chain(done, in_processes(play_shard, left, config.workers)):  # heard of as they are done
            shard = task.read()
            watch(task.task, len(shard.length), float(shard.scores[:, -1].mean()))
        card = {name: _data_card(own, spec) for name, own in tasks.items()}
        with new_dataset(path, **header, provenance=origin | {"card": card}, overwrite=overwrite) as writer:
            longest = max(entry["longest"] for entry in card.values())
            for place, own in enumerate(tasks.values()):
                _write(writer, own, place, longest, spec)
    return OfflineDataset.open(path)


def tasks_to_collect(config: CollectConfig, spec: EnvSpec) -> tuple[str, ...]:
    """The tasks by name, after checking that there are such."""
    for name in config.tasks:
        require_task(name, spec.tasks, f"task of {spec.id}")
    if config.num_tasks > len(spec.tasks):
        raise UserError(f"num-tasks is {config.num_tasks}, but {spec.id} has {len(spec.tasks)} tasks.")
    return config.tasks or spec.tasks[: config.num_tasks or None]


def provenance(environment: str, config: CollectConfig, names: Sequence[str]) -> dict[str, Any]:
    """Where data come from: everything that decides them."""
    settings = asdict(config) | {"tasks": list(names)}
    del settings["workers"]
    world = world_of(environment)
    more = world.load("provenance")() if world.provenance else {}
    method = "expert" if config.method == "expert" else "online_dqn"
    return {"method": method, "seed": config.seed, "settings": settings, **more, "r2a": __version__}


Shard = namedtuple("Shard", "length observation action reward terminated instruction scores noise dropped reasons")
"""Episodes one after the other, without padding; `dropped` counts seeds that gave none, by `reasons`."""


@dataclass(frozen=True)
class ShardTask:
    """Which episodes of which task, and all that decides what they are."""

    folder: Path
    environment: str
    config: CollectConfig
    task: str
    episodes: range
    """Their numbers."""

    @property
    def file(self) -> Path:
        """Where the shard is or will be."""
        return self.folder / f"{self.task.replace(' ', '_')}-{self.episodes.start:08d}.npz"

    def read(self) -> Shard:
        """The shard that `play_shard` wrote."""
        return Shard(**read_shard(self.file, Shard._fields))


def play_shard(task: ShardTask) -> None:
    """Play a shard's episodes and write its file; the same task always gives the same shard."""
    dropped: Counter[str] = Counter()
    episodes = [play_expert(task, number, dropped) for number in task.episodes]
    shard = Shard(
        length=np.array([len(episode.reward) for episode in episodes], np.int32),
        observation=np.concatenate([episode.observation for episode in episodes]),
        action=np.concatenate([episode.action for episode in episodes]),
        reward=np.concatenate([episode.reward for episode in episodes]),
        terminated=np.array([episode.terminated for episode in episodes]),
        instruction=np.stack([episode.instruction for episode in episodes]),
        scores=np.stack([episode.scores for episode in episodes]),
        noise=np.array([noise_of(number, task.config) for number in task.episodes], np.float32),
        dropped=np.array(list(dropped.values()), np.int64),
        reasons=np.array(list(dropped), np.str_) if dropped else np.zeros(0, "<U1"),
    )
    write_shard(task.file, shard._asdict())


def noise_of(number: int, config: CollectConfig) -> float:
    """The expert's noise in a task's episode of that number."""
    return config.ladder[number % len(config.ladder)]


def play_expert(task: ShardTask, number: int, dropped: Counter[str]) -> Episode:
    """The task's episode of that number: that of the first of its seeds which gives one."""
    config, noise = task.config, noise_of(number, task.config)
    env, expert = _make_once(task.environment, config.env, False, 1), world_of(task.environment).load("expert")
    for attempt in range(MOST_ATTEMPTS):
        entropy = np.random.SeedSequence((config.seed, env.spec.tasks.index(task.task), number, attempt))
        seed = int(entropy.generate_state(1, np.uint64)[0] >> 1)
        try:
            with time_limit(config.limit_seconds):
                return play(env, expert(env, task.task, seed, noise, config.expert), task.task, seed)
        except NoEpisodeError as error:
            dropped[error.reason] += 1
    raise UserError(
        f"{task.task} gave no episode with {MOST_ATTEMPTS} seeds at noise {noise:g}; allow it more seconds, or leave "
        "it out."
    )


class OutOfTimeError(NoEpisodeError):
    """An episode took longer than it may."""

    reason = "out of time"


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the block once it has used this much processor time, even inside an endless loop.

    It works by a signal, so only in a process's main thread. Processor time, since an episode must not be lost because
    the machine is busy with something else.
    """

    def interrupt(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _write(writer: DatasetWriter, tasks: Sequence[ShardTask], place: int, longest: int, spec: EnvSpec) -> None:
    """Put a task's shards together; all rows are as long as the longest episode of any task."""
    config = tasks[0].config
    # By the task's number in its world, not by its place: its data do not depend on the others'.
    number = np.full(config.episodes, spec.tasks.index(tasks[0].task))
    split = assign_splits(number, config.retrieval_fraction, config.seed)
    for task in tasks:
        writer.append(_columns(task.read(), place, split[task.episodes], longest, spec))


def _columns(shard: Shard, task: int, split: np.ndarray, longest: int, spec: EnvSpec) -> dict[str, np.ndarray]:
    """A shard's episodes as rows of a data set; scores that rewards do not tell are columns of their own."""
    inside = np.arange(longest) < shard.length[:, None]
    seen = np.arange(longest + 1) <= shard.length[:, None]
    columns = {
        "observation": _padded(shard.observation, seen),
        "action": _padded(shard.action, inside),
        "reward": _padded(shard.reward, inside),
        "length": shard.length,
        "terminated": shard.terminated,
        "task_id": np.full(len(shard.length), task),
        "split": split,
        "noise": shard.noise,
    }
    if spec.instruction_length:
        columns["instruction"] = shard.instruction
    for number, name in list(enumerate(spec.scores))[1:]:
        columns[name] = shard.scores[:, number].astype(np.float32)
    return columns


def _padded(steps: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Steps of episodes one after the other, as rows with zeros where `real` [e, L] is False."""
    rows = np.zeros((*real.shape, *steps.shape[1:]), steps.dtype)
    rows[real] = steps
    return rows


def _data_card(tasks: Sequence[ShardTask], spec: EnvSpec) -> dict[str, Any]:
    """What came of a task; shard by shard, since all of them together may not fit in memory."""
    parts, total, dropped = [], 0.0, Counter()
    for task in tasks:
        shard = task.read()
        parts.append((shard.length, shard.terminated, shard.scores, shard.noise))
        total += float(shard.reward.sum(dtype=np.float64))
        dropped.update(dict(zip(shard.reasons.tolist(), shard.dropped.tolist(), strict=True)))
    length, terminated, scores, noise = map(np.concatenate, zip(*parts, strict=True))
    levels = np.unique(noise)
    return {
        "episodes": len(length),
        **{name: float(scores[:, i].mean()) for i, name in enumerate(spec.scores)},
        "by_noise": {f"{level:g}": float(scores[noise == level, -1].mean()) for level in levels},
        "cut_off": float(np.mean(~terminated)),
        "mean_length": float(length.mean()),
        "longest": int(length.max()),
        "mean_return": total / len(length),
        "dropped": dict(dropped),
    }
