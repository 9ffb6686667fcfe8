"""Act in the environment, on all tasks at once, reading from the right, a wrong, a random or all tasks' data."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from r2a.agents.actor import AgentPolicy, Layout, Randomness, epsilon_greedy
from r2a.agents.agent import Agent
from r2a.config import DataConfig, EvaluationConfig, RunConfig, Source, Values
from r2a.data.retrieval_batch import ResidentData, draw_mixed_batch, draw_retrieval_batch, tell_task, tell_task_of
from r2a.environments.api import Played, PureEnv
from r2a.environments.registry import make, make_pure, world_of
from r2a.training.rollout import Finished, View, play_all
from r2a.training.rollout_pure import PureView, rollout_pure
from r2a.types import EncodedBatch, Frames, RetrievalBatch

SEED_OF_EVALUATIONS = 1_000_003
"""Added to the run's seed: episodes that are evaluated are none of those that were learnt from."""


class Evaluation(NamedTuple):
    """The scores of every episode: task, retrieval batch, episode, score; and whose data each task gave weight to."""

    names: tuple[str, ...]
    """Of the scores; the first is the one that counts."""
    scores: Float[np.ndarray, "tasks R E s"]
    weight: Float[np.ndarray, "tasks sources"] | None = None
    """Share of each task's retrieval weight that went to the episodes of each task; None: not recorded."""
    played: tuple[Played, ...] = ()
    """The episodes, in the same order, where they can be played again."""

    def per_task(self, name: str = "") -> np.ndarray:
        """Mean score of each task."""
        return self.scores[..., self.names.index(name or self.names[0])].mean((1, 2))

    def mean(self, name: str = "") -> float:
        """Mean score over all tasks."""
        return float(self.scores[..., self.names.index(name or self.names[0])].mean())


def sources_to_evaluate(config: RunConfig) -> tuple[Source, ...]:
    """What the agent is evaluated reading from, the one it was trained with first; without retrieval, it is one."""
    if not config.agent.retrieval.reads:
        return ("right",)
    if config.data.retrieve_from == "all_tasks":
        return ("all_tasks",)
    return config.evaluation.sources or ("right" if config.data.retrieve_from == "same_task" else "random",)


def arrange(
    source: Source, tasks: int, evaluation: EvaluationConfig, key: PRNGKeyArray
) -> tuple[Int[Array, "G S"], Int[np.ndarray, "G b"]]:
    """Groups of episodes that read from the same batch: whose episodes are in it, and the task that each plays.

    Consumes `key`. Those that read from all tasks share a batch, whatever they play. wrong: another task each time,
    never the played one; random: any task, as the control is trained with.
    """
    batches, episodes = evaluation.retrieval_batches, evaluation.episodes
    if source == "all_tasks":
        everything = jnp.broadcast_to(jnp.arange(tasks), (batches, tasks))
        played = np.repeat(np.arange(tasks), episodes)
        return everything, np.broadcast_to(played, (batches, len(played)))
    own = jnp.arange(tasks)[:, None]
    read = jnp.broadcast_to(own, (tasks, batches))
    if source != "right":
        low = 1 if source == "wrong" and tasks > 1 else 0
        read = (own + jax.random.randint(key, (tasks, batches), low, tasks)) % tasks
    played = np.repeat(np.arange(tasks), batches)[:, None]
    return read.reshape(-1, 1), np.broadcast_to(played, (tasks * batches, episodes))


def evaluate(
    agent: Agent, data: ResidentData, config: RunConfig, source: Source, key: PRNGKeyArray, *, on_host: bool = False
) -> Evaluation:
    """Play every task of the run with `evaluation.episodes` episodes for each of several retrieval batches.

    Consumes `key`. Environments that are pure functions are played inside one compiled program, unless `on_host`, where
    the episodes can be played again.
    """
    tasks, reads = config.data.tasks, config.agent.retrieval.reads
    pure = None if on_host else make_pure(config.environment, config.env)
    source_key, *keys = jax.random.split(key, 5 if pure is None else 2)
    sources, groups = arrange(source, len(tasks), config.evaluation, source_key)
    order = np.argsort(groups.ravel(), kind="stable")  # of the groups' episodes, by their tasks
    shape = (len(tasks), config.evaluation.retrieval_batches, -1)
    if pure is not None:
        numbers = jnp.asarray([pure.spec.tasks.index(name) for name in tasks])
        returns = _play_pure(agent, data, sources, jnp.asarray(groups), numbers, *keys, pure, config)
        return Evaluation(pure.spec.scores, np.asarray(returns).ravel()[order].reshape(*shape, 1))
    names, finished, read = _play_on_host(agent, data, sources, groups, config, *keys)
    scores = np.stack([finished[place].scores for place in order]).reshape(*shape, len(names))
    total = read[order].reshape(len(tasks), -1, len(tasks)).sum(1) if reads else None
    weight = None if total is None else total / np.maximum(total.sum(1, keepdims=True), 1e-9)
    return Evaluation(names, scores, weight, tuple(finished[place].episode for place in order))


