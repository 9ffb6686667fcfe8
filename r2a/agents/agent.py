"""Agent = encoder + retrieval + head; the one place that maps over batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.networks.encoders import VectorEncoder
from r2a.networks.heads import QHead
from r2a.retrieval.variants import NoRetrieval, Retrieval, SlotsOnly
from r2a.types import AgentOutput, AgentState, EncodedBatch, Observation, RetrievalBatch


class Agent(eqx.Module):
    """X or RA-X: they differ in what sits in the place of `retrieval`, and in nothing else."""

    encoder: VectorEncoder
    retrieval: Retrieval | SlotsOnly | NoRetrieval
    head: QHead

    def prepare(self, batch: RetrievalBatch | None) -> tuple[EncodedBatch | None, dict[str, Float[Array, ""]]]:
        """Encode a retrieval batch with this agent's parameters; also the auxiliary losses of its summaries."""
        return self.retrieval.prepare(batch, self.encoder)

    def start(self, key: PRNGKeyArray | None) -> AgentState:
        """The state at an episode's start; consumes `key`."""
        return AgentState(core=(), retrieval=self.retrieval.start(key))

    def __call__(
        self, state: AgentState, observation: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> AgentOutput:
        """One step: encode, retrieve, value. Consumes `key`; without one, z is the mean of its distribution."""
        s = self.encoder(observation)
        retrieved = self.retrieval(state.retrieval, s, encoded, key)
        return AgentOutput(self.head(retrieved.agent_state, retrieved.z), retrieved)

    def price(
        self, state: AgentState, observation: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> Float[Array, " K"]:
        """The KL price of one step's retrieval, as a function of the retrieval process's parameters alone.

        The bottleneck may move neither encoder nor summariser (App. training losses): both are cut off here.
        """
        s = jax.lax.stop_gradient(self.encoder(observation))
        return self.retrieval(state.retrieval, s, self.retrieval.detach(encoded), key).kl


def outputs_of_states(
    agent: Agent, observations: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
) -> AgentOutput:
    """The agent's output for each of a batch of single states that read from the same encoded batch.

    Consumes `key`; without one nothing is random.
    """
    return _over_states(agent, agent.__call__, observations, encoded, key)


def prices_of_states(
    agent: Agent, observations: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
) -> Float[Array, "b K"]:
    """The price of what `outputs_of_states` reads, given the same arguments."""
    return _over_states(agent, agent.price, observations, encoded, key)


def _over_states(
    agent: Agent,
    of_one: Callable[..., Any],
    observations: Observation,
    encoded: EncodedBatch | None,
    key: PRNGKeyArray | None,
) -> Any:
    def one(observation: Observation, state_key: PRNGKeyArray | None) -> Any:
        start_key, read_key = (None, None) if state_key is None else jax.random.split(state_key)
        return of_one(agent.start(start_key), observation, encoded, read_key)

    if key is None:
        return jax.vmap(lambda observation: one(observation, None))(observations)
    count = jax.tree.leaves(observations)[0].shape[0]
    return jax.vmap(one)(observations, jax.random.split(key, count))


def parameter_count(agent: Agent) -> int:
    """How many numbers are learnt."""
    return sum(leaf.size for leaf in jax.tree.leaves(agent))
