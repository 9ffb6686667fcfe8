"""The paper's Atari settings at full width: all of it by shapes, and one real update of a small batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete

from r2a.agents.objectives import LearningBatch
from r2a.config import RunConfig, override
from r2a.environments.api import EnvSpec
from r2a.experiments.atari import PAPER
from r2a.training.learning import StoredStates, initial_state, learn, learning_batch
from r2a.training.online import make_replay

SPEC = EnvSpec("atari", ("frostbite",), Box(0, 255, (84, 84), np.uint8), Discrete(18), 27_000)


def blank_batch(config: RunConfig, states: StoredStates) -> LearningBatch:
    """As the replay delivers it, but for its numbers."""
    changes = {"replay.capacity": 2_000, "replay.minimum": 1_000, "acting.num_envs": 1}
    replay = make_replay(override(config, changes), SPEC, states.size, None)
    learnt, read = replay.blank(config.from_replay.batch_size), replay.blank(config.agent.retrieval.trajectories)
    return learning_batch(learnt, read, config.replay.burn_in, states)


def test_the_whole_update_fits_together():
    state = jax.eval_shape(lambda: initial_state(PAPER, SPEC))
    agent = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), state.params)
    states = StoredStates.of(agent)
    assert states.size == 512 + 2 * 8 * 512 + 1  # memory, slots and what they read, age
    one = blank_batch(override(PAPER, {"batch_size": 1}), states)
    sizes = {"sequences": 64, "retrieval": 448}

    def whole(name: str, leaf: jax.Array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((1, sizes[name], *leaf.shape[2:]), leaf.dtype)

    batch = LearningBatch(
        jax.tree.map(lambda leaf: whole("sequences", leaf), one.sequences),
        jax.tree.map(lambda leaf: whole("retrieval", leaf), one.retrieval),
        whole("sequences", one.importance),
    )
    assert batch.sequences.frames.observation.shape == (1, 64, 81, 4, 84, 84)
    assert batch.retrieval.trajectories.observation.shape == (1, 448, 80, 4, 84, 84)
    after, metrics, priority = jax.eval_shape(lambda s, b: learn(s, b, PAPER.learner), state, batch)
    assert priority.shape == (64,)
    assert jax.tree.map(lambda leaf: leaf.shape, after) == jax.tree.map(lambda leaf: leaf.shape, state)
    assert {"rl/loss", "retrieval/kl", "aux/action"} <= metrics.keys()


def test_one_real_update_at_full_width():
    few = {"agent.retrieval.trajectories": 3, "agent.retrieval.k_traj": 2, "batch_size": 1}
    config = override(PAPER, {**few, "replay.trace": 5, "replay.period": 5})
    state = initial_state(config, SPEC)
    batch = blank_batch(config, StoredStates.of(state.params))
    random = np.random.default_rng(0)

    def fill(tree):
        seen = random.integers(0, 255, tree.observation.shape, dtype=np.uint8)
        return tree._replace(observation=jnp.asarray(seen))

    sequences = batch.sequences._replace(
        frames=fill(batch.sequences.frames),
        valid=jnp.ones_like(batch.sequences.valid),
        reward=jnp.ones_like(batch.sequences.reward),
        discount=jnp.ones_like(batch.sequences.discount),
    )
    trajectories = fill(batch.retrieval.trajectories)
    trajectories = trajectories._replace(valid=jnp.ones_like(trajectories.valid))
    batch = batch._replace(sequences=sequences, retrieval=batch.retrieval._replace(trajectories=trajectories))
    before = np.asarray(jax.tree.leaves(state.params.encoder.torso)[0]).copy()
    after, metrics, priority = learn(state, batch, config.learner)
    assert all(np.isfinite(float(value)) for value in metrics.values())
    assert float(priority[0]) > 0
    assert not np.array_equal(before, jax.tree.leaves(after.params.encoder.torso)[0])
    assert int(after.step) == 1
