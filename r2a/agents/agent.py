"""Agent = encoder + retrieval + head, and the map of the retrieval process over states and tasks."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.networks.encoders import VectorEncoder
from r2a.networks.heads import QHead
from r2a.retrieval.variants import NoRetrieval, Retrieval, SlotsOnly
from r2a.types import AgentOutput, AgentState, EncodedBatch, Observation, RetrievalBatch, Retrieved


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


def outputs_of_states(
    agent: Agent, observations: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
) -> AgentOutput:
    """The agent's output for each of a batch of single states [b] that read from the same encoded batch.

    With a leading axis for tasks, on states and encoded batches alike, [M b]. Consumes `key`; without one nothing is
    random. Encoder and head see all states as the rows of one matrix.
    """
    retrieved = retrieved_for_states(agent, agent.encoder(observations), encoded, key)
    return AgentOutput(agent.head(retrieved.agent_state, retrieved.z), retrieved)


def prices_of_states(
    agent: Agent, observations: Observation, encoded: EncodedBatch | None, key: PRNGKeyArray | None
) -> Float[Array, "*M b K"]:
    """The KL price of what `outputs_of_states` reads, as a function of the retrieval process's parameters alone.

    The bottleneck may move neither encoder nor summariser (App. training losses): both are cut off here.
    """
    states = jax.lax.stop_gradient(agent.encoder(observations))
    return retrieved_for_states(agent, states, agent.retrieval.detach(encoded), key).kl


def retrieved_for_states(
    agent: Agent, states: Float[Array, "*M b d"], encoded: EncodedBatch | None, key: PRNGKeyArray | None
) -> Retrieved:
    """One step of the retrieval process for each encoded state, from fresh slots; consumes `key`."""

    def for_one(s: Float[Array, " d"], encoded: EncodedBatch | None, key: PRNGKeyArray | None) -> Retrieved:
        start_key, read_key = (None, None) if key is None else jax.random.split(key)
        return agent.retrieval(agent.retrieval.start(start_key), s, encoded, read_key)

    for_all = jax.vmap(for_one, in_axes=(0, None, 0))
    if states.ndim == 3:
        for_all = jax.vmap(for_all)
    return for_all(states, encoded, None if key is None else jax.random.split(key, states.shape[:-1]))


def parameter_count(agent: Agent) -> int:
    """How many numbers are learnt."""
    return sum(leaf.size for leaf in jax.tree.leaves(agent))
