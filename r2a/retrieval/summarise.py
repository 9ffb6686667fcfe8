"""Forward and backward summaries of the trajectories in the retrieval batch (Sec. 2.2)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.networks.attention import TransformerBlock
from r2a.networks.dense import GatedResidual, LayerNorm
from r2a.networks.recurrent import GRU, LinearRecurrence, StepEmbedding, previous_steps
from r2a.types import Summaries, Trajectory


class Transformer(eqx.Module):
    """Self-attention over the steps that lie behind (or, reversed, ahead); positions count from the start."""

    blocks: tuple[TransformerBlock, ...]

    def __init__(self, size: int, layers: int, key: PRNGKeyArray):
        self.blocks = tuple(TransformerBlock(size, 4, k) for k in jax.random.split(key, layers))

    def __call__(
        self, inputs: Float[Array, "L d"], valid: Bool[Array, " L"], *, reverse: bool = False
    ) -> Float[Array, "L d"]:
        length, size = inputs.shape
        mask = jnp.tril(jnp.ones((length, length), bool))
        mask = (mask.T if reverse else mask) & valid[None, :]
        x = inputs + sinusoids(length, size)
        for block in self.blocks:
            x = block(x, mask)
        return x


def sinusoids(length: int, size: int) -> Float[Array, "L d"]:
    """Position vectors of sines and cosines at geometrically spaced rates."""
    rates = 1e4 ** (-jnp.arange(0, size, 2) / size)
    angles = jnp.arange(length)[:, None] * rates
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)[:, :size]


class Summariser(eqx.Module):
    """f_fwd and f_bwd: each step of a trajectory gets h (its past) and b (its future).

    The past of step t holds the actions and rewards before t, as an agent standing at t would know them; the
    future starts with the action taken at t and the reward it brought.
    """

    embed_past: StepEmbedding
    embed_future: StepEmbedding
    forward: GRU | Transformer | LinearRecurrence
    backward: GRU | Transformer | LinearRecurrence
    add_state: GatedResidual
    past_norm: LayerNorm
    future_norm: LayerNorm

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        k1, k2, k3, k4, k5 = jax.random.split(key, 5)
        size = config.summary_size
        self.embed_past = StepEmbedding(state_size, action_size, size, k1)
        self.embed_future = StepEmbedding(state_size, action_size, size, k2)
        self.forward = make_sequence_model(config, k3)
        self.backward = make_sequence_model(config, k4)
        self.add_state = GatedResidual(size, state_size, k5)
        self.past_norm = LayerNorm(size)
        self.future_norm = LayerNorm(size)

    def __call__(self, trajectory: Trajectory, states: Float[Array, "L d"]) -> Summaries:
        """Summarise one trajectory whose observations are encoded as `states`."""
        action, reward, valid = trajectory.action, trajectory.reward, trajectory.valid
        previous_action, previous_reward = previous_steps(action, reward, trajectory.is_first)
        past = self.forward(self.embed_past(states, previous_action, previous_reward), valid)
        future = self.backward(self.embed_future(states, action, reward), valid, reverse=True)
        # App.: h = h_t + s_t with a GRU-style gate, so that a key tells where the step is, not only how it came there.
        return Summaries(self.past_norm(self.add_state(past, states)), self.future_norm(future))


def make_sequence_model(config: RetrievalConfig, key: PRNGKeyArray) -> GRU | Transformer | LinearRecurrence:
    """The recurrence that `retrieval.summariser` names."""
    size = config.summary_size
    if config.summariser == "transformer":
        return Transformer(size, config.summary_layers, key)
    return {"gru": GRU, "linear": LinearRecurrence}[config.summariser](size, size, key)
