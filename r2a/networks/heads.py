"""From the agent state (and what was retrieved for it) to Q-values."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import HeadConfig
from r2a.networks.attention import MultiHeadAttention
from r2a.networks.dense import MLP


class QHead(eqx.Module):
    """Q(s, a), or Q(s, z, a) where slots have retrieved z (Sec. 2.3, end of step 6).

    The state comes first and attends over z (App.: two inputs are never concatenated); z = 0 changes nothing.
    """

    attend: MultiHeadAttention | None
    mlp: MLP

    def __init__(self, config: HeadConfig, state_size: int, z_size: int, num_actions: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        heads, gain = config.attention_heads, config.attention_gain
        self.attend = MultiHeadAttention(state_size, z_size, state_size, heads, k1, gain=gain) if z_size else None
        self.mlp = MLP((state_size, *config.hidden, num_actions), k2)

    def __call__(self, state: Float[Array, "*b d"], z: Float[Array, "*b K e"]) -> Float[Array, "*b A"]:
        if self.attend is not None:
            state = state + self.attend(state[..., None, :], z)[..., 0, :]
        return self.mlp(state)
