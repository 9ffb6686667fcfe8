"""The whole objective, rl + beta kl + auxiliary, and which parameters each term may move."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from r2a.agents.agent import Agent
from r2a.agents.losses import double_q_error, huber, sequence_priority, squashed_q_lambda_error
from r2a.config import LearnerConfig
from r2a.types import (
    Action,
    AgentOutput,
    AgentState,
    EncodedBatch,
    Frames,
    RetrievalBatch,
    Sequence,
    is_continuous,
)

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
    """What each step of a sequence tells: its loss, how wrong the agent was, the KL of what was read, metrics."""

    loss: Float[Array, "*b T"]
    error: Float[Array, "*b T"]
    kl: Float[Array, "*b T"]
    metrics: dict[str, Float[Array, "*b T"]]


def losses(agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig) -> LossOutput:
    """The named losses of a learner step, each a mean over all steps of its sequences; consumes `key`.

    The target network encodes the retrieval batch with its own parameters.
    """
    memory, auxiliary = _encode_tasks(agent, batch.retrieval)
    bootstraps = config.objective == "q_learning"
    target_memory = _encode_tasks(target, batch.retrieval)[0] if bootstraps else None

    def one(
        sequence: Sequence, own: EncodedBatch | None, targets: EncodedBatch | None, key: PRNGKeyArray
    ) -> SequenceLoss:
        return learn_from(agent, target, sequence, own, targets, key, config)

    over_sequences = jax.vmap(one, in_axes=(0, None, None, 0))
    keys = jax.random.split(key, batch.sequences.action.shape[:2])
    steps = jax.vmap(over_sequences)(batch.sequences, memory, target_memory, keys)
    valid = batch.sequences.valid
    count = jnp.maximum(valid.sum(), 1)

    def mean(values: Array) -> Array:
        return jnp.where(valid, values, 0.0).sum() / count

    loss = steps.loss if batch.importance is None else steps.loss * batch.importance[..., None]
    priority = jax.vmap(jax.vmap(lambda error, valid: sequence_priority(error, valid, config.max_priority_weight)))
    return LossOutput(
        {"rl": mean(loss), "kl": mean(steps.kl), **auxiliary},
        {name: mean(values) for name, values in steps.metrics.items()},
        jax.lax.stop_gradient(priority(steps.error, valid)),
    )


def learn_from(
    agent: Agent,
    target: Agent,
    sequence: Sequence,
    memory: EncodedBatch | None,
    target_memory: EncodedBatch | None,
    key: PRNGKeyArray,
    config: LearnerConfig,
) -> SequenceLoss:
    """Q-learning or cloning along one sequence, from its burn-in on; consumes `key`.

    Where the agent's state before the sequence was stored, both networks go on from it.
    """
    start_key, read_key = jax.random.split(key)
    burn_in = sequence.frames.is_first.shape[0] - sequence.action.shape[0] - 1
    frames = sequence.frames._replace(instruction=agent.encode_instruction(sequence.frames.instruction))
    state = agent.initial_state(start_key) if sequence.initial_state is None else sequence.initial_state
    if burn_in:
        state = jax.lax.stop_gradient(agent.unroll(state, frames.at(slice(burn_in)), memory, None).state)
        frames = frames.at(slice(burn_in, None))
    if config.objective == "cloning":
        own = agent.unroll(state, frames.at(slice(-1)), memory, read_key, kl_steps=sequence.action.shape[0])
        loss = -agent.head.log_likelihood(own.q_values, sequence.action)
        error = action_error(agent.head.mode(own.q_values), sequence.action)
        metrics = {"bc/action_error": error}
    else:
        own, next_q = values(agent, state, frames, memory, read_key)
        bootstrap = bootstrap_values(target, sequence, target_memory)[burn_in:]
        error = td_errors(own.q_values, next_q, bootstrap, sequence, config)
        loss = huber(error, config.huber_delta)
        metrics = {"rl/q_mean": own.q_values.mean(-1), "rl/td_error": jnp.abs(error)}
    weight = own.retrieved.attended.weight
    entropy = -(weight * jnp.log(weight + 1e-9)).sum(-1)
    metrics |= {
        "retrieval/weight_entropy": entropy.sum(-1) / max(entropy.shape[-1], 1),  # a plain agent has no slots
        "retrieval/u_norm": jnp.linalg.norm(own.retrieved.u, axis=-1),
    }
    return SequenceLoss(loss, error, own.retrieved.kl.sum(-1), metrics)  # every slot pays for its own query


def values(
    agent: Agent, state: AgentState, frames: Frames, memory: EncodedBatch | None, key: PRNGKeyArray | None
) -> tuple[AgentOutput, Float[Array, "T A"]]:
    """Along T + 1 frames: outputs at the first T, and the values one frame later, which carry no gradient.

    A recurrent agent has to go through all frames one by one. Otherwise the two kinds of values have nothing in common:
    those to bootstrap from are had without noise, and at a third of the cost. Consumes `key`.
    """
    steps = frames.is_first.shape[0] - 1
    if agent.core.is_recurrent:
        own = agent.unroll(state, frames, memory, key, kl_steps=steps)
        first = own._replace(q_values=own.q_values[:-1], retrieved=jax.tree.map(lambda c: c[:steps], own.retrieved))
        return first, jax.lax.stop_gradient(own.q_values[1:])
    own = agent.unroll(state, frames.at(slice(-1)), memory, key, kl_steps=steps)
    later = agent.unroll(state, frames.at(slice(1, None)), memory, None).q_values
    return own, jax.lax.stop_gradient(later)


def bootstrap_values(target: Agent, sequence: Sequence, memory: EncodedBatch | None) -> Float[Array, "T A"]:
    """The target network's values one frame after each, burn-in and all; it reads without noise.

    It goes through the burn-in and the rest at once: nothing of it has a gradient.
    """
    frames = sequence.frames._replace(instruction=target.encode_instruction(sequence.frames.instruction))
    state = target.initial_state(None) if sequence.initial_state is None else sequence.initial_state
    return values(target, state, frames, memory, None)[1]


def action_error(chosen: Action, action: Action) -> Float[Array, " T"]:
    """How far off a choice is: 0 or 1, or the mean distance of a vector's numbers."""
    if is_continuous(action):
        return jnp.abs(chosen - action).mean(-1)
    return (chosen != action).astype(jnp.float32)


