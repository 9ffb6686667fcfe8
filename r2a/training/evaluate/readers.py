"""Worlds stepped from outside the compiled program, and the agents in them: who reads what, acting, and the outcome."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData, draw_mixed_batch
from r2a.training.evaluate.sources import Evaluation, Source, corrupt_values, retrieval_at_test, source_tasks
from r2a.types import Action, AgentState, EncodedBatch, Frames


class Readers(NamedTuple):
    """Groups of worlds [G b] that read from the same batch: which, and the task each world plays."""

    sources: Int[Array, "G S"]
    task: Int[np.ndarray, "G b"]


def arrange(source: Source, config: RunConfig, key: PRNGKeyArray) -> Readers:
    """Who reads what; consumes `key`. Those that read from all tasks share a batch, whatever they play."""
    tasks, batches = config.data.num_tasks, config.evaluation.retrieval_batches
    episodes = np.arange(config.evaluation.episodes)
    if source == "all_tasks":
        everything = jnp.broadcast_to(jnp.arange(tasks), (batches, tasks))
        played = np.repeat(np.arange(tasks), len(episodes))
        return Readers(everything, np.broadcast_to(played, (batches, len(played))))
    read = source_tasks(source, tasks, batches, key)
    played = np.repeat(np.arange(tasks), batches)[:, None]
    return Readers(read.reshape(-1, 1), np.broadcast_to(played, (tasks * batches, len(episodes))))


def gather(
    readers: Readers, scores: np.ndarray, weight: np.ndarray, config: RunConfig, fraction: np.ndarray | None = None
) -> Evaluation:
    """Put the worlds' figures in order of their tasks."""
    tasks, batches = config.data.num_tasks, config.evaluation.retrieval_batches
    order = np.argsort(readers.task.ravel(), kind="stable")
    ordered = scores[order].reshape(tasks, batches, -1)
    covered = None if fraction is None else fraction[order].reshape(tasks, batches, -1)
    if not config.agent.retrieval.reads:
        return Evaluation(ordered, fraction=covered)
    read = weight.reshape(len(order), -1)[order].reshape(tasks, -1, tasks).sum(1)
    return Evaluation(ordered, weight=read / np.maximum(read.sum(1, keepdims=True), 1e-9), fraction=covered)


@partial(jax.jit, static_argnames="config")
def prepare(
    agent: Agent, data: ResidentData, sources: Int[Array, "G S"], key: PRNGKeyArray, config: RunConfig
) -> EncodedBatch | None:
    """An encoded retrieval batch for each group, with episodes of all its sources; consumes `key`."""

    def one(tasks: Int[Array, " S"], key: PRNGKeyArray) -> EncodedBatch | None:
        encoded, _ = agent.encode(draw_mixed_batch(data, tasks, retrieval_at_test(config), key))
        return corrupt_values(encoded, config.evaluation.values, jax.random.fold_in(key, 1))

    return jax.vmap(one)(sources, jax.random.split(key, sources.shape[0]))


@jax.jit
def begin(agent: Agent, instruction: Array, key: PRNGKeyArray) -> tuple[AgentState, Array]:
    """The agents' states at an episode's start, and the instructions as vectors; consumes `key`."""
    starts = jax.vmap(jax.vmap(agent.initial_state))(jax.random.split(key, instruction.shape[:2]))
    return starts, jax.vmap(jax.vmap(agent.encode_instruction))(instruction)


@partial(jax.jit, static_argnames="config", donate_argnames=("state", "weight"))
def act(
    agent: Agent,
    state: AgentState,
    frames: Frames,
    encoded: EncodedBatch | None,
    weight: Float[Array, "G b tasks"],
    active: Bool[Array, "G b"],
    key: PRNGKeyArray,
    config: RunConfig,
) -> tuple[Action, AgentState, Float[Array, "G b tasks"]]:
    """One step of all agents, and the retrieval weight that each task's episodes got so far; consumes `key`.

    A continuous action is the mean of the heaviest component; among numbered ones, some are random.
    """

    def one(state: AgentState, frame: Frames, encoded: EncodedBatch | None, key: PRNGKeyArray) -> Any:
        output = agent(state, frame, encoded, None)
        if agent.head.num_components:
            action = agent.head.mode(output.q_values)
        else:
            action = epsilon_greedy(output.q_values, config.evaluation.epsilon, key)
        selection = output.retrieved.attended
        if encoded is None:
            return action, output.state, jnp.zeros(config.data.num_tasks)
        whose = jax.nn.one_hot(encoded.task_id[selection.trajectory], config.data.num_tasks)
        return action, output.state, jnp.einsum("k,ks,kst->t", selection.slot_weight, selection.weight, whose)

    keys = jax.random.split(key, active.shape)
    action, state, read = jax.vmap(jax.vmap(one, in_axes=(0, 0, None, 0)))(state, frames, encoded, keys)
    return action, state, weight + jnp.where(active[..., None], read, 0.0)
