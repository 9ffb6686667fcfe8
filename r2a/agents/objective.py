"""The whole objective, rl + beta kl + auxiliary, and which parameters each term may move."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from r2a.agents.agent import Agent, outputs_of_states, prices_of_states
from r2a.agents.losses import double_q_error, huber
from r2a.config import LearnerConfig
from r2a.types import EncodedBatch, RetrievalBatch, Transition

Losses = dict[str, Float[Array, ""]]
Metrics = dict[str, Float[Array, ""]]


class LearningBatch(NamedTuple):
    """What one learner step sees: for each of its tasks, transitions and a retrieval batch of their own.

    Agents that read nothing can do without the latter.
    """

    transitions: Transition
    retrieval: RetrievalBatch | None


def losses(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[Losses, Metrics]:
    """The named losses of a learner step, each a mean over its tasks and states; consumes `key`.

    The bootstrap reads without noise, and the target network encodes the retrieval batch with its own parameters.
    """
    encoded, auxiliary = _prepare_tasks(agent, batch.retrieval)
    target_encoded, _ = _prepare_tasks(target, batch.retrieval)
    t = batch.transitions
    output = outputs_of_states(agent, t.observation, encoded, key)
    next_online = outputs_of_states(agent, t.next_observation, encoded, None).q_values
    next_target = outputs_of_states(target, t.next_observation, target_encoded, None).q_values
    errors = double_q_error(output.q_values, t.action, t.reward, config.discount * t.discount, next_online, next_target)
    price = prices_of_states(agent, t.observation, encoded, key).sum(-1).mean()  # every slot pays for its own query
    weight = output.retrieved.selection.weight
    entropy = -(weight * jnp.log(weight + 1e-9)).sum(-1)
    metrics = {
        "rl/q_mean": output.q_values.mean(),
        "rl/td_error": jnp.abs(errors).mean(),
        "retrieval/weight_entropy": entropy.sum() / max(entropy.size, 1),  # a plain agent has no slots
        "retrieval/u_norm": jnp.linalg.norm(output.retrieved.u, axis=-1).mean(),
    }
    return {"rl": huber(errors, config.huber).mean(), "kl": price, **auxiliary}, metrics


def _prepare_tasks(agent: Agent, batches: RetrievalBatch | None) -> tuple[EncodedBatch | None, Losses]:
    """Every task's retrieval batch, encoded; the auxiliary losses are means over the tasks."""
    if batches is None:
        return agent.prepare(None)
    encoded, auxiliary = jax.vmap(agent.prepare)(batches)
    return encoded, {name: values.mean(0) for name, values in auxiliary.items()}


def gradient(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[PyTree, Losses, Metrics]:
    """Gradient of the weighted sum of the losses, routed as the paper says (App. training losses). Consumes `key`.

    The RL loss moves everything. The auxiliary losses move encoder, summariser and their own heads: they depend on
    nothing else. The bottleneck's price moves the retrieval process alone: see `prices_of_states`.
    """
    weights = {"rl": 1.0, **vars(config.weights)}

    def total(agent: Agent) -> tuple[Float[Array, ""], tuple[Losses, Metrics]]:
        values, metrics = losses(agent, target, batch, key, config)
        assert values.keys() == weights.keys(), f"losses {sorted(values)} and weights {sorted(weights)} differ"
        return sum(weights[name] * values[name] for name in values), (values, metrics)  # type: ignore[return-value]

    grads, (values, metrics) = jax.grad(total, has_aux=True)(agent)
    return grads, values, metrics