@partial(jax.jit, static_argnames=("env", "config"))
def _play_pure(
    agent: Agent,
    data: ResidentData,
    sources: Int[Array, "G S"],
    played: Int[Array, "G b"],
    numbers: Int[Array, " tasks"],
    key: PRNGKeyArray,
    env: PureEnv[Any],
    config: RunConfig,
) -> Float[Array, "G b"]:
    """Returns of all groups' episodes; `numbers` are the environment's of the run's tasks. Consumes `key`."""
    batch_key, play_key = jax.random.split(key)
    groups, rows = played.shape

    def one_group(sources: Array, tasks: Array, draw_key: PRNGKeyArray, key: PRNGKeyArray) -> Array:
        memory = memory_at_test(agent, data, sources, config, draw_key, one_task=sources.shape[0] == 1)
        reset_key, start_key, act_key = jax.random.split(key, 3)
        starts = jax.vmap(agent.initial_state)(jax.random.split(start_key, rows))
        policy = partial(act_in_pure, agent, memory, tasks, config.data, config.evaluation.epsilon)
        reset_keys = jax.random.split(reset_key, rows)
        return rollout_pure(env, policy, starts, numbers[tasks], reset_keys, act_key).reward.sum(0)

    keys = (jax.random.split(batch_key, groups), jax.random.split(play_key, groups))
    return jax.vmap(one_group)(sources, played, *keys)


def act_in_pure(
    agent: Agent,
    memory: EncodedBatch | None,
    tasks: Int[Array, " B"],
    data_config: DataConfig,
    epsilon: float | Float[Array, ""],
    state: Any,
    view: PureView,
    key: PRNGKeyArray,
) -> tuple[Any, Int[Array, " B"], dict[str, Any]]:
    """An agent's actions in all rows of a compiled roll-out, its states after them, and what led to them."""
    observation = tell_task(view.observation, tasks, data_config)
    nothing = jnp.zeros((len(tasks), 0), jnp.uint8)
    frames = Frames(observation, nothing, view.previous_action, view.previous_reward, view.is_first)

    def one(state: Any, frame: Frames, key: PRNGKeyArray) -> Any:
        output = agent(state, frame, memory, None)
        action = epsilon_greedy(output.q_values, epsilon, key)
        return output.state, action, {"q_values": output.q_values, "selection": output.retrieved.attended}

    return jax.vmap(one)(state, frames, jax.random.split(key, len(tasks)))


def memory_at_test(
    agent: Agent,
    data: ResidentData,
    sources: Int[Array, " S"],
    config: RunConfig,
    key: PRNGKeyArray,
    *,
    one_task: bool = False,
) -> EncodedBatch | None:
    """What `batch_at_test` draws, encoded; consumes `key`."""
    encoded, _ = agent.encode(batch_at_test(data, sources, config, key, one_task=one_task))
    return corrupt_values(encoded, config.evaluation.values, jax.random.fold_in(key, 1))


def batch_at_test(
    data: ResidentData, sources: Int[Array, " S"], config: RunConfig, key: PRNGKeyArray, *, one_task: bool = False
) -> RetrievalBatch:
    """A retrieval batch of some tasks, or of the first of them alone, as the agent sees it; consumes `key`.

    Nothing is learnt from it, so it can be larger than in training.
    """
    count = config.evaluation.trajectories or config.agent.retrieval.trajectories
    drawn = replace(config.agent.retrieval, trajectories=count, num_grad_trajectories=0)
    if one_task:
        return tell_task_of(draw_retrieval_batch(data, sources[0], drawn, key), config.data)
    return tell_task_of(draw_mixed_batch(data, sources, drawn, key), config.data)


