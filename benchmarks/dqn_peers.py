"""Other people's DQN, one worker each: sample a batch, update; runs in the environment of `make bench-setup`.

Every peer does the same update: double Q, Huber (rejax: squared) loss, Adam, two hidden layers of ReLU. Where a peer
ships another rule for the target, `NAME_single_q` is the peer as shipped and NAME has the double rule put in its
place; everything else is the peer's own code, down to its replay buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workers import serve, timed

OBSERVATION, ACTIONS, TRANSITIONS = 11, 7, 50_000
LEARNING_RATE = 3e-4
Work = Callable[[], Any]


def transitions() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Observations, actions, rewards and next observations of the size and range of gridroboman's."""
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 7, (TRANSITIONS + 1, OBSERVATION)).astype(np.float32)
    actions = rng.integers(0, ACTIONS, TRANSITIONS)
    return observations[:-1], actions, rng.normal(size=TRANSITIONS).astype(np.float32), observations[1:]


def _sb3_model(algorithm: Any, width: int, batch: int) -> Any:
    """A model of stable-baselines3 or of SBX, with a full replay buffer."""
    import gymnasium as gym
    from stable_baselines3.common.logger import Logger

    class Spaces(gym.Env):
        observation_space = gym.spaces.Box(0.0, 7.0, (OBSERVATION,), np.float32)
        action_space = gym.spaces.Discrete(ACTIONS)

    policy = {"net_arch": [width, width]}
    model = algorithm("MlpPolicy", Spaces(), LEARNING_RATE, TRANSITIONS, batch_size=batch, policy_kwargs=policy)
    model.set_logger(Logger(None, []))
    buffer = model.replay_buffer
    observations, actions, rewards, following = transitions()
    buffer.observations[:, 0], buffer.next_observations[:, 0] = observations, following
    buffer.actions[:, 0, 0], buffer.rewards[:, 0] = actions, rewards
    buffer.pos, buffer.full = 0, True
    return model


def sb3_single_q(width: int, batch: int, updates: int) -> Work:
    """Stable-baselines3 as shipped."""
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    model = _sb3_model(DQN, width, batch)
    return lambda: model.train(gradient_steps=updates, batch_size=batch)


def sb3(width: int, batch: int, updates: int) -> Work:
    """Stable-baselines3; its maximum over the target's values finds one value, that of the online network's choice."""
    import torch
    from stable_baselines3 import DQN

    class Chosen(torch.nn.Module):
        def __init__(self, online: Any, target: Any):
            super().__init__()
            self.online, self.target = online, target

        def forward(self, observation: Any) -> Any:
            return self.target(observation).gather(1, self.online(observation).argmax(1, keepdim=True))

    torch.set_num_threads(1)
    model = _sb3_model(DQN, width, batch)
    model.q_net_target = Chosen(model.q_net, model.q_net_target)
    return lambda: model.train(gradient_steps=updates, batch_size=batch)


def sbx_single_q(width: int, batch: int, updates: int) -> Work:
    """SBX as shipped; it compiles the loop over the updates of a call."""
    from sbx import DQN

    model = _sb3_model(DQN, width, batch)
    return lambda: model.train(batch, updates)


def sbx(width: int, batch: int, updates: int) -> Work:
    """SBX with `update_qnetwork` as it is but for the target's two lines."""
    import jax
    import jax.numpy as jnp
    import optax
    from sbx import DQN

    def update(state, observations, replay_actions, next_observations, rewards, dones, discounts):
        best = state.apply_fn(state.params, next_observations).argmax(axis=1, keepdims=True)
        values = state.apply_fn(state.target_params, next_observations)
        bootstrap = jnp.take_along_axis(values, best, axis=1)
        target = rewards[:, None] + (1 - dones[:, None]) * discounts[:, None] * bootstrap

        def loss(params):
            q = jnp.take_along_axis(state.apply_fn(params, observations), replay_actions, axis=1)
            return optax.huber_loss(q, target).mean(), q.mean()

        outcome, grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads), outcome

    DQN.update_qnetwork = staticmethod(jax.jit(update))
    return sbx_single_q(width, batch, updates)


