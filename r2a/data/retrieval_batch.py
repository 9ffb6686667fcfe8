"""Draw what a learner step sees: transitions to learn from and trajectories to retrieve from, never overlapping.

The data lie on the device, and drawing is a pure function of a key: many learner steps compile into one call.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from r2a.config import DataConfig, RetrievalConfig, RunConfig, require
from r2a.data.columns import LEARNING, RETRIEVAL
from r2a.data.dataset import OfflineDataset
from r2a.errors import UserError
from r2a.types import Action, Frames, RetrievalBatch, Sequence, Trajectory, is_continuous, none_where


class EpisodeTable(NamedTuple):
    """The episodes of each task, in random order; the first `count` entries of a row are in use."""

    rows: Int[Array, "tasks E"]
    count: Int[Array, " tasks"]

    def episode(self, task: Int[Array, ""], number: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """The task's episode of that number, below `count`."""
        return self.rows[task, number]


class DealtTable(NamedTuple):
    """Some of a table's episodes: from the place `first` on and around its end, `take` are in use, `skip` are not."""

    table: EpisodeTable
    first: Int[Array, " tasks"]
    count: Int[Array, " tasks"]
    take: int
    skip: int

    def episode(self, task: Int[Array, ""], number: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """The task's episode of that number, below `count`."""
        place = self.first[task] + number + number // self.take * self.skip
        return self.table.rows[task, place % self.table.count[task]]


class ResidentData(NamedTuple):
    """A data set's columns on the device, and who may read which episode."""

    observation: Shaped[Array, "E L+1 ..."]
    instruction: Shaped[Array, "E w"]
    action: Action
    reward: Float[Array, "E L"]
    length: Int[Array, " E"]
    terminated: Bool[Array, " E"]
    task_id: Int[Array, " E"]
    episode_return: Float[Array, " E"]
    learning: EpisodeTable | DealtTable
    retrieval: EpisodeTable | DealtTable


def load_resident(dataset: OfflineDataset, data_config: DataConfig) -> ResidentData:
    """Put the data set of a run on the device; its tasks are the run's."""
    generator, shared = np.random.default_rng(0), data_config.learn_from == "all_episodes"

    def table(split: int) -> EpisodeTable:
        tasks = range(len(dataset.task_names))
        rows = [generator.permutation(dataset.episodes(task, None if shared else split)) for task in tasks]
        for name, members in zip(dataset.task_names, rows, strict=True):
            if len(members) == 0:
                raise UserError(f"{dataset.path} has no {['learning', 'retrieval'][split]} episodes of task {name!r}.")
        count = np.array([len(members) for members in rows])
        padded = np.stack([np.resize(members, count.max()) for members in rows])
        return EpisodeTable(jnp.asarray(padded, jnp.int32), jnp.asarray(count, jnp.int32))

    columns = {name: dataset.columns[name] for name in ResidentData._fields if name in dataset.columns}
    instruction = columns.get("instruction", np.zeros((dataset.num_episodes, 0), np.uint8))
    # Words are read one by one: those that no episode has are left out.
    columns["instruction"] = instruction[:, : np.max(np.flatnonzero(np.any(instruction, axis=0)), initial=-1) + 1]
    on_device = {name: jnp.asarray(column) for name, column in columns.items()}
    learning = table(LEARNING)
    # Where a step decides anew who learns from which episode, both roles are played by one table.
    return ResidentData(**on_device, learning=learning, retrieval=learning if shared else table(RETRIEVAL))


def check_fits(dataset: OfflineDataset, config: RunConfig, *, to_learn: bool = True) -> None:
    """Refuse settings that this data set cannot serve, in learning or only in a test, with one clear sentence."""
    data, retrieval = config.data, config.agent.retrieval
    if not retrieval.needs_batch:
        return
    dealt = data.learn_from == "all_episodes"
    tasks = range(len(dataset.task_names))
    fewest = min(len(dataset.episodes(task, None if dealt else RETRIEVAL)) for task in tasks)
    at_test = "evaluation.trajectories" if config.evaluation.trajectories else "retrieval.trajectories"
    wanted = [(at_test, config.evaluation.trajectories or retrieval.trajectories, fewest, "")]
    if to_learn:
        share = f", one in {data.one_in}" if dealt else ""
        available = fewest // data.one_in if dealt else fewest
        wanted.insert(0, ("retrieval.trajectories", retrieval.trajectories, available, share))
    for name, count, available, share in wanted:
        if count > available:
            found = f"a task of {dataset.path} has only {available} retrieval episodes{share}"
            raise UserError(f"{name} is {count}, but {found}.")
    longest = dataset.max_length
    length = retrieval.length or longest
    if length > longest:
        found = f"the episodes of {dataset.path} have only {longest} steps"
        raise UserError(f"retrieval.length is {length}, but {found}.")
    states = retrieval.k_traj * length
    if retrieval.k_states > states:
        found = f"k-traj x steps = {states} states are there to choose from"
        raise UserError(f"retrieval.k-states is {retrieval.k_states}, but {found}.")


def deal(data: ResidentData, one_in: int, key: PRNGKeyArray) -> ResidentData:
    """All of a task's episodes, each with its role in one learner step; consumes `key`.

    From a random place on, all but one of `one_in` are learnt from and that one is read, and so on: in the long run
    every episode is both, but never in the same step.
    """
    assert isinstance(data.learning, EpisodeTable)
    table, count = data.learning, data.learning.count
    first = jax.random.randint(key, count.shape, 0, count)
    return data._replace(
        learning=DealtTable(table, first, count - count // one_in, take=one_in - 1, skip=1),
        retrieval=DealtTable(table, first + one_in - 1, count // one_in, take=1, skip=one_in - 1),
    )


class Segments(NamedTuple):
    """Where in the data segments of trajectories lie: an episode's row, and the step of it that each begins with."""

    episode: Int[Array, "*b"]
    step: Int[Array, "*b"]


BatchPlan = tuple[Sequence, Segments]
"""One learner step's batch, as far as it is small: its sequences [M b], and where its segments [M N] lie."""


def actions_at(data: ResidentData, row: Int[Array, "*#b"], step: Int[Array, "*#b"]) -> Action:
    """What was done there; stored in as few bytes as there are actions."""
    action = data.action[row, step]
    return action if is_continuous(action) else action.astype(jnp.int32)


def draw_sequences(
    data: ResidentData, task: Int[Array, ""], count: int, config: DataConfig, key: PRNGKeyArray
) -> Sequence:
    """Uniform over the task's learning episodes, then over the places in each where a sequence fits; consumes `key`.

    A sequence never leaves its episode: steps after its end are not valid, and frames of a burn-in before its start
    precede a frame that is marked as first.
    """
    episode_key, step_key = jax.random.split(key)
    place = jax.random.randint(episode_key, (count,), 0, data.learning.count[task])
    episode = data.learning.episode(task, place)
    length, steps = data.length[episode], config.sequence_steps
    first = jax.random.randint(step_key, (count,), 0, jnp.maximum(length - steps, 0) + 1)
    row, length = episode[:, None], length[:, None]
    seen = first[:, None] + jnp.arange(-config.burn_in, steps + 1)
    step = first[:, None] + jnp.arange(steps)
    before, at = jnp.clip(seen - 1, 0, data.reward.shape[1] - 1), jnp.minimum(step, data.reward.shape[1] - 1)
    ends = data.terminated[row] & (step + 1 == length)
    frames = Frames(
        observation=data.observation[row, jnp.clip(seen, 0, length)],
        instruction=data.instruction[episode],
        previous_action=none_where(seen <= 0, actions_at(data, row, before)),
        previous_reward=jnp.where(seen > 0, data.reward[row, before], 0.0),
        is_first=seen == 0,
    )
    return Sequence(
        frames,
        action=actions_at(data, row, at),
        reward=data.reward[row, at],
        discount=1.0 - ends.astype(jnp.float32),
        valid=step < length,
    )


def place_segments(data: ResidentData, task: Int[Array, ""], config: RetrievalConfig, key: PRNGKeyArray) -> Segments:
    """Distinct retrieval episodes of the task, and where in each the configured segment begins; consumes `key`.

    One episode from each of n equal parts of the (shuffled) table: distinct without sorting.
    """
    place_key, segment_key = jax.random.split(key)
    n, count = config.trajectories, data.retrieval.count[task]
    bounds = (jnp.arange(n + 1) * count) // n
    place = jax.random.randint(place_key, (n,), bounds[:-1], bounds[1:])
    episode = data.retrieval.episode(task, place)
    first = jnp.zeros(n, jnp.int32)
    if config.segment == "random":
        slack = jnp.maximum(data.length[episode] - (config.length or data.reward.shape[1]), 0)
        first = jax.random.randint(segment_key, (n,), 0, slack + 1)
    return Segments(episode, first)


def read_segments(data: ResidentData, segments: Segments, config: RetrievalConfig) -> RetrievalBatch:
    """The segments as a retrieval batch."""
    episode, row = segments.episode, segments.episode[:, None]
    step = segments.step[:, None] + jnp.arange(config.length or data.reward.shape[1])
    length = data.length[episode][:, None]
    ends = data.terminated[episode][:, None] & (step + 1 == length)
    trajectories = Trajectory(
        observation=data.observation[row, step],
        instruction=data.instruction[episode],
        action=actions_at(data, row, step),
        reward=data.reward[row, step],
        discount=1.0 - ends.astype(jnp.float32),
        valid=step < length,
        is_first=step == 0,
        task_id=data.task_id[episode].astype(jnp.int32),
        trajectory_id=episode,
    )
    return RetrievalBatch(trajectories, data.episode_return[episode])


def draw_retrieval_batch(
    data: ResidentData, task: Int[Array, ""], config: RetrievalConfig, key: PRNGKeyArray
) -> RetrievalBatch:
    """Distinct retrieval episodes of the task, cut to the configured segment; consumes `key`."""
    return read_segments(data, place_segments(data, task, config, key), config)


def draw_mixed_batch(
    data: ResidentData, tasks: Int[Array, " S"], config: RetrievalConfig, key: PRNGKeyArray
) -> RetrievalBatch:
    """One batch with as many episodes of each of several tasks; consumes `key`."""
    keys = jax.random.split(key, tasks.shape[0])
    batches = jax.vmap(lambda task, k: draw_retrieval_batch(data, task, config, k))(tasks, keys)
    return jax.tree.map(lambda column: jax.lax.collapse(column, 0, 2), batches)


def draw_tasks(config: DataConfig, key: PRNGKeyArray) -> Int[Array, " M"]:
    """The tasks of one learner step: distinct, every task equally often; consumes `key`."""
    if config.tasks_per_step == config.num_tasks:
        return jnp.arange(config.num_tasks)
    _, tasks = jax.lax.top_k(jax.random.uniform(key, (config.num_tasks,)), config.tasks_per_step)
    return tasks


def tell_task(observation: Shaped[Array, "..."], task: Int[Array, "..."], config: DataConfig) -> Shaped[Array, "..."]:
    """The observation as the agent sees it: with `task_input` one_hot, the task number follows as a one-hot."""
    if config.task_input == "none":
        return observation
    one_hot = jax.nn.one_hot(task, config.num_tasks, dtype=observation.dtype)
    one_hot = jnp.broadcast_to(one_hot, (*observation.shape[:-1], config.num_tasks))
    return jnp.concatenate([observation, one_hot], axis=-1)


def observation_shape(dataset: OfflineDataset, config: DataConfig) -> tuple[int, ...]:
    """The shape of what `tell_task` makes of an observation."""
    shape = dataset.observation_shape
    if config.task_input == "none":
        return shape
    require(len(shape) == 1, "data.task-input", config.task_input, "a picture cannot be followed by a task's number")
    return (shape[0] + config.num_tasks,)


def tell_task_of(batch: RetrievalBatch, config: DataConfig) -> RetrievalBatch:
    """A retrieval batch as the agent sees it: each trajectory with its own task."""
    t = batch.trajectories
    task = jnp.broadcast_to(t.task_id[..., None], t.reward.shape)
    return batch._replace(trajectories=t._replace(observation=tell_task(t.observation, task, config)))


def plan_learning_batch(
    data: ResidentData, config: DataConfig, retrieval: RetrievalConfig, key: PRNGKeyArray
) -> BatchPlan:
    """All that is random about a learner step's batch, for its M tasks; consumes `key`.

    Small enough to be made for many steps at once, which is much cheaper than step by step. Tasks that read from the
    same batch, that of all tasks, are put together as one.
    """
    if config.learn_from == "all_episodes":
        key, deal_key = jax.random.split(key)
        data = deal(data, config.one_in, deal_key)
    task_key, source_key, sequence_key, retrieval_key = jax.random.split(key, 4)
    tasks, m = draw_tasks(config, task_key), config.tasks_per_step
    sources = source_tasks(config, tasks, source_key)
    sequences = jax.vmap(lambda task, k: draw_sequences(data, task, config.batch_size // m, config, k))(
        tasks, jax.random.split(sequence_key, m)
    )
    told_task = tell_task(sequences.frames.observation, tasks[:, None, None], config)
    sequences = sequences._replace(frames=sequences.frames._replace(observation=told_task))
    segments = jax.vmap(lambda task, k: place_segments(data, task, retrieval, k))(
        sources, jax.random.split(retrieval_key, len(sources))
    )
    if config.retrieve_from == "all_tasks":
        sequences, segments = jax.tree.map(lambda a: jax.lax.collapse(a, 0, 2)[None], (sequences, segments))
    return sequences, segments


def source_tasks(config: DataConfig, tasks: Int[Array, " M"], key: PRNGKeyArray) -> Int[Array, " S"]:
    """Whose episodes are read by the tasks of a learner step; consumes `key`."""
    if config.retrieve_from == "all_tasks":
        return jnp.arange(config.num_tasks)
    if config.retrieve_from == "same_task":
        return tasks
    return jax.random.randint(key, tasks.shape, 0, config.num_tasks)


def read_learning_batch(
    data: ResidentData, config: DataConfig, retrieval: RetrievalConfig, plan: BatchPlan
) -> tuple[Sequence, RetrievalBatch]:
    """The planned batch: sequences and, read now, the segments to retrieve from."""
    sequences, segments = plan
    batches = jax.vmap(lambda places: read_segments(data, places, retrieval))(segments)
    return sequences, tell_task_of(batches, config)
