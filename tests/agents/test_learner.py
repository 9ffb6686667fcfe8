"""One update: what moves, when the target network follows, and that a key decides everything random."""

from dataclasses import dataclass, fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import agent_config, make_agent, make_learning_batch, named_arrays

from r2a.agents.learner import start_learning, update
from r2a.agents.losses import value_of
from r2a.agents.objectives import LOSSES, Loss, SequenceLoss, gradient, losses, outputs_along
from r2a.config import LearnerConfig, LossWeights
from r2a.errors import UserError

CONFIG = LearnerConfig(target_period=2, learning_rate=1e-2)
AGENT = agent_config(summariser="linear")
STEP = jax.jit(partial(update, config=CONFIG))
UPDATES = 5


@pytest.fixture(scope="module")
def course():
    """The states and metrics of a few updates."""
    states, metrics = [start_learning(make_agent(AGENT), CONFIG, jax.random.key(0))], []
    for step in range(UPDATES):
        state, values, _ = STEP(states[-1], make_learning_batch(step), jax.random.key(step))
        states.append(state)
        metrics.append(values)
    return states, metrics


def equal(one, two):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


def test_the_target_network_is_a_copy_every_target_period(course):
    states, _ = course
    assert equal(states[0].params, states[0].target_params)
    for step in range(1, UPDATES + 1):
        source = states[step].params if step % CONFIG.target_period == 0 else states[step - 1].target_params
        assert equal(states[step].target_params, source), f"after update {step}"
    assert not equal(states[3].params, states[3].target_params)


def test_parameters_move_and_steps_are_counted(course):
    states, _ = course
    assert [int(state.step) for state in states] == list(range(UPDATES + 1))
    first, last = named_arrays(states[0].params), named_arrays(states[-1].params)
    # A single state's Q-values are read before step 5 changes the slots, so nothing tells step 5 what to do.
    unmoved = {name for name in first if np.array_equal(first[name], last[name])}
    assert all(name.startswith("retrieval.process.slot_update.") for name in unmoved), unmoved
    largest_step = max(np.abs(first[name] - last[name]).max() for name in first)
    assert largest_step <= 1.01 * UPDATES * CONFIG.learning_rate  # Adam's steps are that long at most


def test_the_same_key_gives_the_same_numbers_and_another_gives_others(course):
    states, metrics = course
    again, values, _ = STEP(states[0], make_learning_batch(0), jax.random.key(0))
    assert equal(again.params, states[1].params)
    assert equal(values, metrics[0])
    other, *_ = STEP(states[0], make_learning_batch(0), jax.random.key(1))
    assert not equal(other.params, states[1].params)


def test_metrics_are_named_finite_and_those_of_the_losses(course):
    states, metrics = course
    names = {"rl/loss", "retrieval/kl", "aux/action", "aux/value", "aux/reward", "rl/td_error", "rl/gradient_norm"}
    assert names <= metrics[0].keys()
    assert all(np.isfinite(value) for values in metrics for value in values.values())
    agent = states[0].params
    named, *_ = jax.jit(partial(losses, config=CONFIG))(agent, agent, make_learning_batch(0), jax.random.key(0))
    np.testing.assert_allclose(metrics[0]["rl/loss"], named["rl"], rtol=1e-5)
    np.testing.assert_allclose(metrics[0]["retrieval/kl"], named["kl"], rtol=1e-5)
    assert named.keys() == {"rl", *(field.name for field in fields(LossWeights))}


def test_a_loss_without_a_weight_or_a_weight_without_a_loss_is_an_error():
    @dataclass(frozen=True)
    class MoreWeights(LossWeights):
        masked_state: float = 1.0

    agent = make_agent(AGENT)
    config = LearnerConfig(weights=MoreWeights())
    with pytest.raises(AssertionError, match="masked_state"):
        jax.eval_shape(partial(gradient, config=config), agent, agent, make_learning_batch(), jax.random.key(0))


def test_an_unknown_loss_is_refused_before_anything_is_learnt():
    with pytest.raises(
        UserError, match=r"learner.loss is 'sarsa', but it must be one of q_learning, squashed_q_lambda"
    ):
        start_learning(make_agent(AGENT), LearnerConfig(loss="sarsa"), jax.random.key(0))


def test_a_new_loss_is_a_function_and_a_line(monkeypatch):
    """Of no use, but complete: the agent learns to value every action of the data at one."""

    def ones(given):
        own = outputs_along(given)
        error = 1.0 - value_of(own.q_values, given.sequence.action)
        return SequenceLoss(jnp.square(error), error, {"ones/error": jnp.abs(error)}, own.retrieved)

    monkeypatch.setitem(LOSSES, "ones", Loss(ones, "ones/loss", bootstraps=False))
    config = LearnerConfig(loss="ones", learning_rate=1e-2)
    step, state = jax.jit(partial(update, config=config)), start_learning(make_agent(AGENT), config, jax.random.key(0))
    first = None
    for number in range(30):
        state, metrics, _ = step(state, make_learning_batch(0), jax.random.key(number))
        first = metrics if first is None else first
    assert {"ones/loss", "ones/error", "retrieval/kl"} <= metrics.keys()
    assert metrics["ones/loss"] < 0.2 * first["ones/loss"]


def test_the_start_shares_no_buffer_between_the_two_networks():
    state = start_learning(make_agent(agent_config(variant="none")), CONFIG, jax.random.key(0))
    pointers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((state.params, state.target_params))]
    assert len(set(pointers)) == len(pointers)


def test_the_losses_are_the_mean_over_the_tasks():
    config = agent_config(variant="none")
    agent, target, batch = make_agent(config), make_agent(config, seed=1), make_learning_batch()
    run = jax.jit(partial(losses, config=CONFIG))
    each = [
        run(agent, target, jax.tree.map(lambda column, task=task: column[task : task + 1], batch), jax.random.key(0))
        for task in range(2)
    ]
    together = run(agent, target, batch, jax.random.key(0)).losses
    mean = jnp.mean(jnp.array([outcome.losses["rl"] for outcome in each]))
    np.testing.assert_allclose(together["rl"], mean, rtol=1e-5)
