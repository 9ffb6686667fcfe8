"""Retrieval as a module of any agent: encode a retrieval batch once, then read it, step by step or along a sequence.

memory, auxiliary = retrieval.encode(batch, states_along)
out = retrieval.step(state, s, memory, key)
outs = retrieval.unroll(state, s, memory, is_first, recurrent=True, key=key)
state = retrieval.initial_state(key)
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.retrieval.ablations import AgentQueryProcess, NoProcess, SlotsOnly
from r2a.retrieval.auxiliary import AuxiliaryHeads
from r2a.retrieval.process import Process, Reading
from r2a.retrieval.selection import Places, best_by_return, nearest_states, only
from r2a.retrieval.steps import Reader
from r2a.retrieval.summarise import Summariser
from r2a.types import (
    Attended,
    EncodedBatch,
    Key,
    Memory,
    RetrievalBatch,
    RetrievalOutput,
    RetrievalState,
    Summaries,
    Trajectory,
)

PROCESSES = {
    "none": NoProcess,
    "full": Process,
    "agent_query": AgentQueryProcess,
    "slots_only": SlotsOnly,
    "auxiliary_only": NoProcess,
}
"""By `retrieval.variant`."""

StatesAlong = Callable[[Trajectory], Float[Array, "N L d"]]
"""From trajectories to the agent states along them."""


class Retrieval(eqx.Module):
    """The set-up of Sec. 2: summariser, auxiliary heads, and the process that reads the summaries.

    The parts are apart because they are trained apart: the bottleneck's KL moves only `process`, the auxiliary losses
    only `summariser`, `auxiliary` and what gives the states along a trajectory. Variants that need no retrieval batch
    have neither of these two, and those that read none have None for a memory.
    """

    summariser: Summariser | None
    auxiliary: AuxiliaryHeads | None
    process: Process | AgentQueryProcess | SlotsOnly | NoProcess
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        needed = config.needs_batch
        self.summariser = Summariser(config, state_size, action_size, k1) if needed else None
        self.auxiliary = AuxiliaryHeads(config, action_size, k2) if needed else None
        self.process = PROCESSES[config.variant](config, state_size, k3 if needed else key)
        self.config = config

    def encode(
        self, batch: RetrievalBatch | None, states_along: StatesAlong
    ) -> tuple[Memory, dict[str, Float[Array, ""]]]:
        """Keys and values, once for all the steps that will read them, and the auxiliary losses of the summaries.

        Where not all trajectories teach, every so many-th does, so that each task has its share.
        """
        if self.summariser is None or self.auxiliary is None:
            return None, {name: jnp.zeros(()) for name in AuxiliaryHeads.NAMES}
        assert batch is not None
        if self.config.ranking == "return":  # only what will be chosen has to be encoded
            batch = best_by_return(batch, self.config.k_traj)
        trajectories = batch.trajectories
        every = one_teaches_in(len(trajectories.task_id), self.config)
        teachers = jax.tree.map(lambda column: column[::every], trajectories)
        states, summaries = summarise(self.summariser, teachers, states_along)
        auxiliary = self.auxiliary.losses(teachers, summaries)
        if not self.config.reads:
            return None, auxiliary
        if every > 1:
            others = jax.tree.map(lambda column: without_every(every, column), trajectories)
            read = jax.lax.stop_gradient(summarise(self.summariser, others, states_along))
            states, summaries = jax.tree.map(in_order, (states, summaries), read)
        keys, values = self._reader.keys_and_values(summaries)
        whose = (trajectories.trajectory_id, trajectories.task_id)
        return EncodedBatch(states, summaries, keys, values, trajectories.valid, *whose), auxiliary

    def initial_state(self, key: Key) -> RetrievalState:
        """The slots at an episode's start; consumes `key`, without which nothing is random."""
        return self.process.initial_state(key)

    def step(self, state: RetrievalState, s: Float[Array, " d"], memory: Memory, key: Key) -> RetrievalOutput:
        """One step of Algorithm 1, within an episode. Consumes `key`; without one, z is the mean of its distribution.

        `kl` is a number to watch; to learn by it, ask `unroll` for it.
        """
        near = self._neighbours(s, memory)
        reading = self.process.read(state, s, readable(near, memory), key)
        return self._deliver(s, located(reading, near))

    def unroll(
        self,
        state: RetrievalState,
        s: Float[Array, "T d"],
        memory: Memory,
        is_first: Bool[Array, " T"],
        *,
        recurrent: bool,
        key: Key = None,
        kl_steps: int = 0,
    ) -> RetrievalOutput:
        """Along consecutive agent states; consumes `key`, without which nothing is random.

        Slots go on from step to step and start afresh with an episode; those of an agent that is not recurrent, with
        every step. With `kl_steps`, `kl` is that of the first so many steps alone, and has a gradient: it moves the
        process along all of them, and neither what encoded the states nor the summariser (App. training losses).
        """
        near = jax.vmap(lambda at: self._neighbours(at, memory))(s)
        reading = self._read_along(state, s, memory, near, is_first, recurrent, key)
        out = jax.vmap(self._deliver)(s, jax.vmap(located)(reading, near))
        if not kl_steps:
            return out
        s, near, is_first = jax.tree.map(lambda column: column[:kl_steps], (s, near, is_first))
        cut = jax.lax.stop_gradient(s), self._detach(memory)
        return out._replace(kl=self._read_along(state, *cut, near, is_first, recurrent, key).kl)

    def _read_along(
        self,
        state: RetrievalState,
        s: Float[Array, "T d"],
        memory: Memory,
        near: Places | None,
        is_first: Bool[Array, " T"],
        recurrent: bool,
        key: Key,
    ) -> Reading:
        def step(
            state: RetrievalState,
            at: tuple[Float[Array, " d"], Bool[Array, ""], Key, Memory],
        ) -> tuple[RetrievalState, Reading]:
            s, first, key, similar = at
            start_key, read_key = (None, None) if key is None else jax.random.split(key)
            fresh = self.initial_state(start_key)
            if recurrent:
                fresh = jax.tree.map(lambda new, old: jnp.where(first, new, old), fresh, state)
            reading = self.process.read(fresh, s, memory if similar is None else similar, read_key)
            return reading.state, reading

        # The noise of a step does not depend on how many steps follow it.
        keys = None if key is None else jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(s.shape[0]))
        similar = None if near is None else jax.vmap(lambda n: readable(n, memory))(near)
        along = (s, is_first, keys, similar)
        if recurrent:
            return jax.lax.scan(step, state, along)[1]
        return jax.vmap(lambda *at: step(state, at)[1])(*along)

    def _deliver(self, s: Float[Array, " d"], reading: Reading) -> RetrievalOutput:
        delivered, u, slot_weight = self.process.deliver(s, reading.z)
        attended = Attended(reading.chosen.trajectory, reading.chosen.step, reading.weight, slot_weight)
        return RetrievalOutput(reading.state, delivered, reading.z, jax.lax.stop_gradient(reading.kl), attended, u)

    def _neighbours(self, s: Float[Array, " d"], memory: Memory) -> Places | None:
        """The states like the agent's own, if only those can be read. No slot has a say in it."""
        count = self.config.num_neighbours
        return nearest_states(s, memory, count) if count and memory is not None else None

    def _detach(self, memory: Memory) -> Memory:
        """The same memory, but with nothing upstream of the process's own parameters for a gradient to reach."""
        if memory is None:
            return None
        states, summaries = jax.lax.stop_gradient((memory.states, memory.summaries))
        keys, values = self._reader.keys_and_values(summaries)
        return memory._replace(states=states, summaries=summaries, keys=keys, values=values)

    @property
    def _reader(self) -> Reader:
        assert isinstance(self.process, Process | AgentQueryProcess)
        return self.process.reader


