"""Retrieval on its own, in somebody else's agent: an actor-critic that learns by PPO."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import ACTIONS, OBSERVATION, agent_config, make_retrieval_batch, named_arrays

from r2a.retrieval import Retrieval

STEPS, SIZE = 6, 9
VARIANTS = {
    "none": {"variant": "none"},
    "full": {"ranking": "attention"},
    "nearest states": {"ranking": "attention", "num_neighbours": 5},
    "agent_query": {"variant": "agent_query", "num_neighbours": 4},
    "slots_only": {"variant": "slots_only"},
    "auxiliary_only": {"variant": "auxiliary_only"},
}


class ActorCritic(eqx.Module):
    """Somebody's policy, with retrieval between its encoder and its heads."""

    encoder: eqx.nn.Linear
    retrieval: Retrieval
    actor: eqx.nn.Linear
    critic: eqx.nn.Linear

    def __init__(self, key, **retrieval):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.encoder = eqx.nn.Linear(OBSERVATION, SIZE, key=k1)
        self.retrieval = Retrieval(agent_config(summariser="linear", **retrieval).retrieval, SIZE, ACTIONS, k2)
        self.actor = eqx.nn.Linear(SIZE, ACTIONS, key=k3)
        self.critic = eqx.nn.Linear(SIZE, "scalar", key=k4)

    def encode(self, batch):
        return self.retrieval.encode(
            batch, lambda trajectories: jax.vmap(jax.vmap(self.encoder))(trajectories.observation)
        )


def act(policy, state, observation, memory):
    """One step of a roll-out."""
    out = policy.retrieval.step(state, policy.encoder(observation), memory, None)
    return out.state, policy.actor(out.s)


def ppo_loss(policy, batch, rollout, key):
    """PPO's clipped surrogate and value loss, retrieval's KL, and its auxiliary losses."""
    memory, auxiliary = policy.encode(batch)
    s, state = jax.vmap(policy.encoder)(rollout["observation"]), policy.retrieval.initial_state(key)
    out = policy.retrieval.unroll(state, s, memory, rollout["is_first"], recurrent=True, key=key, kl_steps=STEPS)
    log_probability = jax.nn.log_softmax(jax.vmap(policy.actor)(out.s))[jnp.arange(STEPS), rollout["action"]]
    ratio, advantage = jnp.exp(log_probability - rollout["log_probability"]), rollout["advantage"]
    surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage).mean()
    value_loss = jnp.square(jax.vmap(policy.critic)(out.s) - rollout["return"]).mean()
    return -surrogate + 0.5 * value_loss + 0.1 * out.kl.sum(-1).mean() + 0.1 * sum(auxiliary.values())


def make_rollout():
    generator = np.random.default_rng(0)
    return {
        "observation": jnp.asarray(generator.normal(size=(STEPS, OBSERVATION)), jnp.float32),
        "is_first": jnp.arange(STEPS) % 4 == 0,
        "action": jnp.asarray(generator.integers(0, ACTIONS, STEPS)),
        "log_probability": jnp.full(STEPS, -np.log(ACTIONS)),
        "advantage": jnp.asarray(generator.normal(size=STEPS), jnp.float32),
        "return": jnp.asarray(generator.normal(size=STEPS), jnp.float32),
    }


def test_ppo_with_retrieval_learns():
    policy, rollout, batch = ActorCritic(jax.random.key(0), ranking="attention"), make_rollout(), make_retrieval_batch()
    step = eqx.filter_jit(eqx.filter_value_and_grad(ppo_loss))
    first, gradients = step(policy, batch, rollout, jax.random.key(1))
    sizes = {name: np.abs(value).max() for name, value in named_arrays(gradients).items()}
    for part in ("encoder", "retrieval.summariser", "retrieval.auxiliary", "retrieval.process", "actor", "critic"):
        assert max(size for name, size in sizes.items() if name.startswith(part)) > 1e-6, part
    for _ in range(20):
        loss, gradients = step(policy, batch, rollout, jax.random.key(1))
        policy = eqx.apply_updates(policy, jax.tree.map(lambda gradient: -0.003 * gradient, gradients))
    assert float(loss) < float(first) - 0.1


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_variant_can_be_unrolled_and_gives_what_single_steps_give(changes):
    policy, rollout = ActorCritic(jax.random.key(0), **changes), make_rollout()
    memory, auxiliary = policy.encode(make_retrieval_batch())
    assert auxiliary.keys() == {"action", "value", "reward"}
    s, start = jax.vmap(policy.encoder)(rollout["observation"]), policy.retrieval.initial_state(None)
    together = policy.retrieval.unroll(start, s, memory, rollout["is_first"], recurrent=True, kl_steps=STEPS)
    step = eqx.filter_jit(lambda state, s: policy.retrieval.step(state, s, memory, None))
    for t in range(STEPS):
        alone = step(start if rollout["is_first"][t] else alone.state, s[t])
        for one, two in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_allclose(one, two[t], rtol=1e-5, atol=1e-5)
    _, logits = act(policy, start, rollout["observation"][0], memory)
    np.testing.assert_allclose(logits, policy.actor(together.s[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("recurrent", [True, False])
@pytest.mark.parametrize("neighbours", [0, 5])
def test_the_kl_moves_the_process_alone_and_only_where_it_is_asked_for(recurrent, neighbours):
    policy = ActorCritic(jax.random.key(0), ranking="attention", num_neighbours=neighbours)
    rollout, batch, key = make_rollout(), make_retrieval_batch(), jax.random.key(2)

    def kl(policy, kl_steps):
        s, state = jax.vmap(policy.encoder)(rollout["observation"]), policy.retrieval.initial_state(key)
        first, memory = rollout["is_first"], policy.encode(batch)[0]
        return policy.retrieval.unroll(state, s, memory, first, recurrent=recurrent, key=key, kl_steps=kl_steps).kl

    asked, watched = (eqx.filter_jit(kl)(policy, steps) for steps in (4, 0))
    assert asked.shape[0] == 4
    np.testing.assert_allclose(asked, watched[:4], rtol=1e-4)
    for steps, moved in ((4, {"retrieval.process"}), (0, set())):
        gradients = eqx.filter_jit(eqx.filter_grad(lambda p, steps=steps: kl(p, steps).sum()))(policy)
        sizes = {name: np.abs(value).max() for name, value in named_arrays(gradients).items()}
        assert {".".join(name.split(".")[:2]) for name, size in sizes.items() if size > 0} == moved