def _play_on_host(
    agent: Agent, data: ResidentData, sources: Array, played: np.ndarray, config: RunConfig, *keys: PRNGKeyArray
) -> tuple[tuple[str, ...], list[Finished], np.ndarray]:
    """The same with environments that are stepped from outside, some groups at a time if there are too many.

    Consumes four keys. Returns the names of the scores, the episodes, and whose data each of them gave weight to.
    """
    tasks, (batch_key, seed_key, start_key, act_key) = config.data.tasks, keys
    memory = _memories(agent, data, sources, config, batch_key)
    first_seed = int(jax.random.randint(seed_key, (), 0, 2**30))
    groups, rows = played.shape
    at_once = max(1, min(groups, (world_of(config.environment).max_envs or groups * rows) // rows))
    finished: list[Finished] = []
    read: list[np.ndarray] = []
    with closing(make(config.environment, config.env, at_once * rows)) as env:
        for start in range(0, groups, at_once):
            own = played[start : start + at_once].ravel()
            first = start * rows
            # The last groups may be fewer: they are played with others again, whose episodes do not count.
            shown = np.resize(own, at_once * rows)
            places = np.resize(np.arange(first, first + len(own)), at_once * rows)
            part = jax.tree.map(lambda leaf: leaf[places[::rows] // rows], memory)  # noqa: B023
            counted = len(tasks) if config.agent.retrieval.reads else 0
            layout = Layout(first, max(groups * rows, first + len(shown)), at_once, counted)
            epsilon = np.full(len(shown), config.evaluation.epsilon)
            policy = Told(agent, part, epsilon, Randomness(act_key, start_key), layout=layout)
            policy.tasks, policy.data = jnp.asarray(shown), config.data
            episodes = [(tasks[int(task)], first_seed + int(place)) for task, place in zip(shown, places, strict=True)]
            finished += sorted(play_all(env, policy, episodes))[: len(own)]
            read.append(np.asarray(policy.read)[: len(own)])
    return env.spec.scores, finished, np.concatenate(read)


class Told(AgentPolicy):
    """An agent that sees the number of the task each row plays, if the run says so."""

    tasks: Int[Array, " B"]
    data: DataConfig

    def act(self, view: View, step: int) -> tuple[np.ndarray, dict[str, Any]]:
        """As every agent."""
        if self.data.task_input != "none":
            told = tell_task(jnp.asarray(view.observation), self.tasks, self.data)
            view = view._replace(observation=np.asarray(told))
        return super().act(view, step)


@partial(jax.jit, static_argnames="config")
def _memories(
    agent: Agent, data: ResidentData, sources: Int[Array, "G S"], config: RunConfig, key: PRNGKeyArray
) -> EncodedBatch | None:
    """What each group reads; consumes `key`."""
    keys = jax.random.split(key, sources.shape[0])
    return jax.vmap(lambda tasks, key: memory_at_test(agent, data, tasks, config, key))(sources, keys)


def evaluate_online(agent: Agent, memory: EncodedBatch | None, config: RunConfig) -> Evaluation:
    """`evaluation.episodes` episodes side by side, the same starts every time; all read from the same memory."""
    seed, count = config.seed + SEED_OF_EVALUATIONS, config.evaluation.episodes
    with closing(make(config.environment, config.env, count)) as env:
        epsilon = np.full(count, config.evaluation.epsilon)
        policy = AgentPolicy(agent, memory, epsilon, Randomness(jax.random.key(seed)), stack=config.replay.stack)
        finished = sorted(play_all(env, policy, [(env.spec.tasks[0], (seed, row, 0)) for row in range(count)]))
    scores = np.stack([episode.scores for episode in finished])[None, None]
    return Evaluation(env.spec.scores, scores, played=tuple(episode.episode for episode in finished))


def corrupt_values(memory: EncodedBatch | None, how: Values, key: PRNGKeyArray) -> EncodedBatch | None:
    """What can be read, with other values in its place; consumes `key`. Keys stay: only what is found there changes."""
    if memory is None or how == "as_read":
        return memory
    values, valid = memory.values.reshape(-1, memory.values.shape[-1]), memory.valid.ravel()
    if how == "mean":
        mean = jnp.where(valid[:, None], values, 0.0).sum(0) / jnp.maximum(valid.sum(), 1)
        return memory._replace(values=jnp.broadcast_to(mean, memory.values.shape))
    numbers = jnp.arange(len(valid))
    # Valid states come first in both orders, so that each of them gets the value of another.
    in_order = jnp.argsort(jnp.where(valid, numbers, len(valid) + numbers))
    at_random = jnp.argsort(jnp.where(valid, jax.random.uniform(key, valid.shape), 2.0 + numbers))
    return memory._replace(values=values.at[in_order].set(values[at_random]).reshape(memory.values.shape))
