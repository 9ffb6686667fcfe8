"""BabyAI: real minigrid worlds stepped together, the agent compiled for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData
from r2a.environments.babyai import level_index
from r2a.environments.babyai.worlds import Worlds
from r2a.training.evaluate.readers import act, arrange, begin, gather, prepare
from r2a.training.evaluate.sources import Evaluation, Source, what_matters
from r2a.types import Frames


def evaluate(
    agent: Agent,
    data: ResidentData,
    config: RunConfig,
    task_names: Sequence[str],
    source: Source,
    key: PRNGKeyArray,
) -> Evaluation:
    """Play episodes of every level; consumes `key`. An episode ends with its mission, or after `evaluation.steps`."""
    source_key, batch_key, seed_key, start_key, act_key = jax.random.split(key, 5)
    readers = arrange(source, config, source_key)
    setting = what_matters(config)
    encoded = prepare(agent, data, readers.sources, batch_key, setting)
    worlds = Worlds([level_index(task_names[int(task)]) for task in readers.task.ravel()])
    first_seed = int(jax.random.randint(seed_key, (), 0, 2**30))
    observation, mission = worlds.reset(range(first_seed, first_seed + readers.task.size))
    shape = readers.task.shape
    state, instruction = begin(agent, jnp.asarray(mission).reshape(*shape, -1), start_key)
    action, reward = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
    fulfilled, active = np.zeros(readers.task.size), np.ones(readers.task.size, bool)
    weight = jnp.zeros((*shape, config.data.num_tasks))
    for step in range(config.evaluation.steps):
        seen = (observation.reshape(*shape, -1), action, reward, np.full(shape, step == 0))
        observations, *before = map(jnp.asarray, seen)
        frames = Frames(observations, instruction, *before)
        step_key = jax.random.fold_in(act_key, step)
        chosen, state, weight = act(
            agent, state, frames, encoded, weight, jnp.asarray(active.reshape(shape)), step_key, setting
        )
        action = np.asarray(chosen)
        observation, paid, terminated, truncated = worlds.step(action.ravel())
        reward = paid.reshape(shape)
        fulfilled[paid > 0] = 1.0
        active = ~(terminated | truncated)
        if not active.any():
            break
    return gather(readers, fulfilled, np.asarray(weight), config)
