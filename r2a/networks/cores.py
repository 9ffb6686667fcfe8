"""From what is encoded of one step to the agent state s: a feed-forward agent's, or a recurrent one's."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.networks.recurrent import GRU, StepEmbedding
from r2a.types import Frames


class FeedForwardCore(eqx.Module):
    """A feed-forward agent: s is what is seen now, and every step is like an episode's first."""

    is_recurrent: ClassVar = False

    def initial_state(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def __call__(self, state: tuple[()], x: Float[Array, " d"], frame: Frames) -> tuple[tuple[()], Float[Array, " d"]]:
        del frame
        return state, x

    def unroll(self, state: tuple[()], x: Float[Array, "T d"], frames: Frames) -> tuple[tuple[()], Float[Array, "T d"]]:
        """All steps at once."""
        del frames
        return state, x


class RecurrentCore(eqx.Module):
    """A recurrent agent: s is a GRU's state after what was seen, done and got so far."""

    is_recurrent: ClassVar = True

    embed: StepEmbedding
    gru: GRU

    def __init__(self, x_size: int, size: int, action_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.embed = StepEmbedding(x_size, action_size, size, k1)
        self.gru = GRU(size, size, k2)

    def initial_state(self) -> Float[Array, " d"]:
        """The state at an episode's start."""
        return self.gru.initial_state()

    def __call__(
        self, state: Float[Array, " d"], x: Float[Array, " e"], frame: Frames
    ) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """One step; whoever calls starts a new episode with `initial_state`."""
        state = self.gru.cell(self.embed(x, frame.previous_action, frame.previous_reward), state)
        return state, state

    def unroll(
        self, state: Float[Array, " d"], x: Float[Array, "T e"], frames: Frames
    ) -> tuple[Float[Array, " d"], Float[Array, "T d"]]:
        """Consecutive steps; where an episode begins among them, the state is reset."""
        inputs = self.embed(x, frames.previous_action, frames.previous_reward)
        return self.gru.unroll(state, inputs, frames.is_first)
