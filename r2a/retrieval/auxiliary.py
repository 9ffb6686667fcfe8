"""Auxiliary losses on the summaries: action, value and reward prediction (Sec. 2.2, App. auxiliary losses)."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.config import AuxiliaryConfig, RetrievalConfig
from r2a.networks.actions import as_features
from r2a.networks.dense import Linear
from r2a.networks.squash import squash
from r2a.types import Summaries, Trajectory, is_continuous


def two_hot(x: Float[Array, "*b"], config: AuxiliaryConfig) -> Float[Array, "*b bins"]:
    """The categorical target of h(x): weight on the two bins beside it, in proportion to nearness."""
    position = (squash(x) - config.low) / (config.high - config.low) * (config.bins - 1)
    position = jnp.clip(position, 0.0, config.bins - 1.0)[..., None]
    return jnp.maximum(0.0, 1.0 - jnp.abs(position - jnp.arange(config.bins)))


def returns_to_go(
    reward: Float[Array, " L"], discount: Float[Array, " L"], valid: Bool[Array, " L"]
) -> Float[Array, " L"]:
    """The discounted sum of the rewards from each step on, as far as the trajectory reaches."""

    def step(later: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        r, d, v = at
        total = jnp.where(v, r + d * later, later)
        return total, total

    return jax.lax.scan(step, jnp.zeros(()), (reward, discount, valid), reverse=True)[1]


ACTION_WIDTH = 0.1
"""Standard deviation of the predicted continuous actions: what an error of that size costs, half a unit, is ours."""


class AuxiliaryHeads(eqx.Module):
    """From each of h and b: which action was taken, which reward it brought, which return followed."""

    NAMES: ClassVar = ("action", "value", "reward")

    from_past: Linear
    from_future: Linear
    action_size: int = eqx.field(static=True)
    config: AuxiliaryConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, action_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        outputs = action_size + 2 * config.auxiliary.bins
        self.from_past = Linear(config.summary_size, outputs, k1)
        self.from_future = Linear(config.summary_size, outputs, k2)
        self.action_size = action_size
        self.config = config.auxiliary

    def losses(self, trajectories: Trajectory, summaries: Summaries) -> dict[str, Float[Array, ""]]:
        """Means over the valid steps, averaged over the two summaries."""
        past = self.cross_entropies(trajectories, self.from_past(summaries.past))
        future = self.cross_entropies(trajectories, self.from_future(summaries.future))
        return {name: 0.5 * (past[name] + future[name]) for name in self.NAMES}

    def cross_entropies(self, trajectories: Trajectory, logits: Float[Array, "N L o"]) -> dict[str, Float[Array, ""]]:
        """The three losses of one summary's predictions; continuous actions have a Gaussian's, but for a constant."""
        t, bins = trajectories, self.config.bins
        value = jax.vmap(returns_to_go)(t.reward, t.discount * self.config.discount, t.valid)
        targets = {
            "value": two_hot(value, self.config),
            "reward": two_hot(t.reward, self.config),
        }
        parts = jnp.split(logits, (self.action_size, self.action_size + bins), axis=-1)
        count = jnp.maximum(t.valid.sum(), 1)

        def mean_cross_entropy(target: Array, part: Array) -> Array:
            return -((target * jax.nn.log_softmax(part)).sum(-1) * t.valid).sum() / count

        losses = {name: mean_cross_entropy(targets[name], part) for name, part in zip(targets, parts[1:], strict=True)}
        action = as_features(t.action, self.action_size)
        if is_continuous(t.action):
            distance = jnp.square((parts[0] - action) / ACTION_WIDTH).sum(-1)
            return {"action": 0.5 * (distance * t.valid).sum() / count, **losses}
        return {"action": mean_cross_entropy(action, parts[0]), **losses}
