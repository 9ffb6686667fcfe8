"""Act in the environment, on all tasks at once, reading from the right, a wrong or a random task's data."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData, draw_retrieval_batch, tell_task, tell_task_of
from r2a.environments.gridroboman import GRIDROBOMAN
from r2a.types import RetrievalBatch

Source = Literal["right", "wrong", "random"]
SOURCES: tuple[Source, ...] = ("right", "wrong", "random")


class Evaluation(NamedTuple):
    """Returns of every episode: task, retrieval batch, episode."""

    returns: Float[Array, "tasks R E"]

    def per_task(self) -> np.ndarray:
        """Mean return of each task."""
        return np.asarray(self.returns).mean((1, 2))

    def mean(self) -> float:
        """Mean return over all tasks."""
        return float(np.asarray(self.returns).mean())


def source_tasks(source: Source, num_tasks: int, batches: int, key: PRNGKeyArray) -> Int[Array, "tasks R"]:
    """Whose data each task reads from in each of its retrieval batches; consumes `key`.

    wrong: another task each time, never the evaluated one; random: any task, as the control is trained with.
    """
    own = jnp.arange(num_tasks)[:, None]
    if source == "right":
        return jnp.broadcast_to(own, (num_tasks, batches))
    low = 1 if source == "wrong" and num_tasks > 1 else 0
    return (own + jax.random.randint(key, (num_tasks, batches), low, num_tasks)) % num_tasks


def evaluate(agent: Agent, data: ResidentData, config: RunConfig, source: Source, key: PRNGKeyArray) -> Evaluation:
    """Play every task with `evaluation.episodes` episodes for each of several retrieval batches; consumes `key`."""
    source_key, play_key = jax.random.split(key)
    sources = source_tasks(source, config.data.num_tasks, config.evaluation.retrieval_batches, source_key)
    return Evaluation(play_all(agent, data, sources, play_key, what_matters(config)))


def what_matters(config: RunConfig) -> RunConfig:
    """The config without what playing does not depend on, so that runs share one compiled program."""
    return RunConfig(agent=config.agent, data=config.data, evaluation=config.evaluation)


@partial(jax.jit, static_argnames="config")
def play_all(
    agent: Agent, data: ResidentData, sources: Int[Array, "tasks R"], key: PRNGKeyArray, config: RunConfig
) -> Float[Array, "tasks R E"]:
    """Returns of every task's episodes, reading from the data of task `sources`; consumes `key`."""
    batch_key, play_key = jax.random.split(key)
    num_tasks, batches = sources.shape

    def one_batch(task: Int[Array, ""], from_task: Int[Array, ""], draw: PRNGKeyArray, play: PRNGKeyArray) -> Array:
        batch = draw_retrieval_batch(data, from_task, config.agent.retrieval, draw)
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
    """Returns of episodes played on one task while reading from one retrieval batch; consumes `key`.

    A feed-forward agent is trained on single states, so every step starts from the episode's first slots.
    """
    reset_key, start_key, act_key = jax.random.split(key, 3)
    episodes = config.evaluation.episodes
    encoded, _ = agent.prepare(batch)
    boards = jax.vmap(GRIDROBOMAN.reset)(jax.random.split(reset_key, episodes))
    starts = jax.vmap(agent.start)(jax.random.split(start_key, episodes))

    def one_board(board, start, step_key):
        observation = tell_task(GRIDROBOMAN.observe(board), task, config.data)
        output = agent(start, observation, encoded, None)
        action = epsilon_greedy(output.q_values, config.evaluation.epsilon, step_key)
        return GRIDROBOMAN.step(board, action, task)

    def step(boards, step_key):
        return jax.vmap(one_board)(boards, starts, jax.random.split(step_key, episodes))

    _, rewards = jax.lax.scan(step, boards, jax.random.split(act_key, GRIDROBOMAN.spec.episode_length))
    return rewards.sum(0)
