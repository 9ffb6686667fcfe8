"""Episodes of the scripted expert, recorded as if an agent had played them while reading its own future."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.boards import solved_tasks

from r2a.environments.gridroboman.env import GRIDROBOMAN
from r2a.records import EpisodeRecord, RetrievedStates
from r2a.training.collect_pure import play_expert
from r2a.types import Attended

SLOTS, STATES, EPISODE = 2, 4, 17


def solved_on_the_way(key, actions):
    """Which tasks every board of a `play_expert` with this key and these actions solves."""
    reset_key, _ = jax.random.split(key)

    def step(board, action):
        board, _ = GRIDROBOMAN.step(board, action, 0)
        return board, solved_tasks(board)

    return jax.lax.scan(step, GRIDROBOMAN.reset(jax.random.split(reset_key, 1)[0]), actions)[1]


@pytest.fixture(scope="session")
def expert_record():
    """A function from a task and a seed to the record of an expert's episode; the start is the seed's."""

    def record(task: int, seed: int = 0) -> EpisodeRecord:
        key = jax.random.key(seed)
        played = play_expert(key, jnp.array([task]), jnp.zeros(1), GRIDROBOMAN, "gridroboman")
        episode = jax.tree.map(lambda column: np.asarray(column)[0], played)
        length = len(episode.action)
        # Slot 0 reads steps t, t+1, ..., slot 1 reads t, t+2, ...: they share the state t.
        ahead = np.stack([np.arange(STATES), 2 * np.arange(STATES)])
        steps = np.minimum(np.arange(length)[:, None, None] + ahead, length - 1)
        weight = np.broadcast_to(np.array([0.5, 0.25, 0.15, 0.1], np.float32), (length, SLOTS, STATES))
        slot_weight = np.broadcast_to(np.array([0.75, 0.25], np.float32), (length, SLOTS))
        q_values = np.zeros((length, GRIDROBOMAN.spec.action_size), np.float32)
        q_values[np.arange(length), episode.action] = 1
        return EpisodeRecord(
            task=task,
            retrieve_from=task,
            observations=episode.observation,
            actions=episode.action,
            rewards=episode.reward,
            q_values=q_values,
            solved=np.asarray(solved_on_the_way(key, episode.action)),
            selection=Attended(np.zeros_like(steps), steps, weight, slot_weight),  # type: ignore[arg-type]
            retrieved=RetrievedStates(
                observation=episode.observation[steps],
                action=episode.action[steps],
                reward=episode.reward[steps],
                task=np.full_like(steps, task),
                episode=np.full_like(steps, EPISODE),
                episode_return=np.full(steps.shape, episode.reward.sum()),
            ),  # type: ignore[arg-type]
        )

    return record
