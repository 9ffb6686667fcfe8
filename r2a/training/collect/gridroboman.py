"""Make offline data sets of gridroboman: by a scripted expert with a ladder of noise, or by online DQN agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from r2a import __version__
from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent, only_seen
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import (
    AgentConfig,
    DataConfig,
    EncoderConfig,
    HeadConfig,
    LearnerConfig,
    RetrievalConfig,
    require,
    require_positive,
)
from r2a.data.dataset import DatasetWriter, OfflineDataset, assign_splits
from r2a.data.retrieval_batch import EpisodeTable, ResidentData, draw_sequences
from r2a.environments.gridroboman import GRIDROBOMAN
from r2a.environments.gridroboman.expert import Episodes, rollout
from r2a.types import LearnerState

SPEC = GRIDROBOMAN.spec
TRANSITIONS = DataConfig()
"""A plain DQN learns from single transitions."""


@dataclass(frozen=True)
class CollectConfig:
    """How many episodes of which tasks; a quarter of them is kept for retrieval."""

    episodes: int = 4_000
    """Episodes per task (the paper: 100,000)."""
    num_tasks: int = 30
    retrieval_fraction: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        require(
            self.episodes >= 2, "episodes", self.episodes, "it must be at least 2: one to learn from, one to retrieve"
        )
        require(
            1 <= self.num_tasks <= len(SPEC.task_names),
            "num-tasks",
            self.num_tasks,
            f"there are {len(SPEC.task_names)} tasks",
        )
        require(self.seed >= 0, "seed", self.seed, "it must not be negative")
        require(
            0 < self.retrieval_fraction < 1,
            "retrieval-fraction",
            self.retrieval_fraction,
            "it must lie between 0 and 1",
        )


@dataclass(frozen=True)
class ScriptedConfig(CollectConfig):
    """The fast way: an expert that acts at random with probability epsilon, a fifth of the episodes each."""

    ladder: tuple[float, ...] = (0.0, 0.5, 0.75, 0.9, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            len(self.ladder) > 0 and all(0 <= e <= 1 for e in self.ladder),
            "ladder",
            self.ladder,
            "it must list probabilities between 0 and 1",
        )


@dataclass(frozen=True)
class OnlineConfig(CollectConfig):
    """The paper's way (App. gridroboman setup): a DQN learns each task online, and all its episodes are recorded."""

    boards: int = 64
    """Episodes played at once, between two rounds of learning."""
    updates_per_round: int = 64
    memory: int = 4_096
    """Episodes in the replay memory."""
    epsilon_first: float = 1.0
    epsilon_last: float = 0.05
    epsilon_fraction: float = 0.3
    """Exploration falls linearly over this share of the episodes."""
    batch_size: int = 256
    agent: AgentConfig = field(
        default_factory=lambda: AgentConfig(  # App.: a 3-layer MLP with 256 units
            EncoderConfig("positions", (256, 256)), retrieval=RetrievalConfig(variant="none"), head=HeadConfig()
        )
    )
    learner: LearnerConfig = field(
        default_factory=lambda: LearnerConfig(learning_rate=1e-3, discount=0.95, target_period=200)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.boards <= self.memory, "boards", self.boards, "it must lie between 1 and memory")
        require_positive(self, "updates_per_round", "epsilon_fraction", "batch_size")
        variant = self.agent.retrieval.variant
        require(variant == "none", "agent.retrieval.variant", variant, "there is nothing to read while data are made")


def collect(
    config: ScriptedConfig | OnlineConfig,
    path: str | Path,
    *,
    overwrite: bool = False,
    watch: Callable[[str, int, float], None] = lambda task, episodes, mean_return: None,
) -> OfflineDataset:
    """Write a data set task by task; `watch` hears of each shard: its task, its episodes, their mean return."""
    make = scripted_episodes if isinstance(config, ScriptedConfig) else online_episodes
    method = "scripted" if isinstance(config, ScriptedConfig) else "online_dqn"
    writer = DatasetWriter(
        path,
        name=Path(path).name,
        environment=SPEC.name,
        task_names=SPEC.task_names[: config.num_tasks],
        num_actions=SPEC.num_actions,
        provenance={"method": method, "settings": asdict(config), "seed": config.seed, "r2a": __version__},
        overwrite=overwrite,
    )
    with writer:
        for task in range(config.num_tasks):
            key = jax.random.fold_in(jax.random.key(config.seed), task)
            split = assign_splits(np.full(config.episodes, task), config.retrieval_fraction, config.seed)
            done = 0
            for episodes in make(config, task, key):  # type: ignore[arg-type]
                count = len(episodes.action)
                writer.append(as_shard(episodes, task, split[done : done + count]))
                done += count
                watch(SPEC.task_names[task], count, float(np.sum(episodes.reward, axis=1).mean()))
    return OfflineDataset.open(path)


