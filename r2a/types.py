"""The central types: arrays only, written without a batch axis.

Axis letters, used in every shape of the package:
N trajectories, L steps of a trajectory, K slots, S selected states per slot, T unrolled steps, A actions, w words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

Observation = PyTree[Array]
Key = PRNGKeyArray | None
"""Where there is none, nothing is random."""
Action = Shaped[Array, "..."]
"""Numbers of a list, as integers (-1: none), or vectors within [-1, 1], as floats with a last axis of their own."""


def is_continuous(action: Action) -> bool:
    """Whether actions are vectors, the last axis being theirs."""
    return jnp.issubdtype(action.dtype, jnp.floating)


def none_where(nothing: Bool[Array, "*b"], action: Action) -> Action:
    """The same actions, with none at all where `nothing` says so."""
    return jnp.where(nothing[..., None], 0.0, action) if is_continuous(action) else jnp.where(nothing, -1, action)


class Frames(NamedTuple):
    """What an agent is given step by step: what it sees, and what it did and got just before (or nothing).

    `instruction` holds for all of these steps, word by word: it has no axis of time.
    """

    observation: Observation
    instruction: Shaped[Array, "*c w"]
    previous_action: Action
    previous_reward: Float[Array, "*b"]
    is_first: Bool[Array, "*b"]

    def at(self, steps: Any) -> Frames:
        """Some of the steps."""
        cut = jax.tree.map(lambda column: column[steps], self._replace(instruction=()))
        return cut._replace(instruction=self.instruction)


class Sequence(NamedTuple):
    """T consecutive steps as a learner sees them; `discount` is 0 where the episode terminated, else 1.

    The frames begin with those of the burn-in, if there is one, and end with the frame after the last step. T is 1
    for agents that are not recurrent. `initial_state` is what the agent carried to the first frame, if that was stored.
    """

    frames: Frames
    action: Action
    reward: Float[Array, "*b T"]
    discount: Float[Array, "*b T"]
    valid: Bool[Array, "*b T"]
    initial_state: AgentState | None = None


class Trajectory(NamedTuple):
    """Consecutive steps of one episode: in row t the agent saw `observation`, did `action`, got `reward`."""

    observation: Observation
    instruction: Shaped[Array, "*b w"]
    """Of the whole episode: words, or none at all."""
    action: Action
    reward: Float[Array, "*b L"]
    discount: Float[Array, "*b L"]
    """0 where the episode terminated, else 1."""
    valid: Bool[Array, "*b L"]
    is_first: Bool[Array, "*b L"]
    task_id: Int[Array, "*b"]
    trajectory_id: Int[Array, "*b"]
    core: PyTree[Array] | None = None
    """What the agent's core held before the first step, where that was stored."""


class RetrievalBatch(NamedTuple):
    """The sample of the data set that retrieval reads from (Sec. 2.2)."""

    trajectories: Trajectory
    returns: Float[Array, "*b N"]


class Summaries(NamedTuple):
    """What each step knows of its trajectory: `past` is the paper's h, `future` is b."""

    past: Float[Array, "*M N L d"]
    future: Float[Array, "*M N L d"]


class EncodedBatch(NamedTuple):
    """A retrieval batch ready to be read, the `memory` of those who read it; made once per batch and parameters."""

    states: Float[Array, "*M N L d"]
    summaries: Summaries
    keys: Float[Array, "*M N L d_e"]
    values: Float[Array, "*M N L d_m"]
    valid: Bool[Array, "*M N L"]
    """Where there is a state: trajectories are not equally long."""
    trajectory_id: Int[Array, "*M N"]
    task_id: Int[Array, "*M N"]


Memory = EncodedBatch | None
"""What an agent reads; None for those that read nothing."""


class RetrievalState(NamedTuple):
    """The slots m, what each of them read last (z), and the steps since the episode began."""

    slots: Float[Array, "K d_m"]
    last_read: Float[Array, "K d_m"]
    age: Int[Array, ""]


class Attended(NamedTuple):
    """What was read: the place and weight of every chosen state, never the full attention; and each slot's weight."""

    trajectory: Int[Array, "K S"]
    step: Int[Array, "K S"]
    weight: Float[Array, "K S"]
    slot_weight: Float[Array, " K"]


class RetrievalOutput(NamedTuple):
    """One step of Algorithm 1, or T: `s` is the agent state with what was read, `kl` the bottleneck's cost per slot."""

    state: RetrievalState
    s: Float[Array, " d"]
    z: Float[Array, "K d_m"]
    kl: Float[Array, " K"]
    attended: Attended
    u: Float[Array, " d"]


class AgentState(NamedTuple):
    """Everything an agent carries from step to step; an episode's start resets all of it."""

    core: PyTree[Array]
    retrieval: RetrievalState


class AgentOutput(NamedTuple):
    """Q-values (or the parameters of an action distribution), what was retrieved for them, and the state after."""

    q_values: Float[Array, " A"]
    retrieved: RetrievalOutput
    state: AgentState


class LearnerState(NamedTuple):
    """All that an update reads and writes: saving it and the run's config is saving the run."""

    params: PyTree[Array]
    target_params: PyTree[Array]
    optimiser: PyTree[Array]
    step: Int[Array, ""]
    key: PyTree[Array]
