"""CausalWorld: real simulators in processes of their own, the agent compiled for all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, PRNGKeyArray, UInt8

from r2a.agents.agent import Agent
from r2a.config import CausalWorldConfig, RunConfig
from r2a.data.retrieval_batch import ResidentData
from r2a.environments.causalworld import SOLVED
from r2a.environments.causalworld.worlds import Setting, Worlds
from r2a.training.evaluate.readers import Readers, act, arrange, begin, gather, prepare
from r2a.training.evaluate.sources import Evaluation, Source, what_matters
from r2a.types import Frames


class Played(NamedTuple):
    """One episode in each of n worlds: what came of it, and what brings it back."""

    found: Evaluation
    seeds: range
    actions: Float32[np.ndarray, "T n a"]


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
    played = np.repeat(np.arange(config.data.num_tasks), config.evaluation.episodes)
    with Worlds([task_names[int(task)] for task in played], setting_of(world), world.processes) as worlds:
        for batch_key in jax.random.split(key, config.evaluation.retrieval_batches):
            source_key, play_key = jax.random.split(batch_key)
            readers = arrange(source, one_batch, source_key)
            parts.append(play(agent, data, one_batch, worlds, readers, play_key).found)
    scores, fraction = (
        np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("scores", "fraction")
    )
    weights = [part.weight for part in parts if part.weight is not None]
    return Evaluation(scores, fraction, np.mean(np.stack(weights), axis=0) if weights else None)


def setting_of(world: CausalWorldConfig) -> Setting:
    """How the worlds of a run are made."""
    return Setting(world.skip_frame, world.max_steps or None, world.goals, world.cameras, world.side)


def play(
    agent: Agent, data: ResidentData, config: RunConfig, worlds: Worlds, readers: Readers, key: PRNGKeyArray
) -> Played:
    """One episode in every world; consumes `key`."""
    batch_key, seed_key, start_key, act_key = jax.random.split(key, 4)
    setting, shape = what_matters(config), readers.task.shape
    encoded = prepare(agent, data, readers.sources, batch_key, setting)
    first_seed = int(jax.random.randint(seed_key, (), 0, 2**30))
    seeds = range(first_seed, first_seed + readers.task.size)
    observation = worlds.reset(seeds)
    state, instruction = begin(agent, jnp.zeros((*shape, 0), jnp.uint8), start_key)
    action = np.zeros((*shape, data.action.shape[-1]), np.float32)
    reward, over = np.zeros(shape, np.float32), np.zeros(readers.task.size, bool)
    weight, step = jnp.zeros((*shape, config.data.num_tasks)), 0
    fraction, actions = np.zeros(readers.task.size), []
    while not over.all():
        seen = (observation.reshape(*shape, *observation.shape[1:]), action, reward, np.full(shape, step == 0))
        observations, *before = map(jnp.asarray, seen)
        frames = Frames(observations, instruction, *before)
        active, step_key = jnp.asarray(~over.reshape(shape)), jax.random.fold_in(act_key, step)
        chosen, state, weight = act(agent, state, frames, encoded, weight, active, step_key, setting)
        action = np.asarray(chosen)
        actions.append(action.reshape(readers.task.size, -1))
        observation, paid, over, fraction = worlds.step(actions[-1])
        reward, step = paid.reshape(shape), step + 1
    found = gather(readers, (fraction > SOLVED).astype(float), np.asarray(weight), config, fraction)
    return Played(found, seeds, np.stack(actions))


def films(
    agent: Agent, data: ResidentData, config: RunConfig, task_names: Sequence[str], source: Source, key: PRNGKeyArray
) -> Iterator[tuple[str, Iterator[UInt8[np.ndarray, "h w 3"]]]]:
    """An episode of every task as pictures, seen once while it is played again; consumes `key`."""
    world = config.causalworld
    once = replace(config, evaluation=replace(config.evaluation, episodes=1, retrieval_batches=1))
    source_key, play_key = jax.random.split(key)
    readers = arrange(source, once, source_key)
    tasks = [task_names[int(task)] for task in readers.task.ravel()]
    with Worlds(tasks, setting_of(world), world.processes) as worlds:
        played = play(agent, data, once, worlds, readers, play_key)
    for number, task in enumerate(tasks):
        yield task, _pictures(task, config, played.seeds[number], played.actions[:, number])


def _pictures(
    task: str, config: RunConfig, seed: int, actions: Float32[np.ndarray, "T a"]
) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    world = config.causalworld
    seen = setting_of(world)._replace(cameras=())
    environment = seen.make(task, render_mode="rgb_array")
    environment.reset(seed=seed)
    yield environment.render()  # pyright: ignore[reportReturnType]
    for action in actions[: environment.max_steps]:
        environment.step(action)
        yield environment.render()  # pyright: ignore[reportReturnType]
    environment.close()
