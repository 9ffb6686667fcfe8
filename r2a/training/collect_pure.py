"""Collecting where the world runs inside compiled programs; and what its expert and constant actions earn there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import CollectConfig, DataConfig
from r2a.config.collect import OnlineCollectConfig
from r2a.data.columns import assign_splits
from r2a.data.dataset import DatasetWriter
from r2a.data.retrieval_batch import EpisodeTable, ResidentData, draw_sequences
from r2a.environments.api import PureEnv
from r2a.environments.registry import load_features, make_pure, world_of
from r2a.training.collect import Watch, tasks_to_collect
from r2a.training.evaluate import act_in_pure
from r2a.training.rollout_pure import PureEpisodes, rollout_pure
from r2a.types import LearnerState

SHARD = 8_192
"""Episodes that are played at once, at most."""
TRANSITIONS = DataConfig()
"""A plain DQN learns from single transitions."""


class Episodes(NamedTuple):
    """Whole episodes: one observation more than actions, so that every step has a next observation."""

    observation: Shaped[Array, "E T+1 ..."]
    action: Shaped[Array, "E T"]
    reward: Float[Array, "E T"]


def collect_pure(
    env: PureEnv[Any], environment: str, config: CollectConfig, writer: DatasetWriter, watch: Watch
) -> None:
    """Write episodes task by task; all are cut off, none terminates."""
    made = expert_episodes if config.method == "expert" else online_episodes
    for place, name in enumerate(tasks_to_collect(config, env.spec)):
        task, done = env.spec.tasks.index(name), 0
        key = jax.random.fold_in(jax.random.key(config.seed), task)
        split = assign_splits(np.full(config.episodes, task), config.retrieval_fraction, config.seed)
        for episodes in made(env, environment, config, task, key):
            count, length = np.shape(episodes.action)
            columns = {column: np.asarray(values) for column, values in episodes._asdict().items()}
            columns |= {"length": np.full(count, length), "terminated": np.zeros(count, bool)}
            columns |= {"task_id": np.full(count, place), "split": split[done : done + count]}
            writer.append(columns)
            done += count
            watch(name, count, float(np.sum(episodes.reward, axis=1).mean()))


def expert_episodes(
    env: PureEnv[Any], environment: str, config: CollectConfig, task: int, key: PRNGKeyArray
) -> Iterator[Episodes]:
    """Episodes of the expert, the noise levels taking turns; in shards of bounded size."""
    noise = np.resize(np.array(config.ladder, np.float32), config.episodes)
    for start in range(0, config.episodes, SHARD):
        levels = jnp.asarray(noise[start : start + SHARD])
        tasks = jnp.full(len(levels), task)
        yield jax.device_get(play_expert(jax.random.fold_in(key, start), tasks, levels, env, environment))


def play_expert(
    key: PRNGKeyArray, tasks: Int[Array, " E"], noise: Float[Array, " E"], env: PureEnv[Any], environment: str
) -> Episodes:
    """One episode of the expert per entry of `tasks`, with that entry's noise; consumes `key`."""
    # Loaded before anything is traced: what a module makes while it is imported must not become part of a trace.
    return _play_policy(key, tasks, noise, env, world_of(environment).load("expert"))


@partial(jax.jit, static_argnames=("env", "policy"))
def _play_policy(
    key: PRNGKeyArray, tasks: Int[Array, " E"], noise: Float[Array, " E"], env: PureEnv[Any], policy: Any
) -> Episodes:
    reset_key, noise_key = jax.random.split(key)
    return _episodes(rollout_pure(env, policy, noise, tasks, jax.random.split(reset_key, len(tasks)), noise_key))


def _episodes(played: PureEpisodes) -> Episodes:
    """Episodes first, then time."""
    return Episodes(*(jnp.swapaxes(column, 0, 1) for column in (played.observation, played.action, played.reward)))


