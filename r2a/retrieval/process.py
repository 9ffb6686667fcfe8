"""Algorithm 1: one time step of the retrieval process."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.retrieval.bottleneck import BOTTLENECKS, KL_REDUCTIONS, GaussianBottleneck, IdentityBottleneck
from r2a.retrieval.selection import Places
from r2a.retrieval.steps import AgentUpdate, Reader, SlotInput, SlotStart, SlotUpdate
from r2a.types import Key, Memory, RetrievalState


class Reading(NamedTuple):
    """What steps 1 to 5 of Algorithm 1 leave: the slots after them, what they read, its KL, and where it was found."""

    state: RetrievalState
    z: Float[Array, "K d_m"]
    kl: Float[Array, " K"]
    chosen: Places
    weight: Float[Array, "K S"]


class Process(eqx.Module):
    """f_retr: m_{t-1}, s_t -> m_t, u_t. Trained by the RL loss and the bottleneck's KL."""

    start: SlotStart
    slot_input: SlotInput
    reader: Reader
    bottleneck: GaussianBottleneck | IdentityBottleneck
    slot_update: SlotUpdate
    agent_update: AgentUpdate
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 6)
        self.start = SlotStart(config, keys[0])
        self.slot_input = SlotInput(config, state_size, keys[1])
        self.reader = Reader(config, config.slot_size, keys[2])
        self.bottleneck = BOTTLENECKS[config.bottleneck](config, keys[3])
        self.slot_update = SlotUpdate(config, keys[4])
        self.agent_update = AgentUpdate(config, state_size, keys[5])
        self.config = config

    def initial_state(self, key: Key) -> RetrievalState:
        """The slots at an episode's start; consumes `key`."""
        return self.start(key)

    def read(self, state: RetrievalState, s: Float[Array, " d"], memory: Memory, key: Key) -> Reading:
        """Steps 1 to 5. Consumes `key`; without one, z is the mean of its distribution."""
        assert memory is not None
        m, z, repeats = state.slots, state.last_read, self.config.retrievals_per_step
        kl = jnp.zeros(m.shape[0])
        keys = [None] * repeats if key is None else jax.random.split(key, repeats)
        retrieves = self.retrieves_now(state)
        for repeat in range(repeats):
            # Step 1: compute the query.
            m_hat = self.slot_input(s, m)
            q = self.reader.query(m_hat)
            # Step 2: identify the most relevant trajectories and states.
            chosen = self.reader.identify(q, memory)
            # Step 3: retrieve information from them.
            g, alpha = self.reader.read(q, chosen, memory)
            # Step 4: regularise it with an information bottleneck.
            z_new, divergence = self.bottleneck(g, m, keys[repeat])
            # A slot that does not retrieve now has no KL, and nothing new to show the others in step 5.
            z = jnp.where(retrieves, z_new, z)
            # Step 5: update the states of the slots.
            m = jnp.where(retrieves, self.slot_update(m_hat, z), m)
            kl += KL_REDUCTIONS[self.config.kl_reduction](divergence * retrieves, axis=-1)
        return Reading(RetrievalState(m, z, state.age + 1), z, kl, chosen, alpha * retrieves)

    def deliver(
        self, s: Float[Array, " d"], z: Float[Array, "K d_m"]
    ) -> tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, " K"]]:
        """Step 6: the agent state with what was retrieved, u, and the slots' weights. No later step depends on it."""
        return self.agent_update(s, z)

    def retrieves_now(self, state: RetrievalState) -> Bool[Array, "K 1"]:
        """Which slots retrieve at this step: a slot of period p does so every p steps (App. "improvements tried")."""
        periods = jnp.array(self.config.slot_periods or (1,) * self.config.slots)
        return (state.age % periods == 0)[:, None]
