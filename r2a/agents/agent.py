"""Agent = encoder + memory + retrieval + head: one step of it, and many."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from r2a.networks.cores import Memory, NoMemory
from r2a.networks.encoders import InstructedEncoder, VectorEncoder
from r2a.networks.heads import Head
from r2a.networks.pixels import PixelEncoder
from r2a.networks.recurrent import previous_steps
from r2a.retrieval.selection import Nearby, only
from r2a.retrieval.variants import NoRetrieval, Retrieval, SlotsOnly
from r2a.types import (
    AgentOutput,
    AgentState,
    EncodedBatch,
    Frames,
    Observation,
    Reading,
    RetrievalBatch,
    RetrievalState,
    Retrieved,
    Trajectory,
)

Encoder = VectorEncoder | InstructedEncoder | PixelEncoder


class UnrollOutput(NamedTuple):
    """An agent along T consecutive frames: what it puts out, its states, what it could read, and what it read."""

    outputs: Float[Array, "T A"]
    states: Float[Array, "T d"]
    near: Nearby | None
    retrieved: Retrieved
    memory: Any
    """After the last of the frames."""


class Valued(NamedTuple):
    """What Q-learning asks of an agent along T + 1 frames: values at the first T, and those one frame later."""

    q_values: Float[Array, "T A"]
    next_q_values: Float[Array, "T A"]
    states: Float[Array, "T d"]
    near: Nearby | None
    retrieved: Retrieved


class Agent(eqx.Module):
    """X or RA-X: they differ in what sits in the place of `retrieval`, and in nothing else."""

    encoder: Encoder
    core: NoMemory | Memory
    retrieval: Retrieval | SlotsOnly | NoRetrieval
    head: Head

    def prepare(self, batch: RetrievalBatch | None) -> tuple[EncodedBatch | None, dict[str, Float[Array, ""]]]:
        """Encode a retrieval batch with this agent's parameters; also the auxiliary losses of its summaries."""
        return self.retrieval.prepare(batch, jax.vmap(self.states_along))

    def states_along(self, trajectory: Trajectory) -> Float[Array, "L d"]:
        """The agent states that the trajectory's observations, actions and rewards lead to."""
        t = trajectory
        frames = Frames(t.observation, t.instruction, *previous_steps(t.action, t.reward, t.is_first), t.is_first)
        memory = self.core.start() if t.memory is None else t.memory
        return self.states(memory, frames._replace(instruction=self.encode_instruction(t.instruction)))[1]

    def encode_instruction(self, instruction: Shaped[Array, " w"]) -> Shaped[Array, " h"]:
        """The instruction in a vector, once for all the steps it holds for."""
        return self.encoder.encode_instruction(instruction)

    def start(self, key: PRNGKeyArray | None) -> AgentState:
        """The state at an episode's start; consumes `key`."""
        return AgentState(core=self.core.start(), retrieval=self.retrieval.start(key))

    def __call__(
        self, state: AgentState, frame: Frames, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> AgentOutput:
        """One step: encode, remember, retrieve, value. Consumes `key`; without one, z is the mean of its distribution.

        `frame.instruction` went through `encode_instruction`. A feed-forward agent carries nothing: its state stays.
        """
        memory, s = self.core(state.core, self.encoder(frame.observation, frame.instruction), frame)
        near = self.retrieval.nearby(s, encoded)
        reading = self.retrieval.read(state.retrieval, s, readable(near, encoded), key)
        retrieved = self.retrieval.deliver(s, located(reading, near))
        after = AgentState(memory, retrieved.state) if self.core.is_recurrent else state
        return AgentOutput(self.head(retrieved.agent_state, retrieved.z), retrieved, after)

    def states(self, memory: Any, frames: Frames) -> tuple[Any, Float[Array, "T d"]]:
        """The agent states s of consecutive frames, and the memory after the last."""
        return self.core.unroll(memory, self.encoder(frames.observation, frames.instruction), frames)

    def read(
        self,
        state: RetrievalState,
        s: Float[Array, "T d"],
        is_first: Bool[Array, " T"],
        encoded: EncodedBatch | None,
        near: Nearby | None,
        key: PRNGKeyArray | None,
    ) -> Reading:
        """What is read along consecutive agent states; consumes `key`, without which nothing is random.

        Slots go on from step to step and start afresh with an episode; those of a feed-forward agent, with every step.
        """

        def step(
            state: RetrievalState,
            at: tuple[Float[Array, " d"], Bool[Array, ""], PRNGKeyArray | None, EncodedBatch | None],
        ) -> tuple[RetrievalState, Reading]:
            s, first, key, similar = at
            start_key, read_key = (None, None) if key is None else jax.random.split(key)
            fresh = self.retrieval.start(start_key)
            if self.core.is_recurrent:
                fresh = jax.tree.map(lambda new, old: jnp.where(first, new, old), fresh, state)
            reading = self.retrieval.read(fresh, s, similar or encoded, read_key)
            return reading.state, reading

        # The noise of a step does not depend on how many steps follow it.
        keys = None if key is None else jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(s.shape[0]))
        similar = None if near is None else jax.vmap(lambda n: readable(n, encoded))(near)
        along = (s, is_first, keys, similar)
        if self.core.is_recurrent:
            readings = jax.lax.scan(step, state, along)[1]
        else:
            readings = jax.vmap(lambda *at: step(state, at)[1])(*along)
        return jax.vmap(located)(readings, near)

    def nearby(self, s: Float[Array, "T d"], encoded: EncodedBatch | None) -> Nearby | None:
        """For consecutive agent states, the states that can be read, if not all can."""
        return jax.vmap(lambda at: self.retrieval.nearby(at, encoded))(s)

    def deliver(self, s: Float[Array, "T d"], readings: Reading) -> Retrieved:
        """What was read along consecutive agent states, delivered to all of them at once."""
        return jax.vmap(self.retrieval.deliver)(s, readings)

    def follow(
        self, state: AgentState, frames: Frames, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> UnrollOutput:
        """All of this agent along consecutive frames [T]; consumes `key`, without which nothing is random."""
        memory, s = self.states(state.core, frames)
        near = self.nearby(s, encoded)
        retrieved = self.deliver(s, self.read(state.retrieval, s, frames.is_first, encoded, near, key))
        return UnrollOutput(self.head(retrieved.agent_state, retrieved.z), s, near, retrieved, memory)

    def unroll(
        self, state: AgentState, frames: Frames, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> AgentOutput:
        """The outputs at consecutive frames [T], and the state after the last; otherwise as a single step."""
        outputs, _, _, retrieved, memory = self.follow(state, frames, encoded, key)
        last = jax.tree.map(lambda column: column[-1], retrieved.state)
        after = AgentState(memory, last if self.core.is_recurrent else state.retrieval)
        return AgentOutput(outputs, retrieved, after)

    def values(
        self, state: AgentState, frames: Frames, encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> Valued:
        """Values to learn, and values to bootstrap from, which carry no gradient; consumes `key`.

        A memory has to go through all frames one by one. Without one the two kinds of values have nothing in common:
        those to bootstrap from are had without noise, and at a third of the cost.
        """
        learnt = frames if self.core.is_recurrent else frames.at(slice(-1))
        q, s, near, retrieved, _ = self.follow(state, learnt, encoded, key)
        if not self.core.is_recurrent:
            later = self.unroll(state, frames.at(slice(1, None)), encoded, None).q_values
            return Valued(q, jax.lax.stop_gradient(later), s, near, retrieved)
        s, near, retrieved = jax.tree.map(lambda column: column[:-1], (s, near, retrieved))
        return Valued(q[:-1], jax.lax.stop_gradient(q[1:]), s, near, retrieved)


def readable(near: Nearby | None, encoded: EncodedBatch | None) -> EncodedBatch | None:
    """What can be read: the whole retrieval batch, or nothing but some states of it."""
    return encoded if near is None or encoded is None else only(near, encoded)


def located(reading: Reading, near: Nearby | None) -> Reading:
    """What was read, with its place in the whole retrieval batch."""
    if near is None:
        return reading
    return reading._replace(trajectory=near.trajectory[reading.trajectory], step=near.step[reading.trajectory])


def only_seen(observation: Observation) -> Frames:
    """A single frame as a feed-forward agent takes it: all that counts is what is seen."""
    return Frames(observation, jnp.zeros(0, jnp.uint8), jnp.int32(-1), jnp.zeros(()), jnp.array(True))


def parameter_count(agent: Agent) -> int:
    """How many numbers are learnt."""
    return sum(leaf.size for leaf in jax.tree.leaves(agent))
