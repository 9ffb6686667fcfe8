"""From the agent state (and what was retrieved for it) to Q-values, or to a distribution of actions."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import HeadConfig
from r2a.networks.actions import Mixture
from r2a.networks.attention import MultiHeadAttention
from r2a.networks.dense import MLP
from r2a.types import Action


class Head(eqx.Module):
    """Q(s, a), or Q(s, z, a) where slots have retrieved z (Sec. 2.3, end of step 6); or a policy in its place.

    The state comes first and attends over z (App.: two inputs are never concatenated); z = 0 changes nothing.
    """

    attend: MultiHeadAttention | None
    mlp: MLP
    num_components: int = eqx.field(static=True)
    min_std: float = eqx.field(static=True)

    def __init__(self, config: HeadConfig, state_size: int, z_size: int, action_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        heads, gain = config.attention_heads, config.attention_gain
        self.attend = MultiHeadAttention(state_size, z_size, state_size, heads, k1, gain=gain) if z_size else None
        self.num_components, self.min_std = config.num_components, config.min_std
        outputs = Mixture.numbers(config.num_components, action_size) if config.num_components else action_size
        self.mlp = MLP((state_size, *config.hidden, outputs), k2)

    def __call__(self, state: Float[Array, "*b d"], z: Float[Array, "*b K e"]) -> Float[Array, "*b A"]:
        """A number for every action, or those that describe a mixture."""
        if self.attend is not None:
            state = state + self.attend(state[..., None, :], z)[..., 0, :]
        return self.mlp(state)

    def log_likelihood(self, outputs: Float[Array, "*b A"], action: Action) -> Float[Array, "*b"]:
        """Of actions to imitate; one number per action counts as a logit."""
        if self.num_components:
            return self.mixture(outputs).log_likelihood(action)
        chosen = jax.nn.one_hot(action, outputs.shape[-1])
        return (chosen * jax.nn.log_softmax(outputs)).sum(-1)

    def mode(self, outputs: Float[Array, "*b A"]) -> Action:
        """The best action."""
        return self.mixture(outputs).mode() if self.num_components else jnp.argmax(outputs, axis=-1)

    def mixture(self, outputs: Float[Array, "*b A"]) -> Mixture:
        """The distribution of continuous actions that the head's numbers stand for."""
        return Mixture.of(outputs, self.num_components, self.min_std)
