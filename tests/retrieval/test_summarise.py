"""Summaries equal a loop over the steps, and know only what they may know."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import summaries as by_loop
from small import ACTIONS, agent_config, named_arrays

from r2a.retrieval.summarise import Summariser
from r2a.types import Trajectory

STATE_SIZE, LENGTH = 6, 5
KINDS = ("gru", "linear", "transformer")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def make_summariser(kind):
    config = agent_config(summariser=kind, summary_layers=2).retrieval
    generator = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(Summariser, config, STATE_SIZE, ACTIONS, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * generator.normal(size=leaf.shape), jnp.float32), shapes)


def make_trajectory(length=LENGTH, starts=True, seed=0):
    generator = np.random.default_rng(seed)
    trajectory = Trajectory(
        observation=jnp.zeros((LENGTH, 1)),
        instruction=jnp.zeros(0, jnp.uint8),
        action=jnp.asarray(generator.integers(0, ACTIONS, LENGTH), jnp.int32),
        reward=jnp.asarray(generator.normal(size=LENGTH), jnp.float32),
        discount=jnp.ones(LENGTH),
        valid=jnp.arange(LENGTH) < length,
        is_first=(jnp.arange(LENGTH) == 0) & starts,
        task_id=jnp.array(0),
        trajectory_id=jnp.array(0),
    )
    return trajectory, jnp.asarray(generator.normal(size=(LENGTH, STATE_SIZE)), jnp.float32)


@eqx.filter_jit
def summarise(summariser, trajectory, states):
    return summariser(trajectory, states)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "starts"), [(5, True), (3, False), (1, True)])
def test_summaries_equal_the_loop(kind, length, starts):
    summariser = make_summariser(kind)
    trajectory, states = make_trajectory(length, starts)
    found = summarise(summariser, trajectory, states)
    t = jax.tree.map(np.asarray, trajectory)
    past, future = by_loop.summarise(
        named_arrays(summariser), kind, list(np.asarray(states)), t.action, t.reward, t.valid, t.is_first
    )
    np.testing.assert_allclose(found.past[:length], past[:length], **CLOSE)
    np.testing.assert_allclose(found.future[:length], future[:length], **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_past_ends_before_the_step_and_the_future_begins_with_it(kind):
    summariser = make_summariser(kind)
    trajectory, states = make_trajectory()
    before = summarise(summariser, trajectory, states)
    at = 2
    acted = trajectory._replace(
        action=trajectory.action.at[at].set((trajectory.action[at] + 1) % ACTIONS),
        reward=trajectory.reward.at[at].add(1.0),
    )
    after = summarise(summariser, acted, states)
    assert changed(before.past, after.past) == [False, False, False, True, True]
    assert changed(before.future, after.future) == [True, True, True, False, False]
    moved = summarise(summariser, trajectory, states.at[at].add(1.0))
    assert changed(before.past, moved.past) == [False, False, True, True, True]
    assert changed(before.future, moved.future) == [True, True, True, False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_the_end_does_not_matter(kind):
    summariser, length = make_summariser(kind), 3
    trajectory, states = make_trajectory(length)
    other, other_states = make_trajectory(length, seed=1)

    def splice(one, two):
        return jnp.concatenate([one[:length], two[length:]])

    spliced = trajectory._replace(
        action=splice(trajectory.action, other.action), reward=splice(trajectory.reward, other.reward)
    )
    found = summarise(summariser, spliced, splice(states, other_states))
    expected = summarise(summariser, trajectory, states)
    np.testing.assert_allclose(found.past[:length], expected.past[:length], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.future[:length], expected.future[:length], rtol=1e-6, atol=1e-6)


def test_an_episode_that_starts_has_no_action_before_it():
    summariser = make_summariser("gru")
    trajectory, states = make_trajectory(starts=True)
    within = trajectory._replace(is_first=jnp.zeros(LENGTH, bool))
    # The action before a segment that starts within its episode is not in the segment: it counts as none.
    np.testing.assert_array_equal(
        summarise(summariser, trajectory, states).past, summarise(summariser, within, states).past
    )


def changed(one, two):
    return [bool(step) for step in np.abs(np.asarray(one) - np.asarray(two)).max(-1) > 1e-6]
