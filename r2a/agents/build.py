"""AgentConfig -> Agent."""

from __future__ import annotations

import jax
from jaxtyping import PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.config import AgentConfig
from r2a.networks.cores import FeedForwardCore, RecurrentCore
from r2a.networks.encoders import build_encoder
from r2a.networks.heads import Head
from r2a.retrieval.module import Retrieval


def build_agent(
    config: AgentConfig, observation_shape: int | tuple[int, ...], action_size: int, key: PRNGKeyArray
) -> Agent:
    """A new agent with random parameters; consumes `key`.

    An observation of one axis may be given by its size. `action_size` is how many actions there are or, for continuous
    ones, how many numbers one has.
    """
    encoder_key, retrieval_key, head_key = jax.random.split(key, 3)
    shape = (observation_shape,) if isinstance(observation_shape, int) else observation_shape
    core, state_size = FeedForwardCore(), config.encoder.hidden[-1]
    if config.core.kind == "gru":
        core = RecurrentCore(state_size, config.core.size, action_size, jax.random.fold_in(key, 1))
        state_size = config.core.size
    z_size = 0 if config.retrieval.variant in ("none", "auxiliary_only") else config.retrieval.slot_size
    return Agent(
        encoder=build_encoder(config.encoder, shape, encoder_key),
        core=core,
        retrieval=Retrieval(config.retrieval, state_size, action_size, retrieval_key),
        head=Head(config.head, state_size, z_size, action_size, head_key),
    )
