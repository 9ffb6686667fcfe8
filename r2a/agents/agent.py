"""Agent = encoder + core + retrieval + head: one step of it, and many."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from r2a.networks.cores import FeedForwardCore, RecurrentCore
from r2a.networks.encoders import Encoder
from r2a.networks.heads import Head
from r2a.networks.recurrent import previous_steps
from r2a.retrieval.module import Retrieval
from r2a.types import AgentOutput, AgentState, Frames, Key, Memory, Observation, RetrievalBatch, Trajectory


class Agent(eqx.Module):
    """X or RA-X: they differ in the variant of `retrieval`, and in nothing else."""

    encoder: Encoder
    core: FeedForwardCore | RecurrentCore
    retrieval: Retrieval
    head: Head

    def encode(self, batch: RetrievalBatch | None) -> tuple[Memory, dict[str, Float[Array, ""]]]:
        """A retrieval batch as this agent reads it, its memory; also the auxiliary losses of its summaries."""
        return self.retrieval.encode(batch, jax.vmap(self.states_along))

    def states_along(self, trajectory: Trajectory) -> Float[Array, "L d"]:
        """The agent states that the trajectory's observations, actions and rewards lead to."""
        t = trajectory
        frames = Frames(t.observation, t.instruction, *previous_steps(t.action, t.reward, t.is_first), t.is_first)
        x = self.encoder(t.observation, self.encode_instruction(t.instruction))
        core: Any = self.core.initial_state() if t.core is None else t.core
        return self.core.unroll(core, x, frames)[1]

    def encode_instruction(self, instruction: Shaped[Array, " w"]) -> Shaped[Array, " h"]:
        """The instruction in a vector, once for all the steps it holds for."""
        return self.encoder.encode_instruction(instruction)

    def initial_state(self, key: Key) -> AgentState:
        """The state at an episode's start; consumes `key`."""
        return AgentState(core=self.core.initial_state(), retrieval=self.retrieval.initial_state(key))

    def __call__(self, state: AgentState, frame: Frames, memory: Memory, key: Key) -> AgentOutput:
        """One step: encode, remember, retrieve, value. Consumes `key`; without one, z is the mean of its distribution.

        `frame.instruction` went through `encode_instruction`. A feed-forward agent carries nothing: its state stays.
        """
        core, s = self.core(state.core, self.encoder(frame.observation, frame.instruction), frame)
        retrieved = self.retrieval.step(state.retrieval, s, memory, key)
        after = AgentState(core, retrieved.state) if self.core.is_recurrent else state
        return AgentOutput(self.head(retrieved.s, retrieved.z), retrieved, after)

    def unroll(
        self,
        state: AgentState,
        frames: Frames,
        memory: Memory,
        key: Key,
        *,
        kl_steps: int = 0,
    ) -> AgentOutput:
        """The outputs at consecutive frames [T], and the state after the last; otherwise as a single step.

        Where an episode begins among them, the agent begins anew. `kl_steps`: see `Retrieval.unroll`.
        """
        recurrent = self.core.is_recurrent
        core, s = self.core.unroll(state.core, self.encoder(frames.observation, frames.instruction), frames)
        retrieved = self.retrieval.unroll(
            state.retrieval, s, memory, frames.is_first, recurrent=recurrent, key=key, kl_steps=kl_steps
        )
        last = jax.tree.map(lambda column: column[-1], retrieved.state)
        after = AgentState(core, last) if recurrent else state
        return AgentOutput(self.head(retrieved.s, retrieved.z), retrieved, after)


def only_seen(observation: Observation) -> Frames:
    """A single frame as a feed-forward agent takes it: all that counts is what is seen."""
    return Frames(observation, jnp.zeros(0, jnp.uint8), jnp.int32(-1), jnp.zeros(()), jnp.array(True))


def parameter_count(agent: Agent) -> int:
    """How many numbers are learnt."""
    return sum(leaf.size for leaf in jax.tree.leaves(agent))