def readable(near: Places | None, memory: Memory) -> Memory:
    """What can be read: the whole memory, or nothing but some states of it."""
    return memory if near is None or memory is None else only(near, memory)


def located(reading: Reading, near: Places | None) -> Reading:
    """What was read, with its place in the whole memory."""
    if near is None:
        return reading
    number = reading.chosen.trajectory  # each neighbour is a trajectory of one step
    chosen = reading.chosen._replace(trajectory=near.trajectory[number], step=near.step[number])
    return reading._replace(chosen=chosen)


def summarise(
    summariser: Summariser, trajectories: Trajectory, states_along: StatesAlong
) -> tuple[Float[Array, "N L d"], Summaries]:
    """States and summaries of trajectories."""
    states = states_along(trajectories)
    return states, jax.vmap(summariser)(trajectories, states)


def one_teaches_in(trajectories: int, config: RetrievalConfig) -> int:
    """One in so many of a batch's trajectories teaches encoder and summariser."""
    every = config.trajectories // config.num_grad_trajectories if config.num_grad_trajectories else 1
    return 1 if trajectories % every else every


def without_every(every: int, column: Array) -> Array:
    """The rows between those of column[::every]."""
    groups = len(column) // every
    grouped = column.reshape(groups, every, *column.shape[1:])
    return grouped[:, 1:].reshape(len(column) - groups, *column.shape[1:])


def in_order(first: Array, rest: Array) -> Array:
    """The rows of column[::every] and those between them, together again."""
    grouped = rest.reshape(len(first), -1, *rest.shape[1:])
    return jnp.concatenate([first[:, None], grouped], axis=1).reshape(-1, *first.shape[1:])