def td_errors(
    q: Float[Array, "T A"],
    next_q: Float[Array, "T A"],
    bootstrap: Float[Array, "T A"],
    sequence: Sequence,
    config: LearnerConfig,
) -> Float[Array, " T"]:
    """The TD error of each step of a sequence, by one step's returns or by Q(lambda)."""
    discount = config.discount * sequence.discount
    given = (q, sequence.action, sequence.reward, discount, next_q, bootstrap)
    if config.returns == "one_step":
        return double_q_error(*given)
    goes_on = jnp.append(sequence.valid[1:], True)
    return squashed_q_lambda_error(*given, goes_on, config.lambda_)


def _encode_tasks(agent: Agent, batches: RetrievalBatch | None) -> tuple[EncodedBatch | None, Losses]:
    """Every task's retrieval batch, encoded; the auxiliary losses are means over the tasks."""
    if batches is None:
        return agent.encode(None)
    memory, auxiliary = jax.vmap(agent.encode)(batches)
    return memory, {name: values.mean(0) for name, values in auxiliary.items()}


def gradient(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[PyTree, LossOutput]:
    """Gradient of the weighted sum of the losses, routed as the paper says (App. training losses). Consumes `key`.

    The RL loss moves everything. The auxiliary losses move encoder, memory, summariser and their own heads: they depend
    on nothing else. The bottleneck's KL moves the retrieval process alone: see `Retrieval.unroll`.
    """
    weights = {"rl": 1.0, **vars(config.weights)}

    def total(agent: Agent) -> tuple[Float[Array, ""], LossOutput]:
        output = losses(agent, target, batch, key, config)
        values = output.losses
        assert values.keys() == weights.keys(), f"losses {sorted(values)} and weights {sorted(weights)} differ"
        return sum(weights[name] * values[name] for name in values), output  # type: ignore[return-value]

    return jax.grad(total, has_aux=True)(agent)
