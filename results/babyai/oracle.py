"""What could be known from what an agent sees and remembers?

Missions played by its Q-values, by the vote of the nearest expert states, and by a linear readout of the expert's
actions; all on the agent's own states s.

    python results/babyai/oracle.py runs/sweep/laptop/ra_rdqn_multi-1000-0 [DATASET]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from r2a.data.dataset import find_dataset
from r2a.data.retrieval_batch import draw_mixed_batch, load_resident
from r2a.environments.babyai import level_index
from r2a.environments.babyai.worlds import Worlds
from r2a.networks.recurrent import previous_steps
from r2a.training.compilation import use_compilation_cache
from r2a.training.evaluate.sources import retrieval_at_test
from r2a.training.offline import load_run, read_config
from r2a.training.tasks import choose_tasks
from r2a.types import Frames

MISSIONS, STEPS, VOTERS = 24, 128, 10
use_compilation_cache()
folder = sys.argv[1]
config = read_config(folder)
config, dataset = choose_tasks(config, find_dataset(sys.argv[2] if len(sys.argv) > 2 else config.data.dataset))
agent = load_run(folder, dataset)[1].params
data = load_resident(dataset, config.data)
levels = dataset.task_names[: config.data.num_tasks]
words = data.told.shape[1]
encoded = agent.prepare(draw_mixed_batch(data, jnp.arange(len(levels)), retrieval_at_test(config), jax.random.key(3)))[
    0
]


@jax.jit
def states_of(observation, told, action, reward):
    """The agent's states along whole episodes."""

    def one(observation, told, action, reward):
        first = jnp.arange(len(action)) == 0
        frames = Frames(observation, agent.listen(told), *previous_steps(action, reward, first), first)
        return agent.states(agent.core.start(), frames)[1]

    return jax.vmap(one)(observation, told, action, reward)


@jax.jit
def step(state, observation, heard, action, reward, first):
    """All agents' next state s and Q-values."""

    def one(state, *frame):
        frame = Frames(*frame)
        seen = agent.core(state.core, agent.encoder(frame.observation, frame.told), frame)[1]
        output = agent(state, frame, encoded, None)
        return output.state, seen, output.q_values

    return jax.vmap(one)(state, observation, heard, action, reward, first)


def expert_states():
    """States s and actions of all episodes without noise."""
    columns, states, actions = dataset.columns, [], []
    rows = np.flatnonzero(np.asarray(columns["noise"]) == 0)
    length = np.asarray(columns["length"])
    for some in np.array_split(rows, max(1, len(rows) // 256)):
        told = np.asarray(columns["told"])[some][:, :words]
        action = np.asarray(columns["action"][some], np.int32)
        seen = states_of(columns["observation"][some][:, :-1], told, action, columns["reward"][some])
        there = np.arange(action.shape[1]) < length[some][:, None]
        states.append(np.asarray(seen)[there])
        actions.append(action[there])
    return np.concatenate(states), np.concatenate(actions)


def linear_readout(states, actions):
    """Weights of a softmax regression from states to actions."""
    inputs = jnp.concatenate([jnp.asarray(states), jnp.ones((len(states), 1))], axis=1)
    targets = jax.nn.one_hot(actions, 7)

    def loss(weights):
        return optax.softmax_cross_entropy(inputs @ weights, targets).mean() + 1e-5 * jnp.square(weights).sum()

    optimiser, weights = optax.lbfgs(), jnp.zeros((inputs.shape[1], 7))
    state, gradient = optimiser.init(weights), optax.value_and_grad_from_state(loss)

    @jax.jit
    def improve(weights, state):
        value, slope = gradient(weights, state=state)
        change, state = optimiser.update(slope, state, weights, value=value, grad=slope, value_fn=loss)
        return optax.apply_updates(weights, change), state

    for _ in range(150):
        weights, state = improve(weights, state)
    return np.asarray(weights)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def play(name, score):
    """The share of missions fulfilled where actions are those with the highest score of (s, Q)."""
    worlds = Worlds([level_index(level) for level in levels for _ in range(MISSIONS)])
    count = len(levels) * MISSIONS
    observation, mission = worlds.reset(range(50_000, 50_000 + count))
    heard = jax.vmap(agent.listen)(jnp.asarray(mission)[:, :words])
    state = jax.vmap(agent.start)(jax.random.split(jax.random.key(1), count))
    action, reward, fulfilled = np.full(count, -1, np.int32), np.zeros(count, np.float32), np.zeros(count)
    for number in range(STEPS):
        state, seen, q = step(state, observation, heard, action, reward, np.full(count, number == 0))
        action = score(np.asarray(seen), np.asarray(q)).argmax(-1).astype(np.int32)
        observation, paid, terminated, truncated = worlds.step(action)
        reward = paid.astype(np.float32)
        fulfilled[paid > 0] = 1.0
        if (terminated | truncated).all():
            break
    per_level = ", ".join(f"{x:.2f}" for x in fulfilled.reshape(len(levels), -1).mean(1))
    print(f"{name}: {fulfilled.mean():.3f} ({per_level})", flush=True)


def votes(seen):
    nearest = np.argpartition(-(unit(seen) @ directions.T), VOTERS - 1, axis=1)[:, :VOTERS]
    return np.stack([(actions[nearest] == action).mean(1) for action in range(7)], axis=-1)


states, actions = expert_states()
directions, weights = unit(states), linear_readout(states, actions)
play("Q-values", lambda seen, q: q)
play(f"vote of the nearest {VOTERS} of {len(actions)} expert states", lambda seen, q: votes(seen) + 1e-3 * q)
play("linear readout of the expert's action", lambda seen, q: seen @ weights[:-1] + weights[-1])
