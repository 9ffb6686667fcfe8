"""Step 2 of Algorithm 1: the most relevant trajectories and states.

A selection is made under stop_gradient (it has no gradient anyway); the logits of what was chosen are computed
again, with gradient, when it is read. Neither the full attention nor its gradient is ever stored.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from r2a.types import EncodedBatch, RetrievalBatch


class Places(NamedTuple):
    """States of a retrieval batch: trajectory i and step j of each, and whether there is one."""

    trajectory: Int[Array, "*b S"]
    step: Int[Array, "*b S"]
    exists: Bool[Array, "*b S"]


def best_by_return(batch: RetrievalBatch, k_traj: int) -> RetrievalBatch:
    """The k_traj trajectories of highest return; known before anything is encoded (App. computational complexity)."""
    _, best = jax.lax.top_k(batch.returns, k_traj)
    return jax.tree.map(lambda column: column[best], batch)


def attention_logits(queries: Float[Array, "K d_e"], keys: Float[Array, "*n d_e"]) -> Float[Array, "K *n"]:
    """l = q . kappa / sqrt(d_e)."""
    return jnp.einsum("kd,...d->k...", queries, keys) * queries.shape[-1] ** -0.5


def nearest_states(s: Float[Array, " d"], memory: EncodedBatch, count: int) -> Places:
    """Of the `count` trajectories that come nearest to the agent's own state, the state that does.

    The nearer, the higher the cosine of their encodings (App. computational complexity). One state of a trajectory is
    enough, since its neighbours in time are much like it.
    """
    s, states = jax.lax.stop_gradient((s, memory.states))
    unit = states * jax.lax.rsqrt(jnp.square(states).sum(-1, keepdims=True) + 1e-6)
    # Steps first: the maximum over them is then one of long rows.
    by_step = jnp.swapaxes(unit, 0, 1)
    product = (s @ by_step.reshape(-1, by_step.shape[-1]).T).reshape(by_step.shape[:-1])
    cosine = jnp.where(memory.valid.T, product, -jnp.inf)
    # The barrier keeps the compiler from merging this with later slices and sorting everything after all.
    best, trajectory = jax.lax.optimization_barrier(jax.lax.top_k(cosine.max(0), min(count, cosine.shape[1])))
    return Places(trajectory, jnp.argmax(cosine[:, trajectory], axis=0), jnp.isfinite(best))


def only(places: Places, memory: EncodedBatch) -> EncodedBatch:
    """A batch with nothing but these states: trajectories of one step each."""
    keys, values = rows_of(memory, places.trajectory * memory.valid.shape[-1] + places.step)
    states, summaries = jax.tree.map(lambda a: a[places.trajectory, places.step], (memory.states, memory.summaries))
    return EncodedBatch(
        *jax.tree.map(lambda a: a[:, None], (states, summaries, keys, values, places.exists)),
        trajectory_id=memory.trajectory_id[places.trajectory],
        task_id=memory.task_id[places.trajectory],
    )


def choose(logits: Float[Array, "K N L"], candidate: Bool[Array, "N L"], k_traj: int, k_states: int) -> Places:
    """T: the k_traj trajectories with the largest summed attention; S: the k_states best states within them."""
    logits = jax.lax.stop_gradient(jnp.where(candidate, logits, -jnp.inf))
    num_slots, num_trajectories, length = logits.shape
    if k_traj >= num_trajectories and k_states >= num_trajectories * length:  # nothing to rank
        trajectory, step = jnp.divmod(jnp.arange(num_trajectories * length), length)
        exists = jnp.isfinite(logits).reshape(num_slots, -1)
        return Places(jnp.broadcast_to(trajectory, exists.shape), jnp.broadcast_to(step, exists.shape), exists)
    if k_traj < num_trajectories:
        # The sum over j of softmax orders trajectories as logsumexp over j does.
        _, trajectories = jax.lax.top_k(jax.nn.logsumexp(logits, axis=-1), k_traj)
        logits = jnp.take_along_axis(logits, trajectories[:, :, None], axis=1)
    else:
        trajectories = jnp.broadcast_to(jnp.arange(num_trajectories), (num_slots, num_trajectories))
    best, flat = jax.lax.top_k(logits.reshape(num_slots, -1), k_states)
    trajectory = jnp.take_along_axis(trajectories, flat // length, axis=1)
    return Places(trajectory, flat % length, jnp.isfinite(best))


def rows_of(memory: EncodedBatch, flat: Int[Array, "*b"]) -> tuple[Float[Array, "*b d_e"], Float[Array, "*b d_m"]]:
    """Keys and values of states, numbered through all trajectories."""
    key_size = memory.keys.shape[-1]
    # One table, one gather: its gradient is a single scatter-add.
    table = jnp.concatenate([memory.keys, memory.values], axis=-1).reshape(-1, key_size + memory.values.shape[-1])
    rows = table[flat]
    return rows[..., :key_size], rows[..., key_size:]
