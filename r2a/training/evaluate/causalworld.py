"""CausalWorld: real simulators in processes of their own, the agent compiled for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import RunConfig
from r2a.data.retrieval_batch import ResidentData
from r2a.environments.causalworld import SOLVED
from r2a.environments.causalworld.worlds import Setting, Worlds
from r2a.training.evaluate.readers import Readers, act, arrange, begin, gather, prepare
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
    """Play whole episodes of every task; consumes `key`. The score is 1 where the task was solved at the end.

    One retrieval batch after the other, with the same simulators: each takes a tenth of a second to make.
    """
    world = config.causalworld
    one_batch = replace(config, evaluation=replace(config.evaluation, retrieval_batches=1))
    parts: list[Evaluation] = []
    played = arrange(source, one_batch, key).task.ravel()
    setting = Setting(world.skip_frame, goals=world.goals)
    with Worlds([task_names[int(task)] for task in played], setting, world.processes) as worlds:
        for batch_key in jax.random.split(key, config.evaluation.retrieval_batches):
            source_key, play_key = jax.random.split(batch_key)
            readers = arrange(source, one_batch, source_key)
            parts.append(play(agent, data, one_batch, worlds, readers, play_key))
    scores, fraction = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("scores", "fraction")
    )
    return Evaluation(
        scores, fraction, np.mean(np.stack([part.weight for part in parts if part.weight is not None]), axis=0)
    )


def play(
    agent: Agent, data: ResidentData, config: RunConfig, worlds: Worlds, readers: Readers, key: PRNGKeyArray
) -> Evaluation:
    """One episode in every world; consumes `key`."""
    batch_key, seed_key, start_key, act_key = jax.random.split(key, 4)
    setting, shape = what_matters(config), readers.task.shape
    encoded = prepare(agent, data, readers.sources, batch_key, setting)
    first_seed = int(jax.random.randint(seed_key, (), 0, 2**30))
    observation = worlds.reset(range(first_seed, first_seed + readers.task.size))
    state, heard = begin(agent, jnp.zeros((*shape, 0), jnp.uint8), start_key)
    action = np.zeros((*shape, data.action.shape[-1]), np.float32)
    reward, over = np.zeros(shape, np.float32), np.zeros(readers.task.size, bool)
    weight, step = jnp.zeros((*shape, config.data.num_tasks)), 0
    fraction = np.zeros(readers.task.size)
    while not over.all():
        seen = (observation.reshape(*shape, -1), action, reward, np.full(shape, step == 0))
        observations, *before = map(jnp.asarray, seen)
        frames = Frames(observations, heard, *before)
        active, step_key = jnp.asarray(~over.reshape(shape)), jax.random.fold_in(act_key, step)
        chosen, state, weight = act(agent, state, frames, encoded, weight, active, step_key, setting)
        action = np.asarray(chosen)
        observation, paid, over, fraction = worlds.step(action.reshape(readers.task.size, -1))
        reward, step = paid.reshape(shape), step + 1
    found = gather(readers, (fraction > SOLVED).astype(float), np.asarray(weight), config)
    return found._replace(fraction=gather(readers, fraction, np.asarray(weight), config).scores)
