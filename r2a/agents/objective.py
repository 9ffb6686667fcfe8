"""The whole objective, rl + beta kl + auxiliary, and which parameters each term may move."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from r2a.agents.agent import Agent, outputs_of_states
from r2a.agents.losses import double_q_error, huber
from r2a.config import LearnerConfig
from r2a.retrieval.variants import Retrieval
from r2a.types import RetrievalBatch, Transition

Losses = dict[str, Float[Array, ""]]
Metrics = dict[str, Float[Array, ""]]


class LearningBatch(NamedTuple):
    """What one learner step sees: for each of its tasks, transitions and a retrieval batch of their own."""

    transitions: Transition
    retrieval: RetrievalBatch


def task_losses(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[Losses, Metrics]:
    """The named losses of one task's part of a learner step; consumes `key`.

    The bootstrap reads without noise, and the target network encodes the retrieval batch with its own parameters.
    """
    encoded, auxiliary = agent.prepare(batch.retrieval)
    target_encoded, _ = target.prepare(batch.retrieval)
    t = batch.transitions
    output = outputs_of_states(agent, t.observation, encoded, key)
    next_online = outputs_of_states(agent, t.next_observation, encoded, None).q_values
    next_target = outputs_of_states(target, t.next_observation, target_encoded, None).q_values
    errors = jax.vmap(double_q_error)(
        output.q_values, t.action, t.reward, config.discount * t.discount, next_online, next_target
    )
    kl = output.retrieved.kl.sum(-1).mean()  # every slot pays for its own query
    weight = output.retrieved.selection.weight
    metrics = {
        "rl/q_mean": output.q_values.mean(),
        "rl/td_error": jnp.abs(errors).mean(),
        "retrieval/weight_entropy": -(weight * jnp.log(weight + 1e-9)).sum(-1).mean(),
        "retrieval/u_norm": jnp.linalg.norm(output.retrieved.u, axis=-1).mean(),
    }
    return {"rl": huber(errors, config.huber).mean(), "kl": kl, **auxiliary}, metrics


def losses(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[Losses, Metrics]:
    """The named losses of a learner step: the mean over its tasks. Consumes `key`."""
    keys = jax.random.split(key, batch.transitions.reward.shape[0])
    per_task = jax.vmap(lambda b, k: task_losses(agent, target, b, k, config))(batch, keys)
    return jax.tree.map(lambda values: values.mean(0), per_task)


def gradient(
    agent: Agent, target: Agent, batch: LearningBatch, key: PRNGKeyArray, config: LearnerConfig
) -> tuple[PyTree, Losses, Metrics]:
    """Gradient of the weighted sum of the losses, routed as the paper says (App. training losses). Consumes `key`.

    The RL loss moves everything. The auxiliary losses move encoder, summariser and their own heads: they depend on
    nothing else. The bottleneck's price depends on the encoder and the summariser too, but may move only the
    retrieval process: it is pulled back apart, and XLA drops the part of that pull which nobody reads.
    """
    weights = {"rl": 1.0, **vars(config.weights)}
    values, pull, metrics = eqx.filter_vjp(
        lambda a: losses(a, target, batch, key, config), agent, has_aux=True
    )
    assert values.keys() == weights.keys(), f"losses {sorted(values)} and weights {sorted(weights)} differ"
    zero = jax.tree.map(jnp.zeros_like, values)
    weighted = {name: weights[name] * jnp.ones_like(value) for name, value in values.items()}
    (grads,) = pull({**weighted, "kl": zero["kl"]})
    if isinstance(agent.retrieval, Retrieval):
        (price,) = pull({**zero, "kl": weighted["kl"]})
        process = jax.tree.map(jnp.add, grads.retrieval.process, price.retrieval.process)
        grads = eqx.tree_at(lambda a: a.retrieval.process, grads, process)
    return grads, values, metrics
