"""What an agent learns by: losses by name, what all of them share, and which parameters each term may move."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from r2a.agents.agent import Agent
from r2a.agents.losses import (
    action_error,
    double_q_value,
    huber,
    one_step_error,
    sequence_priority,
    squashed_q_lambda_error,
)
from r2a.config import LearnerConfig, require
from r2a.types import AgentOutput, AgentState, Frames, Key, Memory, RetrievalBatch, RetrievalOutput, Sequence

Losses = dict[str, Float[Array, ""]]
Metrics = dict[str, Float[Array, ""]]


class LearningBatch(NamedTuple):
    """What one learner step sees: for each of its M tasks, sequences [M b] and a retrieval batch of their own.

    Agents that read nothing can do without the latter. Tasks that read from the same batch are one. `importance` is
    each sequence's weight in the RL loss, if they were not drawn with equal chances.
    """

    sequences: Sequence
    retrieval: RetrievalBatch | None
    importance: Float[Array, "M b"] | None = None


class LossOutput(NamedTuple):
    """What a batch tells: named losses, metrics, and the priority that each sequence should have."""

    losses: Losses
    metrics: Metrics
    priority: Float[Array, "M b"]


class SequenceLoss(NamedTuple):
    """What each step of a sequence tells: its loss, how wrong the agent was, metrics, and what was retrieved for it."""

    loss: Float[Array, "*b T"]
    error: Float[Array, "*b T"]
    metrics: dict[str, Float[Array, "*b T"]]
    retrieved: RetrievalOutput


class LossInput(NamedTuple):
    """What a loss is computed from: two networks, a sequence, and the retrieval batch as each network encodes it."""

    agent: Agent
    target: Agent
    sequence: Sequence
    memory: Memory
    target_memory: Memory
    key: PRNGKeyArray
    config: LearnerConfig


class Loss(NamedTuple):
    """A loss of the registry: its function, what its mean is called among the metrics, whether it asks the target."""

    function: Callable[[LossInput], SequenceLoss]
    metric: str
    bootstraps: bool


def q_learning(given: LossInput) -> SequenceLoss:
    """Double Q-learning with the returns of one step (Table 5)."""
    own, known = double_q(given)
    return td_loss(own, one_step_error(own.q_values, *known), given.config)


def squashed_q_lambda(given: LossInput) -> SequenceLoss:
    """R2D2's: double Q-learning with Q(lambda) returns, on the scale of h(x) (Table 3).

    Where a sequence does not go on, its steps ending but not in a terminal state, the return is that of one step.
    """
    own, known = double_q(given)
    lambda_ = jnp.where(jnp.append(given.sequence.valid[1:], True), given.config.lambda_, 0.0)
    return td_loss(own, squashed_q_lambda_error(own.q_values, *known, lambda_), given.config)


def cloning(given: LossInput) -> SequenceLoss:
    """Behaviour cloning: how unlikely the actions in the data are, whatever they brought (Sec. 3.4)."""
    own, head, action = outputs_along(given), given.agent.head, given.sequence.action
    error = action_error(head.mode(own.q_values), action)
    return SequenceLoss(-head.log_likelihood(own.q_values, action), error, {"bc/action_error": error}, own.retrieved)


LOSSES = {
    "q_learning": Loss(q_learning, "rl/loss", bootstraps=True),
    "squashed_q_lambda": Loss(squashed_q_lambda, "rl/loss", bootstraps=True),
    "cloning": Loss(cloning, "bc/loss", bootstraps=False),
}
"""By `learner.loss`. A new one is a function like those above, and a line here."""


def find_loss(name: str) -> Loss:
    """The loss of that name."""
    require(name in LOSSES, "learner.loss", name, f"it must be one of {', '.join(LOSSES)}")
    return LOSSES[name]


def double_q(given: LossInput) -> tuple[AgentOutput, tuple[Array, Array, Array, Array]]:
    """The agent's outputs; and actions, rewards, discounts and the values of what came next, by double Q-learning."""
    own, next_q = values(given.agent, *after_burn_in(given))
    value, sequence = double_q_value(next_q, bootstrap_values(given)), given.sequence
    return own, (sequence.action, sequence.reward, given.config.discount * sequence.discount, value)


def td_loss(own: AgentOutput, error: Float[Array, " T"], config: LearnerConfig) -> SequenceLoss:
    """The loss of TD errors."""
    metrics = {"rl/q_mean": own.q_values.mean(-1), "rl/td_error": jnp.abs(error)}
    return SequenceLoss(huber(error, config.huber_delta), error, metrics, own.retrieved)


def after_burn_in(given: LossInput) -> tuple[AgentState, Frames, Memory, PRNGKeyArray]:
    """What the agent is to unroll: its state where learning begins, the frames from there on, its memory, and a key.

    Where the agent's state before the sequence was stored, it goes on from that.
    """
    agent, sequence, memory = given.agent, given.sequence, given.memory
    start_key, read_key = jax.random.split(given.key)
    burn_in = sequence.frames.is_first.shape[0] - sequence.action.shape[0] - 1
    frames = sequence.frames._replace(instruction=agent.encode_instruction(sequence.frames.instruction))
    state = agent.initial_state(start_key) if sequence.initial_state is None else sequence.initial_state
    if burn_in:
        state = jax.lax.stop_gradient(agent.unroll(state, frames.at(slice(burn_in)), memory, None).state)
        frames = frames.at(slice(burn_in, None))
    return state, frames, memory, read_key


