"""From an agent's output to an action, and an agent in many environments at once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.types import AgentState, Frames, Key, Memory


def epsilon_greedy(
    q_values: Float[Array, " A"], epsilon: float | Float[Array, ""], key: PRNGKeyArray
) -> Int[Array, ""]:
    """The best action, or with probability `epsilon` any; consumes `key`."""
    explore_key, action_key = jax.random.split(key)
    random_action = jax.random.randint(action_key, (), 0, q_values.shape[-1])
    explore = jax.random.uniform(explore_key) < epsilon
    return jnp.where(explore, random_action, jnp.argmax(q_values))


class Randomness(NamedTuple):
    """Where random numbers come from, at a step of the roll-out.

    An agent's state at an episode's start is drawn with a key of its row's own, or with the step's.
    """

    act: PRNGKeyArray
    start: Key = None
    step: int | Int[Array, ""] = 0


class Layout(NamedTuple):
    """How B rows lie: they are rows `first` to `first + B` of `rows` in all, B of them if that is 0.

    With `groups`, memory has an axis of its own for as many equal groups of rows; otherwise all rows read the same.
    Whose data are read is counted for so many `tasks`.
    """

    first: int = 0
    rows: int = 0
    groups: int = 0
    tasks: int = 0


class Acted(NamedTuple):
    """What all rows do; the states after it and whose data the rows gave weight to; the states before it as vectors."""

    action: Any
    carry: tuple[AgentState, Float[Array, "B tasks"]]
    before: Float[Array, "B size"]


@partial(jax.jit, static_argnames="layout", donate_argnames="carry")
def act(
    agent: Agent,
    carry: tuple[AgentState, Float[Array, "B tasks"]],
    frames: Frames,
    memory: Memory,
    epsilon: Float[Array, " B"],
    active: Bool[Array, " B"],
    randomness: Randomness,
    layout: Layout,
) -> Acted:
    """One step of all rows; where an episode begins, the agent begins with it. Consumes both keys.

    A continuous action is the mean of the heaviest component; among numbered ones, some are random.
    """
    (state, read), (first, rows, groups, tasks) = carry, layout

    def one(given: Any, memory: Memory) -> Acted:
        state, frame, epsilon, (start_key, act_key) = given
        fresh = agent.initial_state(start_key)
        state = jax.tree.map(lambda new, old: jnp.where(frame.is_first, new, old), fresh, state)
        output = agent(state, frame, memory, None)
        if agent.head.num_components:
            action = agent.head.mode(output.q_values)
        else:
            action = epsilon_greedy(output.q_values, epsilon, act_key)
        weight, selection = jnp.zeros(tasks), output.retrieved.attended
        if memory is not None and tasks:
            whose = jax.nn.one_hot(memory.task_id[selection.trajectory], tasks)
            weight = jnp.einsum("k,ks,kst->t", selection.slot_weight, selection.weight, whose)
        return Acted(action, (output.state, weight), stored_vector(state))

    count = len(epsilon)
    keys = jax.random.split(jax.random.fold_in(randomness.act, randomness.step), rows or count)
    if randomness.start is None:
        keys = tuple(jax.vmap(jax.random.split, out_axes=1)(keys))
    else:
        keys = jax.random.split(randomness.start, rows or count), keys
    given = (state, frames, epsilon, tuple(k[first : first + count] for k in keys))
    if groups:
        grouped = jax.tree.map(lambda leaf: leaf.reshape(groups, count // groups, *leaf.shape[1:]), given)
        acted = jax.vmap(jax.vmap(one, in_axes=(0, None)))(grouped, memory)
        acted = jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), acted)
    else:
        acted = jax.vmap(lambda row: one(row, memory))(given)
    state, weight = acted.carry
    return acted._replace(carry=(state, read + jnp.where(active[:, None], weight, 0.0)))


@jax.jit
def encode_instructions(agent: Agent, instruction: Array) -> Array:
    """What every row is told, as vectors."""
    return jax.vmap(agent.encode_instruction)(instruction)


def stored_vector(state: AgentState) -> Float[Array, " size"]:
    """An agent's state as the replay keeps it."""
    return ravel_pytree(state)[0]


class AgentPolicy:
    """An agent in every row of a roll-out (a `Policy`); its parameters and its memory may be exchanged on the way."""

    def __init__(
        self,
        agent: Agent,
        memory: Memory,
        epsilon: np.ndarray,
        randomness: Randomness,
        *,
        stack: int = 1,
        layout: Layout = Layout(),
    ):
        """`stack` frames make one observation."""
        self.agent, self.memory, self.epsilon = agent, memory, jnp.asarray(epsilon, jnp.float32)
        self.randomness, self.stack, self._layout = randomness, stack, layout
        self.frames: np.ndarray | None = None
        self.state: AgentState = jax.vmap(lambda _: agent.initial_state(None))(jnp.arange(len(epsilon)))
        self.read = jnp.zeros((len(epsilon), layout.tasks))
        self._instruction: Any = None

    def act(self, view: Any, step: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Actions, and what was in the agents' minds before: their states as the replay keeps them."""
        self.frames = self.look(view.observation, view.is_first)
        if self._instruction is None or (view.is_first.any() and view.instruction.shape[1]):
            self._instruction = encode_instructions(self.agent, jnp.asarray(view.instruction))
        seen = self.frames if self.stack > 1 else self.frames[:, 0]
        before = (view.previous_action, view.previous_reward, view.is_first)
        frames = Frames(jnp.asarray(seen), self._instruction, *map(jnp.asarray, before))
        randomness, active = self.randomness._replace(step=jnp.int32(step)), jnp.asarray(view.active)
        carry = (self.state, self.read)
        acted = act(self.agent, carry, frames, self.memory, self.epsilon, active, randomness, self._layout)
        self.state, self.read = acted.carry
        return np.asarray(acted.action), {"state": acted.before}

    def look(self, observation: np.ndarray, is_first: np.ndarray) -> np.ndarray:
        """The newest frames of every row; an episode's first frame is repeated."""
        newest = observation[:, None]
        if self.frames is None:
            return np.repeat(newest, self.stack, axis=1)
        frames = np.concatenate([self.frames[:, 1:], newest], axis=1)
        frames[is_first] = newest[is_first]
        return frames
