"""Recurrences over time: a GRU, and a gated linear recurrence whose products run over all steps at once."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.networks.actions import as_features
from r2a.networks.dense import Linear
from r2a.types import Action, none_where


class GRUCell(eqx.Module):
    """A gated recurrent unit; the input's part of all three gates is one matrix product.

    By hand, because that part can be had for all steps, or once for all slots, ahead: not with `eqx.nn.GRUCell`.
    """

    from_input: Linear
    from_state: Linear
    candidate_bias: Float[Array, " d"]

    def __init__(self, d_in: int, size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.from_input = Linear(d_in, 3 * size, k1)
        self.from_state = Linear(size, 3 * size, k2, bias=False)
        self.candidate_bias = jnp.zeros(size)

    def __call__(self, x: Float[Array, "*b d_in"], state: Float[Array, "*c d"]) -> Float[Array, "*c d"]:
        return self.advance(self.from_input(x), state)

    def advance(self, projected: Float[Array, "*b e"], state: Float[Array, "*c d"]) -> Float[Array, "*c d"]:
        """The update for an input that went through `from_input` already."""
        reset_x, update_x, candidate_x = jnp.split(projected, 3, axis=-1)
        reset_m, update_m, candidate_m = jnp.split(self.from_state(state), 3, axis=-1)
        reset = jax.nn.sigmoid(reset_x + reset_m)
        update = jax.nn.sigmoid(update_x + update_m)
        candidate = jnp.tanh(candidate_x + reset * (candidate_m + self.candidate_bias))
        return candidate + update * (state - candidate)


def previous_steps(
    action: Action, reward: Float[Array, "*b L"], is_first: Bool[Array, "*b L"]
) -> tuple[Action, Float[Array, "*b L"]]:
    """What was done and got one step before each; nothing where an episode, or what is given of it, begins."""
    time = reward.ndim - 1
    none_before = is_first | (jnp.arange(reward.shape[-1]) == 0)
    return (
        none_where(none_before, jnp.roll(action, 1, axis=time)),
        jnp.where(none_before, 0.0, jnp.roll(reward, 1, axis=time)),
    )


class StepEmbedding(eqx.Module):
    """A step as a recurrence takes it in: its encoded state, plus embeddings of an action and a reward."""

    state: Linear
    action: Float[Array, "A d"]
    reward: Float[Array, " d"]

    def __init__(self, state_size: int, action_size: int, size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        self.state = Linear(state_size, size, k1)
        self.action = jax.random.normal(k2, (action_size, size))
        self.reward = jax.random.normal(k3, (size,))

    def __call__(self, state: Float[Array, "*b e"], action: Action, reward: Float[Array, "*b"]) -> Float[Array, "*b d"]:
        done = as_features(action, self.action.shape[0]) @ self.action
        return jax.nn.relu(self.state(state) + done + tamed(reward)[..., None] * self.reward)


def tamed(reward: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Rewards up to 1 as they are, and of larger ones, 1 and their logarithm: Atari pays hundreds."""
    return jnp.clip(reward, -1.0, 1.0) + jnp.sign(reward) * jnp.log(jnp.maximum(jnp.abs(reward), 1.0))


class GRU(eqx.Module):
    """A GRU over a sequence; steps that are not valid leave the state as it is."""

    cell: GRUCell

    def __init__(self, d_in: int, size: int, key: PRNGKeyArray):
        self.cell = GRUCell(d_in, size, key)

    def __call__(
        self, inputs: Float[Array, "L d_in"], valid: Bool[Array, " L"], *, reverse: bool = False
    ) -> Float[Array, "L d"]:
        def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
            projected, is_valid = at
            state = jnp.where(is_valid, self.cell.advance(projected, state), state)
            return state, state

        # One product for all steps: within the scan it would have as few rows as there are trajectories.
        projected = self.cell.from_input(inputs)
        return jax.lax.scan(step, self.initial_state(), (projected, valid), reverse=reverse)[1]

    def initial_state(self) -> Float[Array, " d"]:
        """The state before anything was seen."""
        return jnp.zeros(self.cell.candidate_bias.shape)

    def unroll(
        self, state: Float[Array, " d"], inputs: Float[Array, "T d_in"], is_first: Bool[Array, " T"]
    ) -> tuple[Float[Array, " d"], Float[Array, "T d"]]:
        """From `state` on, forgetting everything where an episode begins: the last state, and all of them."""

        def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
            projected, forget = at
            state = self.cell.advance(projected, jnp.where(forget, self.initial_state(), state))
            return state, state

        return jax.lax.scan(step, state, (self.cell.from_input(inputs), is_first))


class LinearRecurrence(eqx.Module):
    """h_t = (1 - g_t) h_{t-1} + g_t x_t with gates that see only the input.

    All matrix products run over all steps at once; what is left for the scan is one multiplication and one addition
    per number. `r2a bench retrieval` has its speed beside the other summarisers'.
    """

    project: Linear

    def __init__(self, d_in: int, size: int, key: PRNGKeyArray):
        self.project = Linear(d_in, 2 * size, key)

    def __call__(
        self, inputs: Float[Array, "L d_in"], valid: Bool[Array, " L"], *, reverse: bool = False
    ) -> Float[Array, "L d"]:
        gate, candidate = jnp.split(self.project(inputs), 2, axis=-1)
        gate = jax.nn.sigmoid(gate) * valid[:, None]

        def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
            keep, add = at
            state = keep * state + add
            return state, state

        return jax.lax.scan(step, jnp.zeros(candidate.shape[-1]), (1 - gate, gate * candidate), reverse=reverse)[1]
