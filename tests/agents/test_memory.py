"""Agents with a memory: many steps at once equal step by step, a plain loop, and what an episode's start demands."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import algorithm1
from small import (
    ACTIONS,
    OBSERVATION,
    agent_config,
    gradient_sizes,
    make_agent,
    make_learning_batch,
    make_retrieval_batch,
    named_arrays,
)

from r2a.agents.objectives import LossInput, gradient, losses, q_learning
from r2a.config import CoreConfig, LearnerConfig
from r2a.types import Frames

MEMORY = CoreConfig(kind="gru", size=9)
STEPS = 7
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
AGENTS = {
    "RDQN": {"variant": "none"},
    "RA-RDQN, ranked by attention": {"ranking": "attention", "summariser": "linear"},
    "RA-RDQN, ranked by return": {"summariser": "gru"},
    "RA-RDQN, slots with periods": {"slot_periods": (1, 3, 2), "ranking": "attention", "summariser": "linear"},
    "RA-RDQN, as printed, no bottleneck": {"update": "sum", "bottleneck": "identity", "ranking": "attention"},
    "A-1": {"variant": "agent_query", "ranking": "attention", "summariser": "linear"},
    "A-2": {"variant": "slots_only"},
}


def make_frames(first=()):
    """Frames of consecutive steps; episodes begin at the steps `first`."""
    generator = np.random.default_rng(3)
    is_first = np.isin(np.arange(STEPS), first)
    return Frames(
        observation=jnp.asarray(generator.normal(size=(STEPS, OBSERVATION)), jnp.float32),
        instruction=jnp.zeros(0, jnp.uint8),
        previous_action=jnp.asarray(np.where(is_first, -1, generator.integers(0, ACTIONS, STEPS)), jnp.int32),
        previous_reward=jnp.asarray(np.where(is_first, 0.0, generator.normal(size=STEPS)), jnp.float32),
        is_first=jnp.asarray(is_first),
    )


@jax.jit
def encode(agent, batch):
    return agent.encode(batch)[0]


@partial(jax.jit, static_argnames="learner")
def q_loss(agent, target, sequence, memory, key, learner):
    return q_learning(LossInput(agent, target, sequence, memory, memory, key, learner))


@eqx.filter_jit
def unrolled(agent, frames, batch):
    encoded, _ = agent.encode(batch)
    return agent.unroll(agent.initial_state(None), frames, encoded, None)


@pytest.mark.parametrize("changes", AGENTS.values(), ids=AGENTS.keys())
def test_an_unroll_equals_acting_step_by_step(changes):
    agent, batch, frames = make_agent(agent_config(MEMORY, **changes)), make_retrieval_batch(), make_frames((0, 4))
    together = unrolled(agent, frames, batch)
    encoded = encode(agent, batch)
    act = jax.jit(lambda a, state, frame: a(state, frame, encoded, None))
    state = agent.initial_state(None)
    for t in range(STEPS):
        if bool(frames.is_first[t]):
            state = agent.initial_state(None)
        output = act(agent, state, frames.at(t))
        np.testing.assert_allclose(together.q_values[t], output.q_values, **TOLERANCE)
        state = output.state
    for one, two in zip(jax.tree.leaves(together.state), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(one, two, **TOLERANCE)


@pytest.mark.parametrize("changes", AGENTS.values(), ids=AGENTS.keys())
def test_an_unroll_equals_the_plain_loop(changes):
    config = agent_config(MEMORY, **changes)
    agent, batch, frames = make_agent(config, seed=1), make_retrieval_batch(seed=2), make_frames((0, 3))
    outputs = unrolled(agent, frames, batch)
    p, retrieval = named_arrays(agent), config.retrieval
    t = jax.tree.map(np.asarray, batch.trajectories)
    columns = {name: getattr(t, name) for name in ("observation", "action", "reward", "discount", "valid", "is_first")}
    columns = {**columns, "return": np.asarray(batch.returns), "id": t.trajectory_id}
    reads = retrieval.variant in ("full", "agent_query")
    trajectories = algorithm1.encode(p, retrieval, columns) if reads else []
    for step in range(STEPS):
        frame = jax.tree.map(np.asarray, frames.at(step))
        if frame.is_first:
            first = jax.tree.map(np.asarray, agent.initial_state(None).retrieval)
            memory, state = None, {"slots": first.slots, "last_read": first.last_read, "age": 0}
        action = None if frame.previous_action < 0 else frame.previous_action
        memory = algorithm1.agent_state(p, memory, frame.observation, action, frame.previous_reward)
        if retrieval.variant == "none":
            expected = algorithm1.q_values(algorithm1.part(p, "head"), memory, [], 2)
        else:
            outcome = algorithm1.agent_step(p, retrieval, config.head.attention_heads, state, memory, trajectories)
            expected, state = outcome["q_values"], outcome["state"]
        np.testing.assert_allclose(outputs.q_values[step], expected, **TOLERANCE, err_msg=f"at step {step}")


def test_nothing_before_an_episodes_start_matters():
    config = agent_config(MEMORY, ranking="attention", summariser="linear")
    agent, batch, frames = make_agent(config), make_retrieval_batch(), make_frames((4,))
    changed = frames._replace(observation=frames.observation.at[:4].add(1.0))
    one, two = (np.asarray(unrolled(agent, seen, batch).q_values) for seen in (frames, changed))
    np.testing.assert_array_equal(one[4:], two[4:])
    assert np.abs(one[:4] - two[:4]).min() > 0


def test_td_errors_of_a_sequence_are_those_of_its_q_values():
    """By hand: Q along the frames, the online network's choice at the next, the target network's value of it."""
    config, learner = agent_config(MEMORY, variant="none"), LearnerConfig(discount=0.9)
    agent, target = make_agent(config), make_agent(config, seed=1)
    burn_in, steps = 2, 3
    batch = make_learning_batch(steps=steps, burn_in=burn_in)
    sequence = jax.tree.map(lambda column: column[0, 2], batch.sequences)
    loss = q_loss(agent, target, sequence, None, jax.random.key(0), learner)
    online, stale = (np.asarray(unrolled(a, sequence.frames, None).q_values) for a in (agent, target))
    for t in range(steps):
        best = online[burn_in + t + 1].argmax()
        follows = 0.9 * float(sequence.discount[t]) * stale[burn_in + t + 1, best]
        expected = float(sequence.reward[t]) + follows - online[burn_in + t, int(sequence.action[t])]
        np.testing.assert_allclose(loss.error[t], expected, **TOLERANCE)


def test_the_kl_is_that_of_what_was_read():
    """It is computed a second time, cut off from the encoder: the same states, slots and noise must give the same."""
    config, learner = agent_config(MEMORY, ranking="attention", summariser="linear"), LearnerConfig()
    agent, batch, key = make_agent(config), make_learning_batch(steps=4, burn_in=2), jax.random.key(5)
    sequence, retrieval = jax.tree.map(lambda column: column[0, 1], batch.sequences), make_retrieval_batch()
    encoded = encode(agent, retrieval)
    found = q_loss(agent, agent, sequence, encoded, key, learner).retrieved.kl

    @jax.jit
    def read_by_hand(agent, encoded, frames):
        start_key, read_key = jax.random.split(key)
        state = agent.unroll(agent.initial_state(start_key), frames.at(slice(2)), encoded, None).state
        return agent.unroll(state, frames.at(slice(2, None)), encoded, read_key).retrieved

    read = read_by_hand(agent, encoded, sequence.frames)
    np.testing.assert_allclose(found, read.kl[:-1], rtol=1e-4)
    assert np.ptp(np.asarray(found)) > 1e-3


def test_steps_that_do_not_exist_teach_nothing():
    config = agent_config(MEMORY, ranking="attention", summariser="linear")
    agent, target, batch = make_agent(config), make_agent(config, seed=1), make_learning_batch(steps=4)
    valid = jnp.arange(4) < 2
    sequences = batch.sequences._replace(valid=jnp.broadcast_to(valid, batch.sequences.valid.shape))
    changed = sequences._replace(
        reward=jnp.where(valid, sequences.reward, 7.0), action=jnp.where(valid, sequences.action, 0)
    )
    run = jax.jit(partial(losses, config=LearnerConfig()))
    one, two = (run(agent, target, batch._replace(sequences=s), jax.random.key(0)) for s in (sequences, changed))
    for first, second in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(first, second)


def sizes_of(weights, *, with_rl):
    config = agent_config(MEMORY, ranking="attention", summariser="linear")
    agent, target = make_agent(config), make_agent(config, seed=1)
    return gradient_sizes(agent, target, make_learning_batch(steps=3), weights, with_rl=with_rl)


def test_the_kl_moves_the_process_alone_through_time_too():
    sizes = sizes_of({"kl": 1.0}, with_rl=False)
    assert {name for name, size in sizes.items() if size > 0 and not name.startswith("retrieval.process.")} == set()
    # What the slots take in at one step decides what they ask, and pay, at the next.
    assert max(size for name, size in sizes.items() if name.startswith("retrieval.process.slot_update")) > 1e-7


def test_the_rl_loss_moves_memory_and_slots():
    sizes = sizes_of({}, with_rl=True)
    for prefix in ("encoder.", "core.embed", "core.gru", "retrieval.summariser", "retrieval.process.slot_update"):
        assert max(size for name, size in sizes.items() if name.startswith(prefix)) > 1e-7, prefix


def test_the_auxiliary_losses_move_encoder_memory_and_summariser_alone():
    sizes = sizes_of({"action": 1.0, "value": 1.0, "reward": 1.0}, with_rl=False)
    moved = {name.split(".")[0] + "." + name.split(".")[1] for name, size in sizes.items() if size > 0}
    assert moved == {"encoder.mlp", "core.embed", "core.gru", "retrieval.summariser", "retrieval.auxiliary"}


def test_a_burn_in_is_not_learnt_from():
    """Of the sequence that begins with its episode, frames of a burn-in that lie before it change nothing at all."""
    config = agent_config(MEMORY, variant="none")
    agent, target, batch = make_agent(config), make_agent(config, seed=1), make_learning_batch(steps=2, burn_in=3)
    frames = batch.sequences.frames
    changed = frames._replace(observation=frames.observation.at[:, :, :3].add(1.0))
    run = jax.jit(partial(gradient, config=LearnerConfig()))
    results = [
        run(agent, target, batch._replace(sequences=batch.sequences._replace(frames=seen)), jax.random.key(0))
        for seen in (frames, changed)
    ]
    one, two = (float(outcome.losses["rl"]) for _, outcome in results)
    assert one != two  # sequences from within an episode see it
    only_starts = jax.tree.map(lambda column: column[:, ::2], batch.sequences)
    seen_by_starts = only_starts._replace(frames=jax.tree.map(lambda column: column[:, ::2], changed))
    one, two = (
        run(agent, target, batch._replace(sequences=s), jax.random.key(0))[1].losses["rl"]
        for s in (only_starts, seen_by_starts)
    )
    assert float(one) == float(two)
