"""AgentConfig -> Agent: the only registry."""

from __future__ import annotations

import jax
from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import AgentConfig
from r2a.networks.encoders import VectorEncoder
from r2a.networks.heads import QHead
from r2a.retrieval.variants import VARIANTS


def build_agent(config: AgentConfig, observation_size: int, num_actions: int, key: PRNGKeyArray) -> Agent:
    """A new agent with random parameters; consumes `key`."""
    encoder_key, retrieval_key, head_key = jax.random.split(key, 3)
    state_size = config.encoder.hidden[-1]
    z_size = 0 if config.retrieval.variant == "none" else config.retrieval.slot_size
    return Agent(
        encoder=VectorEncoder(config.encoder, observation_size, encoder_key),
        retrieval=VARIANTS[config.retrieval.variant](config.retrieval, state_size, num_actions, retrieval_key),
        head=QHead(config.head, state_size, z_size, num_actions, head_key),
    )
