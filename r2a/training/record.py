"""Play one episode and keep all of it: boards, actions, Q-values, and what was retrieved at every step."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent, only_seen
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData, draw_retrieval_batch, tell_task, tell_task_of
from r2a.environments.gridroboman import GRIDROBOMAN
from r2a.environments.gridroboman.tasks import solved_tasks
from r2a.errors import UserError
from r2a.records import EpisodeRecord, RetrievedStates
from r2a.training.evaluate import what_matters
from r2a.types import Attended, EncodedBatch, RetrievalBatch


def record_episode(
    agent: Agent, data: ResidentData, config: RunConfig, *, task: int, retrieve_from: int, key: PRNGKeyArray
) -> EpisodeRecord:
    """Play `task` as in an evaluation, reading from the data of task `retrieve_from`; consumes `key`.

    The start board is a function of the key alone, so two sources can be compared from the same start.
    """
    tasks, sources = len(GRIDROBOMAN.spec.task_names), data.retrieval.count.shape[0]
    if not 0 <= task < tasks:
        raise UserError(f"There is no task number {task}; the environment has {tasks} tasks, from 0 on.")
    if not 0 <= retrieve_from < sources:
        raise UserError(f"There is no task number {retrieve_from} to read from; the data have {sources}, from 0 on.")
    columns = _play(agent, data, jnp.int32(task), jnp.int32(retrieve_from), key, what_matters(config))
    return EpisodeRecord(task=task, retrieve_from=retrieve_from, **jax.tree.map(np.asarray, columns))


@partial(jax.jit, static_argnames="config")
def _play(
    agent: Agent, data: ResidentData, task: Int[Array, ""], source: Int[Array, ""], key: PRNGKeyArray, config: RunConfig
) -> dict[str, Any]:
    reset_key, start_key, act_key, batch_key = jax.random.split(key, 4)
    batch = draw_retrieval_batch(data, source, config.agent.retrieval, batch_key)
    encoded, _ = agent.encode(tell_task_of(batch, config.data))

    def step(carried, step_key):
        board, state, previous_action, previous_reward = carried
        seen = GRIDROBOMAN.observe(board)
        frame = only_seen(tell_task(seen, task, config.data))
        frame = frame._replace(previous_action=previous_action, previous_reward=previous_reward)
        output = agent(state, frame, encoded, None)
        action = epsilon_greedy(output.q_values, config.evaluation.epsilon, step_key)
        following, reward = GRIDROBOMAN.step(board, action, task)
        selection = output.retrieved.attended
        return (following, output.state, action, reward), {
            "observations": seen,
            "actions": action,
            "rewards": reward,
            "q_values": output.q_values,
            "solved": solved_tasks(following),
            "selection": selection,
            "retrieved": look_up(selection, batch, encoded),
        }

    keys = jax.random.split(act_key, GRIDROBOMAN.spec.episode_length)
    start = (GRIDROBOMAN.reset(reset_key), agent.initial_state(start_key), jnp.int32(-1), jnp.zeros(()))
    (last, *_), columns = jax.lax.scan(step, start, keys)
    columns["observations"] = jnp.concatenate([columns["observations"], GRIDROBOMAN.observe(last)[None]])
    return columns


def look_up(selection: Attended, batch: RetrievalBatch, encoded: EncodedBatch | None) -> RetrievedStates:
    """The states of the batch that a selection points to; an agent that reads nothing points to none."""
    trajectories, row = batch.trajectories, selection.trajectory
    if encoded is not None:  # ranking by return leaves out and reorders: find the rows again by their episodes
        rows = jnp.argmax(encoded.trajectory_id[:, None] == trajectories.trajectory_id, axis=1)
        row = rows[selection.trajectory]
    return RetrievedStates(
        observation=trajectories.observation[row, selection.step],
        action=trajectories.action[row, selection.step],
        reward=trajectories.reward[row, selection.step],
        task=trajectories.task_id[row],
        episode=trajectories.trajectory_id[row],
        episode_return=batch.returns[row],
    )
