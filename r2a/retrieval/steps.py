"""The steps of Algorithm 1, one small module each, shared by all variants."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.networks.attention import Attention, TransformerBlock, masked_softmax
from r2a.networks.dense import MLP, RESIDUALS, GatedResidual, LayerNorm, Linear, SumResidual
from r2a.networks.recurrent import GRUCell
from r2a.retrieval.selection import Places, attention_logits, choose, rows_of
from r2a.types import EncodedBatch, Key, RetrievalState, Summaries


class SlotStart(eqx.Module):
    """ "Slots are initialized randomly at the beginning of the episode": drawn from a learned Gaussian."""

    mean: Float[Array, "K d_m"]
    log_std: Float[Array, "K d_m"]

    def __init__(self, config: RetrievalConfig, key: PRNGKeyArray):
        shape = (config.slots, config.slot_size)
        self.mean = jax.random.normal(key, shape)
        self.log_std = -jnp.ones(shape)

    def __call__(self, key: Key) -> RetrievalState:
        """Consumes `key`; without one, the slots start at their means."""
        noise = 0.0 if key is None else jnp.exp(self.log_std) * jax.random.normal(key, self.mean.shape)
        return RetrievalState(self.mean + noise, jnp.zeros_like(self.mean), jnp.zeros((), jnp.int32))


class SlotInput(eqx.Module):
    """Step 1, first line: m_hat = GRU(s, m), the same for every slot."""

    cell: GRUCell

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        self.cell = GRUCell(state_size, config.slot_size, key)

    def __call__(self, s: Float[Array, " d"], m: Float[Array, "K d_m"]) -> Float[Array, "K d_m"]:
        return self.cell(s, m)  # broadcasts: the input's share of the gates is computed once, not once per slot


class SlotInputTransformer(eqx.Module):
    """Step 1 of ablation A-2 as Sec. 3.1.1 words it: slots and agent state attend to each other."""

    from_agent: Linear
    block: TransformerBlock

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.from_agent = Linear(state_size, config.slot_size, k1)
        self.block = TransformerBlock(config.slot_size, 4, k2)

    def __call__(self, s: Float[Array, " d"], m: Float[Array, "K d_m"]) -> Float[Array, "K d_m"]:
        return self.block(jnp.concatenate([m, self.from_agent(s)[None]]))[:-1]


SLOT_INPUTS = {"gru": SlotInput, "transformer": SlotInputTransformer}


class Reader(eqx.Module):
    """Steps 2 and 3: keys from the past, values from the future; choose, then read what was chosen."""

    query_network: MLP
    query_norm: LayerNorm
    key: Linear
    value: Linear
    k_traj: int = eqx.field(static=True)
    k_states: int = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, query_from: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        self.query_network = MLP((query_from, config.key_size, config.key_size), k1)
        self.query_norm = LayerNorm(config.key_size, scale=config.query_scale)
        self.key = Linear(config.summary_size, config.key_size, k2, bias=False)
        self.value = Linear(config.summary_size, config.slot_size, k3, bias=False)
        # Similar states come as trajectories of one step: none of those is left out before its state is looked at.
        self.k_traj, self.k_states = config.num_neighbours or config.k_traj, config.k_states

    def query(self, m_hat: Float[Array, "*K d"]) -> Float[Array, "*K d_e"]:
        """f_query; layer norm keeps the logits in a range where more than one state is read."""
        return self.query_norm(self.query_network(m_hat))

    def keys_and_values(self, summaries: Summaries) -> tuple[Float[Array, "*M N L d_e"], Float[Array, "*M N L d_m"]]:
        """kappa = h W_e and v = b W_v."""
        return self.key(summaries.past), self.value(summaries.future)

    def identify(self, q: Float[Array, "K d_e"], memory: EncodedBatch) -> Places:
        """Step 2: the most relevant trajectories, and the most relevant states within them."""
        q, keys = jax.lax.stop_gradient((q, memory.keys))
        k_states = self.k_states or self.k_traj * memory.valid.shape[-1]
        return choose(attention_logits(q, keys), memory.valid, self.k_traj, k_states)

    def read(
        self, q: Float[Array, "K d_e"], chosen: Places, memory: EncodedBatch
    ) -> tuple[Float[Array, "K d_m"], Float[Array, "K S"]]:
        """Step 3: alpha renormalised over the chosen states; g = sum alpha v."""
        if chosen.step.shape[-1] == memory.valid.size:  # all of them, in order: two products, and nothing to gather
            alpha = masked_softmax(attention_logits(q, memory.keys).reshape(q.shape[0], -1), chosen.exists)
            return alpha @ memory.values.reshape(-1, memory.values.shape[-1]), alpha
        keys, values = rows_of(memory, chosen.trajectory * memory.valid.shape[-1] + chosen.step)
        logits = jnp.einsum("kd,ksd->ks", q, keys) * q.shape[-1] ** -0.5
        alpha = masked_softmax(logits, chosen.exists)
        return jnp.einsum("ks,ksd->kd", alpha, values), alpha


class SlotUpdate(eqx.Module):
    """Step 5: each slot takes in what it read, then the slots attend to each other."""

    take_in: GatedResidual | SumResidual
    attention: Attention
    exchange: GatedResidual | SumResidual

    def __init__(self, config: RetrievalConfig, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        size = config.slot_size
        self.take_in = RESIDUALS[config.update](size, size, k1)
        self.attention = Attention(size, size, config.key_size, size, k2)
        self.exchange = RESIDUALS[config.update](size, size, k3)

    def __call__(self, m_hat: Float[Array, "K d_m"], z: Float[Array, "K d_m"]) -> Float[Array, "K d_m"]:
        return self.interact(m_hat, self.take_in(m_hat, z))

    def interact(self, m_hat: Float[Array, "K d_m"], m_tilde: Float[Array, "K d_m"]) -> Float[Array, "K d_m"]:
        """The joint update: queries from m_hat, keys and values from m_tilde."""
        shared, _ = self.attention(m_hat, m_tilde)
        return self.exchange(m_tilde, shared)


class AgentUpdate(eqx.Module):
    """Step 6: the agent state attends over what the slots hold, and takes it in."""

    attention: Attention
    take_in: GatedResidual | SumResidual

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.attention = Attention(state_size, config.slot_size, config.key_size, state_size, k1)
        self.take_in = RESIDUALS[config.update](state_size, state_size, k2, config.gate_bias)

    def __call__(
        self, s: Float[Array, " d"], z: Float[Array, "K d_m"]
    ) -> tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, " K"]]:
        u, gamma = self.attention(s[None], z)
        return self.take_in(s, u[0]), u[0], gamma[0]
