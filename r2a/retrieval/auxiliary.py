"""Auxiliary losses on the summaries: action, value and reward prediction (Sec. 2.2, App. auxiliary losses)."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.config import AuxiliaryConfig, RetrievalConfig
from r2a.networks.dense import Linear
from r2a.networks.squash import squash
from r2a.types import Summaries, Trajectory


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


class AuxiliaryHeads(eqx.Module):
    """From each of h and b: which action was taken, which reward it brought, which return followed."""

    NAMES: ClassVar = ("action", "value", "reward")

    from_past: Linear
    from_future: Linear
    num_actions: int = eqx.field(static=True)
    config: AuxiliaryConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, num_actions: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        outputs = num_actions + 2 * config.auxiliary.bins
        self.from_past = Linear(config.summary_size, outputs, k1)
        self.from_future = Linear(config.summary_size, outputs, k2)
        self.num_actions = num_actions
        self.config = config.auxiliary

    def losses(self, trajectories: Trajectory, summaries: Summaries) -> dict[str, Float[Array, ""]]:
        """Mean cross-entropies over the valid steps, averaged over the two summaries."""
        past = self.cross_entropies(trajectories, self.from_past(summaries.past))
        future = self.cross_entropies(trajectories, self.from_future(summaries.future))
        return {name: 0.5 * (past[name] + future[name]) for name in self.NAMES}

    def cross_entropies(self, trajectories: Trajectory, logits: Float[Array, "N L o"]) -> dict[str, Float[Array, ""]]:
        """The three losses of one summary's predictions."""
        t, bins = trajectories, self.config.bins
        value = jax.vmap(returns_to_go)(t.reward, t.discount * self.config.discount, t.valid)
        targets = {
            "action": jax.nn.one_hot(t.action, self.num_actions),
            "value": two_hot(value, self.config),
            "reward": two_hot(t.reward, self.config),
        }
        parts = jnp.split(logits, (self.num_actions, self.num_actions + bins), axis=-1)
        count = jnp.maximum(t.valid.sum(), 1)

        def mean_cross_entropy(target: Array, part: Array) -> Array:
            return -((target * jax.nn.log_softmax(part)).sum(-1) * t.valid).sum() / count

        return {name: mean_cross_entropy(targets[name], part) for name, part in zip(self.NAMES, parts, strict=True)}