def outputs_along(given: LossInput) -> AgentOutput:
    """The agent's outputs at each step of the sequence."""
    state, frames, memory, key = after_burn_in(given)
    return given.agent.unroll(state, frames.at(slice(-1)), memory, key, kl_steps=given.sequence.action.shape[0])


def values(
    agent: Agent, state: AgentState, frames: Frames, memory: Memory, key: Key
) -> tuple[AgentOutput, Float[Array, "T A"]]:
    """Along T + 1 frames: outputs at the first T, and the values one frame later, which carry no gradient.

    A recurrent agent has to go through all frames one by one. Otherwise the two kinds of values have nothing in common:
    those to bootstrap from are had without noise, and at a third of the cost. Consumes `key`.
    """
    steps = frames.is_first.shape[0] - 1
    if agent.core.is_recurrent:
        own = agent.unroll(state, frames, memory, key, kl_steps=steps)
        retrieved = jax.tree.map(lambda column: column[:steps], own.retrieved)
        return AgentOutput(own.q_values[:-1], retrieved, own.state), jax.lax.stop_gradient(own.q_values[1:])
    own = agent.unroll(state, frames.at(slice(-1)), memory, key, kl_steps=steps)
    later = agent.unroll(state, frames.at(slice(1, None)), memory, None).q_values
    return own, jax.lax.stop_gradient(later)


def bootstrap_values(given: LossInput) -> Float[Array, "T A"]:
    """The target network's values one frame after each step; it reads without noise.

    It goes through the burn-in and the rest at once: nothing of it has a gradient.
    """
    target, sequence = given.target, given.sequence
    frames = sequence.frames._replace(instruction=target.encode_instruction(sequence.frames.instruction))
    state = target.initial_state(None) if sequence.initial_state is None else sequence.initial_state
    return values(target, state, frames, given.target_memory, None)[1][-sequence.action.shape[0] :]


def losses(agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig) -> LossOutput:
    """The named losses of a learner step, each a mean over all steps of its sequences; consumes `key`.

    The target network, if it is asked, encodes the retrieval batch with its own parameters.
    """
    loss = find_loss(config.loss)
    memory, auxiliary = _encode_tasks(agent, batch.retrieval)
    target_memory = _encode_tasks(target, batch.retrieval)[0] if loss.bootstraps else None

    def one(sequence: Sequence, memory: Memory, target_memory: Memory, key: PRNGKeyArray) -> SequenceLoss:
        return loss.function(LossInput(agent, target, sequence, memory, target_memory, key, config))

    over_sequences = jax.vmap(one, in_axes=(0, None, None, 0))
    keys = jax.random.split(key, batch.sequences.action.shape[:2])
    steps = jax.vmap(over_sequences)(batch.sequences, memory, target_memory, keys)
    valid = batch.sequences.valid
    count = jnp.maximum(valid.sum(), 1)

    def mean(values: Array) -> Array:
        return jnp.where(valid, values, 0.0).sum() / count

    weighed = steps.loss if batch.importance is None else steps.loss * batch.importance[..., None]
    weight = steps.retrieved.attended.weight
    entropy = -(weight * jnp.log(weight + 1e-9)).sum(-1)
    metrics = {
        **steps.metrics,
        "retrieval/weight_entropy": entropy.sum(-1) / max(entropy.shape[-1], 1),  # a plain agent has no slots
        "retrieval/u_norm": jnp.linalg.norm(steps.retrieved.u, axis=-1),
    }
    priority = jax.vmap(jax.vmap(lambda error, valid: sequence_priority(error, valid, config.max_priority_weight)))
    return LossOutput(
        # Every slot pays for its own query.
        {"rl": mean(weighed), "kl": mean(steps.retrieved.kl.sum(-1)), **auxiliary},
        {name: mean(values) for name, values in metrics.items()},
        jax.lax.stop_gradient(priority(steps.error, valid)),
    )


def _encode_tasks(agent: Agent, batches: RetrievalBatch | None) -> tuple[Memory, Losses]:
    """Every task's retrieval batch, encoded; the auxiliary losses are means over the tasks."""
    if batches is None:
        return agent.encode(None)
    memory, auxiliary = jax.vmap(agent.encode)(batches)
    return memory, {name: values.mean(0) for name, values in auxiliary.items()}


def gradient(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[PyTree, LossOutput]:
    """Gradient of the weighted sum of the losses, routed as the paper says (App. training losses). Consumes `key`.

    The RL loss moves everything. The auxiliary losses move encoder, core, summariser and their own heads: they depend
    on nothing else. The bottleneck's KL moves the retrieval process alone: see `Retrieval.unroll`.
    """
    weights = {"rl": 1.0, **vars(config.weights)}

    def total(agent: Agent) -> tuple[Float[Array, ""], LossOutput]:
        output = losses(agent, target, batch, key, config)
        values = output.losses
        assert values.keys() == weights.keys(), f"losses {sorted(values)} and weights {sorted(weights)} differ"
        return sum(weights[name] * values[name] for name in values), output  # type: ignore[return-value]

    return jax.grad(total, has_aux=True)(agent)
