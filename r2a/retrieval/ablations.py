"""What can take the place of Algorithm 1: its ablations A-1 and A-2, and nothing at all."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.networks.dense import RESIDUALS, GatedResidual, SumResidual
from r2a.retrieval.bottleneck import BOTTLENECKS, KL_REDUCTIONS, GaussianBottleneck, IdentityBottleneck
from r2a.retrieval.process import Reading
from r2a.retrieval.selection import Places
from r2a.retrieval.steps import SLOT_INPUTS, AgentUpdate, Reader, SlotInput, SlotInputTransformer, SlotStart, SlotUpdate
from r2a.types import Key, Memory, RetrievalState

Delivered = tuple[Float[Array, " d"], Float[Array, " e"], Float[Array, " K"]]
"""The agent state with what was read, u, and the slots' weights. In A-1, u is of z's size."""


class AgentQueryProcess(eqx.Module):
    """Ablation A-1: no slots; the query is a function of the agent state, and step 6 only adds what was read."""

    reader: Reader
    bottleneck: GaussianBottleneck | IdentityBottleneck
    take_in: GatedResidual | SumResidual
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        self.reader = Reader(config, state_size, k1)
        self.bottleneck = BOTTLENECKS[config.bottleneck](config, k2)
        self.take_in = RESIDUALS[config.update](state_size, config.slot_size, k3, config.gate_bias)
        self.config = config

    def initial_state(self, key: Key) -> RetrievalState:
        """A state that stays zero: r(Z | m) is then a learned constant Gaussian."""
        del key
        return no_slots(1, self.config.slot_size)

    def read(self, state: RetrievalState, s: Float[Array, " d"], memory: Memory, key: Key) -> Reading:
        """Steps 2 to 4, with a query from the agent state; consumes `key`."""
        assert memory is not None
        q = self.reader.query(s)[None]
        chosen = self.reader.identify(q, memory)
        g, alpha = self.reader.read(q, chosen, memory)
        z, divergence = self.bottleneck(g, state.slots, key)
        kl = KL_REDUCTIONS[self.config.kl_reduction](divergence, axis=-1)
        return Reading(state._replace(age=state.age + 1), z, kl, chosen, alpha)

    def deliver(self, s: Float[Array, " d"], z: Float[Array, "K d_m"]) -> Delivered:
        """What was read is added to the agent state."""
        return self.take_in(s, z[0]), z[0], jnp.ones(1)


class SlotsOnly(eqx.Module):
    """Ablation A-2: slots without anything to retrieve; step 6 reads the slots themselves."""

    start: SlotStart
    slot_input: SlotInput | SlotInputTransformer
    slot_update: SlotUpdate
    agent_update: AgentUpdate

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.start = SlotStart(config, k1)
        self.slot_input = SLOT_INPUTS[config.slot_input](config, state_size, k2)
        self.slot_update = SlotUpdate(config, k3)
        self.agent_update = AgentUpdate(config, state_size, k4)

    def initial_state(self, key: Key) -> RetrievalState:
        """The slots at an episode's start; consumes `key`."""
        return self.start(key)

    def read(self, state: RetrievalState, s: Float[Array, " d"], memory: Memory, key: Key) -> Reading:
        """Steps 1 and 5."""
        del memory, key
        m_hat = self.slot_input(s, state.slots)
        m = self.slot_update.interact(m_hat, m_hat)
        return nothing_read(RetrievalState(m, state.last_read, state.age + 1), m)

    def deliver(self, s: Float[Array, " d"], z: Float[Array, "K d_m"]) -> Delivered:
        """Step 6."""
        return self.agent_update(s, z)


class NoProcess(eqx.Module):
    """The plain agent's: the agent state passes through unchanged."""

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        del config, state_size, key

    def initial_state(self, key: Key) -> RetrievalState:
        """A state with no slots."""
        del key
        return no_slots(0, 0)

    def read(self, state: RetrievalState, s: Float[Array, " d"], memory: Memory, key: Key) -> Reading:
        """Nothing."""
        del s, memory, key
        return nothing_read(state, state.slots)

    def deliver(self, s: Float[Array, " d"], z: Float[Array, "K d_m"]) -> Delivered:
        """The agent state as it is."""
        del z
        return s, jnp.zeros_like(s), jnp.zeros(0)


def no_slots(count: int, size: int) -> RetrievalState:
    """Slots that hold nothing."""
    empty = jnp.zeros((count, size))
    return RetrievalState(empty, empty, jnp.zeros((), jnp.int32))


def nothing_read(state: RetrievalState, z: Float[Array, "K d_m"]) -> Reading:
    """The reading of who reads nothing; z is what the slots hold."""
    nothing = jnp.zeros((z.shape[0], 0))
    nowhere = Places(nothing.astype(int), nothing.astype(int), nothing.astype(bool))
    return Reading(state, z, jnp.zeros(z.shape[0]), nowhere, nothing)
