"""AgentConfig -> Agent: the only registry."""

from __future__ import annotations

import jax
from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import AgentConfig
from r2a.networks.cores import Memory, NoMemory
from r2a.networks.encoders import InstructedEncoder, VectorEncoder
from r2a.networks.heads import QHead
from r2a.retrieval.variants import VARIANTS


def build_agent(config: AgentConfig, observation_size: int, num_actions: int, key: PRNGKeyArray) -> Agent:
    """A new agent with random parameters; consumes `key`."""
    encoder_key, retrieval_key, head_key = jax.random.split(key, 3)
    encoder, core, state_size = config.encoder, NoMemory(), config.encoder.hidden[-1]
    if config.core.kind == "gru":
        core = Memory(state_size, config.core.size, num_actions, jax.random.fold_in(key, 1))
        state_size = config.core.size
    z_size = 0 if config.retrieval.variant == "none" else config.retrieval.slot_size
    return Agent(
        encoder=(
            InstructedEncoder(encoder, encoder_key)
            if encoder.features == "babyai"
            else VectorEncoder(encoder, observation_size, encoder_key)
        ),
        core=core,
        retrieval=VARIANTS[config.retrieval.variant](config.retrieval, state_size, num_actions, retrieval_key),
        head=QHead(config.head, state_size, z_size, num_actions, head_key),
    )