def online_episodes(
    env: PureEnv[Any], environment: str, config: CollectConfig, task: int, key: PRNGKeyArray
) -> Iterator[Episodes]:
    """All episodes of a DQN agent that learns the task online, in the order they were played."""
    load_features(environment)
    online = config.online
    agent_key, learner_key, play_key = jax.random.split(key, 3)
    agent = build_agent(online.agent, env.spec.observation.shape, env.spec.action_size, agent_key)
    state = start_learning(agent, online.learner, learner_key)
    memory = empty_memory(env, online.memory)
    for number in range(-(-config.episodes // online.boards)):
        share = number * online.boards / (online.epsilon_fraction * config.episodes)
        epsilon = max(online.epsilon_last, online.epsilon_first + share * (online.epsilon_last - online.epsilon_first))
        given = (jnp.asarray(number), jnp.asarray(epsilon), jnp.asarray(task), jax.random.fold_in(play_key, number))
        state, memory, episodes = play_and_learn(state, memory, *given, env, online)
        left = config.episodes - number * online.boards
        yield Episodes(*(column[:left] for column in jax.device_get(episodes)))


def empty_memory(env: PureEnv[Any], capacity: int) -> ResidentData:
    """A replay memory of whole episodes, laid out like a data set with one task."""
    length, spec = env.spec.max_steps, env.spec

    learning, retrieval = (EpisodeTable(jnp.arange(capacity)[None], jnp.ones(1, jnp.int32)) for _ in range(2))
    return ResidentData(
        observation=jnp.zeros((capacity, length + 1, *spec.observation.shape), spec.observation.dtype),
        instruction=jnp.zeros((capacity, 0), jnp.uint8),
        action=jnp.zeros((capacity, length), jnp.int8),
        reward=jnp.zeros((capacity, length)),
        length=jnp.full(capacity, length),
        terminated=jnp.zeros(capacity, bool),
        task_id=jnp.zeros(capacity, jnp.int32),
        episode_return=jnp.zeros(capacity),
        learning=learning,
        retrieval=retrieval,
    )


@partial(jax.jit, static_argnames=("env", "config"), donate_argnums=(0, 1))
def play_and_learn(
    state: LearnerState,
    memory: ResidentData,
    number: Array,
    epsilon: Float[Array, ""],
    task: Array,
    key: PRNGKeyArray,
    env: PureEnv[Any],
    config: OnlineCollectConfig,
) -> tuple[LearnerState, ResidentData, Episodes]:
    """One round: play an episode on every board, remember them, then learn from what is remembered. Consumes `key`."""
    play_key, learn_key = jax.random.split(key)
    reset_key, act_key = jax.random.split(play_key)
    boards = jnp.zeros(config.boards, jnp.int32)
    policy = partial(act_in_pure, state.params, None, boards, TRANSITIONS, epsilon)
    start = jax.vmap(lambda _: state.params.initial_state(None))(boards)
    reset_keys = jax.random.split(reset_key, config.boards)
    episodes = _episodes(rollout_pure(env, policy, start, boards + task, reset_keys, act_key))
    episodes = episodes._replace(action=episodes.action.astype(jnp.int8))
    place = (number * config.boards + jnp.arange(config.boards)) % config.memory
    count = jnp.minimum((number + 1) * config.boards, config.memory)
    memory = memory._replace(
        observation=memory.observation.at[place].set(episodes.observation),
        action=memory.action.at[place].set(episodes.action),
        reward=memory.reward.at[place].set(episodes.reward),
        learning=memory.learning._replace(count=count[None]),
    )

    def learn(state: LearnerState, step_key: PRNGKeyArray) -> tuple[LearnerState, None]:
        draw_key, update_key = jax.random.split(step_key)
        sequences = draw_sequences(memory, jnp.zeros((), int), config.batch_size, TRANSITIONS, draw_key)
        one_task = jax.tree.map(lambda column: column[None], sequences)
        return update(state, LearningBatch(one_task, None), update_key, config.learner)[0], None

    state, _ = jax.lax.scan(learn, state, jax.random.split(learn_key, config.updates_per_round))
    return state, memory, episodes


def expert_and_floor(
    environment: str, names: Sequence[str], key: PRNGKeyArray, episodes: int = 500, starts: int = 4096
) -> tuple[Float[np.ndarray, " tasks"], Float[np.ndarray, " tasks"]]:
    """Mean return of the expert on each task, and of the constant action that is best for all; consumes `key`."""
    env = make_pure(environment)
    assert env is not None
    expert_key, constant_key = jax.random.split(key)
    numbers = jnp.asarray([env.spec.tasks.index(name) for name in names])
    tasks = jnp.repeat(numbers, episodes)
    expert = play_expert(expert_key, tasks, jnp.zeros(len(tasks)), env, environment).reward.sum(1)
    constant = np.asarray(constant_returns(numbers, jax.random.split(constant_key, starts), env))
    return np.asarray(expert).reshape(len(names), episodes).mean(1), constant[:, constant.mean(0).argmax()]


@partial(jax.jit, static_argnames="env")
def constant_returns(
    tasks: Int[Array, " tasks"], keys: Key[Array, " n"], env: PureEnv[Any]
) -> Float[Array, "tasks actions"]:
    """Mean return of every constant action on every task, over random starts; consumes `keys`."""

    def one(pair: Array) -> Array:
        rows = jnp.zeros(len(keys), jnp.int32)
        task, action = rows + pair[0], (rows + pair[1]).astype(jnp.int8)
        played = rollout_pure(env, lambda *_: ((), action, ()), (), task, keys, jax.random.key(0))
        return played.reward.sum(0).mean()

    actions = jnp.arange(env.spec.action_size)
    pairs = jnp.stack(jnp.meshgrid(tasks, actions, indexing="ij"), axis=-1)
    return jax.lax.map(one, pairs.reshape(-1, 2)).reshape(len(tasks), len(actions))
