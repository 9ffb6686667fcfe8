"""Gridroboman: all tasks and boards are played inside one compiled program."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent, only_seen
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData, draw_retrieval_batch, tell_task, tell_task_of
from r2a.environments.gridroboman import GRIDROBOMAN
from r2a.training.evaluate.sources import (
    Evaluation,
    Source,
    corrupt_values,
    retrieval_at_test,
    source_tasks,
    what_matters,
)
from r2a.types import RetrievalBatch


def evaluate(agent: Agent, data: ResidentData, config: RunConfig, source: Source, key: PRNGKeyArray) -> Evaluation:
    """Play every task with `evaluation.episodes` episodes for each of several retrieval batches; consumes `key`."""
    source_key, play_key = jax.random.split(key)
    sources = source_tasks(source, config.data.num_tasks, config.evaluation.retrieval_batches, source_key)
    return Evaluation(np.asarray(play_all(agent, data, sources, play_key, what_matters(config))))


@partial(jax.jit, static_argnames="config")
def play_all(
    agent: Agent, data: ResidentData, sources: Int[Array, "tasks R"], key: PRNGKeyArray, config: RunConfig
) -> Float[Array, "tasks R E"]:
    """Returns of every task's episodes, reading from the data of task `sources`; consumes `key`."""
    batch_key, play_key = jax.random.split(key)
    num_tasks, batches = sources.shape

    def one_batch(task: Int[Array, ""], from_task: Int[Array, ""], draw: PRNGKeyArray, play: PRNGKeyArray) -> Array:
        batch = draw_retrieval_batch(data, from_task, retrieval_at_test(config), draw)
        return play_episodes(agent, task, tell_task_of(batch, config.data), config, play)

    over_batches = jax.vmap(one_batch, in_axes=(None, 0, 0, 0))
    return jax.vmap(over_batches)(
        jnp.arange(num_tasks),
        sources,
        jax.random.split(batch_key, (num_tasks, batches)),
        jax.random.split(play_key, (num_tasks, batches)),
    )


def play_episodes(
    agent: Agent, task: Int[Array, ""], batch: RetrievalBatch, config: RunConfig, key: PRNGKeyArray
) -> Float[Array, " E"]:
    """Returns of episodes played on one task while reading from one retrieval batch; consumes `key`."""
    reset_key, start_key, act_key = jax.random.split(key, 3)
    episodes = config.evaluation.episodes
    encoded = corrupt_values(agent.encode(batch)[0], config.evaluation.values, jax.random.fold_in(key, 1))
    boards = jax.vmap(GRIDROBOMAN.reset)(jax.random.split(reset_key, episodes))
    starts = jax.vmap(agent.initial_state)(jax.random.split(start_key, episodes))
    nothing = jnp.full(episodes, -1), jnp.zeros(episodes)

    def one_board(carried, step_key):
        board, state, previous_action, previous_reward = carried
        observation = tell_task(GRIDROBOMAN.observe(board), task, config.data)
        frame = only_seen(observation)._replace(previous_action=previous_action, previous_reward=previous_reward)
        output = agent(state, frame, encoded, None)
        action = epsilon_greedy(output.q_values, config.evaluation.epsilon, step_key)
        board, reward = GRIDROBOMAN.step(board, action, task)
        return (board, output.state, action, reward), reward

    def step(carried, step_key):
        return jax.vmap(one_board)(carried, jax.random.split(step_key, episodes))

    steps = jax.random.split(act_key, GRIDROBOMAN.spec.episode_length)
    return jax.lax.scan(step, (boards, starts, *nothing), steps)[1].sum(0)
