"""Agents in many lanes, acting together: what they did becomes rows of the replay."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int, PRNGKeyArray, Shaped

from r2a.agents.actor import epsilon_greedy
from r2a.agents.agent import Agent
from r2a.config import ActingConfig
from r2a.environments.lanes import Lanes
from r2a.training.online.batches import stored_vector
from r2a.types import AgentState, EncodedBatch, Frames


class Chunk(NamedTuple):
    """Consecutive rows of every lane, as `SequenceReplay.add` takes them."""

    observation: Shaped[np.ndarray, "lanes n ..."]
    action: Int[np.ndarray, "lanes n"]
    reward: Float32[np.ndarray, "lanes n"]
    discount: Float32[np.ndarray, "lanes n"]
    is_first: Bool[np.ndarray, "lanes n"]
    is_last: Bool[np.ndarray, "lanes n"]
    state: Float32[np.ndarray, "lanes n size"]
    present: Bool[np.ndarray, "lanes n"]


class ActorState(NamedTuple):
    """Where acting is: what every lane sees and did just before, and what its agent carries."""

    frames: Shaped[np.ndarray, "lanes stack ..."]
    action: Int[np.ndarray, " lanes"]
    reward: Float32[np.ndarray, " lanes"]
    is_first: Bool[np.ndarray, " lanes"]
    agent: AgentState


def epsilon_ladder(config: ActingConfig) -> Float32[np.ndarray, " lanes"]:
    """Each lane's share of random actions: epsilon ^ (1 + exponent i / (lanes - 1)) (Ape-X, R2D2)."""
    rung = np.arange(config.lanes) / max(config.lanes - 1, 1)
    return (config.epsilon ** (1.0 + config.epsilon_exponent * rung)).astype(np.float32)


@partial(jax.jit, donate_argnames="state")
def act(
    agent: Agent,
    state: AgentState,
    frames: Frames,
    encoded: EncodedBatch | None,
    epsilon: Float[Array, " lanes"],
    key: PRNGKeyArray,
) -> tuple[Int[Array, " lanes"], AgentState, Float[Array, "lanes size"]]:
    """One action of every lane, the agents' states after it, and those before it as the replay keeps them.

    Consumes `key`. Where an episode begins, the agent begins with it.
    """

    def one(state: AgentState, frame: Frames, epsilon: Array, key: PRNGKeyArray) -> tuple[Array, AgentState, Array]:
        start_key, act_key = jax.random.split(key)
        state = jax.tree.map(
            lambda new, old: jnp.where(frame.is_first, new, old), agent.initial_state(start_key), state
        )
        output = agent(state, frame, encoded, None)
        return epsilon_greedy(output.q_values, epsilon, act_key), output.state, stored_vector(state)

    return jax.vmap(one)(state, frames, epsilon, jax.random.split(key, epsilon.shape[0]))


class Actors:
    """Lanes and the agents in them."""

    def __init__(self, lanes: Lanes, stack: int, epsilon: Float32[np.ndarray, " lanes"], agent: Agent):
        self.lanes, self.epsilon = lanes, jnp.asarray(epsilon)
        observation = lanes.reset()
        count = lanes.num_lanes
        self.standing = ActorState(
            frames=np.repeat(observation[:, None], stack, axis=1),
            action=np.full(count, -1, np.int32),
            reward=np.zeros(count, np.float32),
            is_first=np.ones(count, bool),
            agent=jax.vmap(lambda _: agent.initial_state(None))(jnp.arange(count)),
        )

    def play(self, agent: Agent, encoded: EncodedBatch | None, steps: int, key: PRNGKeyArray, first_step: int) -> Chunk:
        """Some steps of every lane; their randomness is a function of `key` and of the steps' numbers.

        A lane whose episode ends takes one row more, for what it saw last, and goes on with the next episode.
        """
        rows: list[tuple[np.ndarray, ...]] = []
        for number in range(first_step, first_step + steps):
            before = self.standing
            seen = self._frames()
            action, state, stored = act(
                agent, before.agent, seen, encoded, self.epsilon, jax.random.fold_in(key, number)
            )
            chosen = np.asarray(action)
            step = self.lanes.step(chosen)
            everywhere, nowhere = np.ones(len(chosen), bool), np.zeros(len(chosen), bool)
            discount = 1.0 - step.terminated.astype(np.float32)
            stored = np.asarray(stored)
            rows.append(
                (before.frames[:, -1], chosen, step.reward, discount, before.is_first, nowhere, stored, everywhere)
            )
            observation, ended = step.observation, step.ended
            if ended.any():
                rows.append((observation, chosen, step.reward, discount, nowhere, everywhere, stored, step.truncated))
                observation = self.lanes.restart(ended)
            self.standing = ActorState(
                frames=self._look(observation, ended),
                action=np.where(ended, -1, chosen).astype(np.int32),
                reward=np.where(ended, 0.0, step.reward).astype(np.float32),
                is_first=ended,
                agent=state,
            )
        return Chunk(*(np.stack(column, axis=1) for column in zip(*rows, strict=True)))

    def _frames(self) -> Frames:
        standing = self.standing
        stacked = standing.frames if standing.frames.shape[1] > 1 else standing.frames[:, 0]
        instruction = jnp.zeros((len(standing.action), 0), jnp.uint8)
        before = (standing.action, standing.reward, standing.is_first)
        return Frames(jnp.asarray(stacked), instruction, *map(jnp.asarray, before))

    def _look(self, observation: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """The newest frames of every lane; an episode's first frame is repeated."""
        frames = np.concatenate([self.standing.frames[:, 1:], observation[:, None]], axis=1)
        frames[begins] = observation[begins][:, None]
        return frames
