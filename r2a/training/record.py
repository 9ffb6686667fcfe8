"""Play one episode and keep all of it: what was seen and done, Q-values, and what was retrieved at every step."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData
from r2a.environments.api import PureEnv
from r2a.environments.registry import make_pure
from r2a.errors import UserError
from r2a.records import EpisodeRecord, RetrievedStates
from r2a.training.evaluate import act_in_pure, batch_at_test
from r2a.training.rollout_pure import PureView, rollout_pure
from r2a.types import Attended, EncodedBatch, RetrievalBatch


def record_episode(
    agent: Agent, data: ResidentData, config: RunConfig, *, task: int, retrieve_from: int, key: PRNGKeyArray
) -> EpisodeRecord:
    """Play the run's task of that number, reading from the data of task `retrieve_from`; consumes `key`.

    The start is a function of the key alone, so two sources can be compared from the same start.
    """
    pure, tasks = make_pure(config.environment, config.env), len(config.data.tasks)
    if pure is None:
        raise UserError(f"Episodes of {config.environment} cannot be recorded step by step yet.")
    for number in (task, retrieve_from):
        if not 0 <= number < tasks:
            raise UserError(f"There is no task number {number}; the run has {tasks}, from 0 on.")
    numbers = jnp.asarray([pure.spec.tasks.index(name) for name in config.data.tasks])
    columns = _play(agent, data, numbers, jnp.int32(task), jnp.int32(retrieve_from), key, pure, config)
    return EpisodeRecord(task=task, retrieve_from=retrieve_from, **jax.tree.map(np.asarray, columns))


@partial(jax.jit, static_argnames=("env", "config"))
def _play(
    agent: Agent,
    data: ResidentData,
    numbers: Int[Array, " tasks"],
    task: Int[Array, ""],
    source: Int[Array, ""],
    key: PRNGKeyArray,
    env: PureEnv[Any],
    config: RunConfig,
) -> dict[str, Any]:
    reset_key, start_key, act_key, batch_key = jax.random.split(key, 4)
    batch = batch_at_test(data, source[None], config, batch_key, one_task=True)
    memory, _ = agent.encode(batch)
    # What is shown of it is what the environment shows: without the task's number, if that is told.
    seen = batch.trajectories.observation[..., : env.spec.observation.shape[-1]]
    shown = batch._replace(trajectories=batch.trajectories._replace(observation=seen))

    def policy(state: Any, view: PureView, key: PRNGKeyArray) -> Any:
        told = (agent, memory, task[None], config.data, config.evaluation.epsilon)
        state, action, extras = act_in_pure(*told, state, view, key)
        one = jax.tree.map(lambda leaf: leaf[0], view.state)
        extras["solved"] = jax.vmap(lambda number: env.step(one, action[0], number)[1] > 0)(numbers)[None]
        return state, action, extras

    start = jax.tree.map(lambda leaf: leaf[None], agent.initial_state(start_key))
    played = rollout_pure(env, policy, start, numbers[task][None], reset_key[None], act_key)
    observation, action, reward, extras = jax.tree.map(lambda leaf: leaf[:, 0], played)
    return {
        "observations": observation,
        "actions": action,
        "rewards": reward,
        "q_values": extras["q_values"],
        "solved": extras["solved"],
        "selection": extras["selection"],
        "retrieved": jax.vmap(lambda selection: look_up(selection, shown, memory))(extras["selection"]),
    }


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