def cleanrl_style(width: int, batch: int, updates: int) -> Work:
    """As CleanRL's dqn_jax.py: sample with numpy, one compiled update; its tricks are those of a single file."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax
    from flax.training.train_state import TrainState

    class QNetwork(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Dense(width)(x))
            x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(ACTIONS)(x)

    network, rng, columns = QNetwork(), np.random.default_rng(0), transitions()
    params = network.init(jax.random.key(0), columns[0][:1])
    state = TrainState.create(apply_fn=network.apply, params=params, tx=optax.adam(LEARNING_RATE))

    @jax.jit
    def update(state, target_params, observation, action, reward, following):
        best = network.apply(state.params, following).argmax(-1)
        bootstrap = network.apply(target_params, following)[jnp.arange(batch), best]

        def loss(params):
            q = network.apply(params, observation)[jnp.arange(batch), action]
            return optax.huber_loss(q, reward + 0.99 * bootstrap).mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return value, state.apply_gradients(grads=grads)

    def work() -> None:
        nonlocal state
        for _ in range(updates):
            rows = rng.integers(0, TRANSITIONS, batch)
            _, state = update(state, params, *(column[rows] for column in columns))
        jax.block_until_ready(state)

    return work


def rejax(width: int, batch: int, updates: int) -> Work:
    """rejax's own replay buffer and update (double Q is its default), in one compiled loop as in its training."""
    import jax
    import jax.numpy as jnp
    from flax import linen, struct
    from flax.training.train_state import TrainState
    from optax import adam, chain, clip
    from rejax import DQN
    from rejax.buffers import Minibatch, ReplayBuffer
    from rejax.networks import DiscreteQNetwork, EpsilonGreedyPolicy

    class State(struct.PyTreeNode):
        q_ts: TrainState
        q_target_params: Any

    network = EpsilonGreedyPolicy(DiscreteQNetwork)(
        hidden_layer_sizes=(width, width), action_dim=ACTIONS, activation=linen.relu
    )
    algorithm = DQN.create(env="CartPole-v1", batch_size=batch).replace(agent=network)
    observations, actions, rewards, following = map(jnp.asarray, transitions())
    params = network.init(jax.random.key(0), observations[:1])
    optimiser = chain(clip(algorithm.max_grad_norm), adam(LEARNING_RATE))
    state = State(TrainState.create(apply_fn=(), params=params, tx=optimiser), params)
    columns = Minibatch(observations, actions, rewards, jnp.zeros(TRANSITIONS, bool), following)
    buffer = ReplayBuffer(size=TRANSITIONS, data=columns, index=0, full=True)
    key = jax.random.key(1)

    @jax.jit
    def train(state, buffer, key):
        def step(_, carry):
            state, key = carry
            key, sample_key = jax.random.split(key)
            return algorithm.update(state, buffer.sample(batch, sample_key)), key

        return jax.lax.fori_loop(0, updates, step, (state, key))

    def work() -> None:
        nonlocal state, key
        state, key = jax.block_until_ready(train(state, buffer, key))

    return work


def d3rlpy(width: int, batch: int, updates: int) -> Work:
    """d3rlpy's DoubleDQN (Huber loss) on its own replay buffer, as its `fit` does without the logging."""
    import torch
    from d3rlpy.algos import DoubleDQNConfig
    from d3rlpy.constants import ActionSpace
    from d3rlpy.dataset import MDPDataset
    from d3rlpy.models import VectorEncoderFactory

    torch.set_num_threads(1)
    observations, actions, rewards, _ = transitions()
    ends = (np.arange(TRANSITIONS) % 50 == 49).astype(np.float32)
    columns = {"observations": observations, "actions": actions[:, None], "rewards": rewards[:, None]}
    dataset = MDPDataset(
        **columns, terminals=np.zeros_like(ends), timeouts=ends, action_space=ActionSpace.DISCRETE, action_size=ACTIONS
    )
    encoder = VectorEncoderFactory([width, width])
    config = DoubleDQNConfig(batch_size=batch, learning_rate=LEARNING_RATE, encoder_factory=encoder)
    algorithm = config.create(device="cpu:0")
    algorithm.build_with_dataset(dataset)

    def work() -> None:
        for _ in range(updates):
            algorithm.update(dataset.sample_transition_batch(batch))

    return work


def tianshou(width: int, batch: int, updates: int) -> Work:
    """tianshou's DQN (double Q is its default) with its own buffer."""
    import gymnasium as gym
    import torch
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.common import Net
    from tianshou.utils.torch_utils import policy_within_training_step

    torch.set_num_threads(1)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(OBSERVATION,), action_shape=ACTIONS, hidden_sizes=(width, width)),
        action_space=gym.spaces.Discrete(ACTIONS),
    )
    adam = AdamOptimizerFactory(lr=LEARNING_RATE)
    algorithm = DQN(policy=policy, optim=adam, target_update_freq=2500, huber_loss_delta=1.0)
    observations, actions, rewards, following = transitions()
    ends = np.arange(TRANSITIONS) % 50 == 49
    nothing = np.zeros(TRANSITIONS, bool)
    buffer = ReplayBuffer(TRANSITIONS)
    buffer.set_batch(
        Batch(
            obs=observations,
            act=actions,
            rew=rewards,
            terminated=nothing,
            truncated=ends,
            done=ends,
            obs_next=following,
            info=Batch(),
        )
    )
    buffer._size = TRANSITIONS

    def work() -> None:
        with policy_within_training_step(policy):
            for _ in range(updates):
                algorithm.update(buffer=buffer, sample_size=batch)

    return work


PEERS = {work.__name__: work for work in (sb3, sbx, cleanrl_style, rejax, d3rlpy, tianshou)}
AS_SHIPPED = {work.__name__: work for work in (sb3_single_q, sbx_single_q)}

if __name__ == "__main__":
    name, *sizes = sys.argv[1:]
    layer, rows, count = map(int, sizes)
    serve(timed((PEERS | AS_SHIPPED)[name](layer, rows, count), count))