def as_shard(episodes: Episodes, task: int, split: np.ndarray) -> dict[str, Any]:
    """The columns of some episodes of one task; all of them are cut off, none terminates."""
    count, length = np.shape(episodes.action)
    return {
        "observation": np.asarray(episodes.observation),
        "action": np.asarray(episodes.action),
        "reward": np.asarray(episodes.reward),
        "length": np.full(count, length),
        "terminated": np.zeros(count, bool),
        "task_id": np.full(count, task),
        "split": split,
    }


def scripted_episodes(config: ScriptedConfig, task: int, key: PRNGKeyArray) -> Iterator[Episodes]:
    """Episodes of the scripted expert, the noise levels taking turns; in shards of bounded size."""
    epsilon = np.resize(np.array(config.ladder, np.float32), config.episodes)
    shard = 8_192
    for start in range(0, config.episodes, shard):
        levels = epsilon[start : start + shard]
        tasks = jnp.full(len(levels), task)
        yield jax.tree.map(np.asarray, rollout(jax.random.fold_in(key, start), tasks, jnp.asarray(levels)))


def online_episodes(config: OnlineConfig, task: int, key: PRNGKeyArray) -> Iterator[Episodes]:
    """All episodes of a DQN agent that learns the task online, in the order they were played."""
    agent_key, learner_key, play_key = jax.random.split(key, 3)
    agent = build_agent(config.agent, SPEC.observation_shape[0], SPEC.num_actions, agent_key)
    state = start_learning(agent, config.learner, learner_key)
    memory = empty_memory(config.memory)
    rounds = -(-config.episodes // config.boards)
    for number in range(rounds):
        share = number * config.boards / (config.epsilon_fraction * config.episodes)
        epsilon = max(config.epsilon_last, config.epsilon_first + share * (config.epsilon_last - config.epsilon_first))
        state, memory, episodes = play_and_learn(
            state,
            memory,
            jnp.asarray(number),
            jnp.asarray(epsilon),
            jnp.asarray(task),
            jax.random.fold_in(play_key, number),
            config,
        )
        left = config.episodes - number * config.boards
        yield Episodes(*(column[:left] for column in jax.device_get(episodes)))


def empty_memory(capacity: int) -> ResidentData:
    """A replay memory of whole episodes, laid out like a data set with one task."""
    length = SPEC.episode_length

    def everything() -> EpisodeTable:
        return EpisodeTable(jnp.arange(capacity)[None], jnp.ones(1, jnp.int32))

    return ResidentData(
        observation=jnp.zeros((capacity, length + 1, *SPEC.observation_shape), jnp.int8),
        instruction=jnp.zeros((capacity, 0), jnp.uint8),
        action=jnp.zeros((capacity, length), jnp.int8),
        reward=jnp.zeros((capacity, length)),
        length=jnp.full(capacity, length),
        terminated=jnp.zeros(capacity, bool),
        task_id=jnp.zeros(capacity, jnp.int32),
        episode_return=jnp.zeros(capacity),
        learning=everything(),
        retrieval=everything(),
    )


@partial(jax.jit, static_argnames="config", donate_argnums=(0, 1))
def play_and_learn(
    state: LearnerState,
    memory: ResidentData,
    number: Array,
    epsilon: Float[Array, ""],
    task: Array,
    key: PRNGKeyArray,
    config: OnlineConfig,
) -> tuple[LearnerState, ResidentData, Episodes]:
    """One round: play an episode on every board, remember them, then learn from what is remembered. Consumes `key`."""
    play_key, learn_key = jax.random.split(key)
    episodes = play_exploring(state.params, task, epsilon, config.boards, play_key)
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


def play_exploring(agent: Agent, task: Array, epsilon: Float[Array, ""], boards: int, key: PRNGKeyArray) -> Episodes:
    """One episode on each of `boards` boards by a plain agent; consumes `key`."""
    reset_key, act_key = jax.random.split(key)
    start = jax.vmap(GRIDROBOMAN.reset)(jax.random.split(reset_key, boards))
    agent_state = agent.initial_state(None)

    def one_board(board, step_key):
        observation = GRIDROBOMAN.observe(board)
        output = agent(agent_state, only_seen(observation), None, None)
        action = epsilon_greedy(output.q_values, epsilon, step_key)
        board, reward = GRIDROBOMAN.step(board, action, task)
        return board, (observation, action.astype(jnp.int8), reward)

    def step(boards_now, step_key):
        return jax.vmap(one_board)(boards_now, jax.random.split(step_key, boards))

    last, (observation, action, reward) = jax.lax.scan(step, start, jax.random.split(act_key, SPEC.episode_length))
    observation = jnp.concatenate([observation, jax.vmap(GRIDROBOMAN.observe)(last)[None]])
    return Episodes(*(jnp.swapaxes(column, 0, 1) for column in (observation, action, reward)))
