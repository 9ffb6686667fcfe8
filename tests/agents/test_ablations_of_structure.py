"""Every summariser, A-1, A-2 and A-3 learn: two tiny updates each."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import (
    ACTIONS,
    OBSERVATION,
    agent_config,
    draw_learning_batch,
    make_agent,
    make_learning_batch,
    run_updates,
)

from r2a.agents.agent import parameter_count
from r2a.agents.objectives import LearningBatch
from r2a.config import DataConfig
from r2a.data.retrieval_batch import EpisodeTable, ResidentData

ABLATIONS = {
    "GRU": {"summariser": "gru"},
    "transformer": {"summariser": "transformer"},
    "linear recurrence": {"summariser": "linear"},
    "A-1": {"variant": "agent_query", "summariser": "linear", "ranking": "attention"},
    "A-2": {"variant": "slots_only"},
    "A-2 with a transformer": {"variant": "slots_only", "slot_input": "transformer"},
    "plain": {"variant": "none"},
}


@pytest.mark.parametrize("changes", ABLATIONS.values(), ids=ABLATIONS.keys())
def test_two_updates(changes):
    agent = make_agent(agent_config(**changes))
    _, metrics = run_updates(agent, [make_learning_batch(0), make_learning_batch(1)])
    reads = changes.get("variant", "full") in ("full", "agent_query")
    for values in metrics:
        assert all(np.isfinite(value) for value in values.values()), values
        assert values["rl/loss"] > 0
        for name in ("retrieval/kl", "aux/action", "aux/value", "aux/reward"):
            assert (values[name] > 0) == reads, name


def test_two_updates_on_pieces_of_five_steps():
    """A-3: the episodes learnt from stay whole, what is summarised of those retrieved are five steps."""
    config = agent_config(length=5, summariser="linear")
    config = replace(config, retrieval=replace(config.retrieval, trajectories=3, k_traj=2))
    data, generator = DataConfig(num_tasks=2, tasks_per_step=2, batch_size=4), np.random.default_rng(0)
    episodes, steps = 12, 8
    resident = ResidentData(
        observation=jnp.asarray(generator.normal(size=(episodes, steps + 1, OBSERVATION)), jnp.float32),
        instruction=jnp.zeros((episodes, 0), jnp.uint8),
        action=jnp.asarray(generator.integers(0, ACTIONS, (episodes, steps)), jnp.int8),
        reward=jnp.asarray(generator.normal(size=(episodes, steps)), jnp.float32),
        length=jnp.asarray(generator.integers(1, steps + 1, episodes), jnp.int32),
        terminated=jnp.zeros(episodes, bool),
        task_id=jnp.repeat(jnp.arange(2), 6),
        episode_return=jnp.asarray(generator.normal(size=episodes), jnp.float32),
        learning=EpisodeTable(jnp.array([[0, 1, 2], [6, 7, 8]]), jnp.array([3, 3])),
        retrieval=EpisodeTable(jnp.array([[3, 4, 5], [9, 10, 11]]), jnp.array([3, 3])),
    )
    draw = jax.jit(lambda key: LearningBatch(*draw_learning_batch(resident, data, config.retrieval, key)))
    batches = [draw(jax.random.key(i)) for i in range(2)]
    assert batches[0].retrieval.trajectories.reward.shape == (2, 3, 5)
    _, metrics = run_updates(make_agent(config), batches)
    assert all(np.isfinite(value) for values in metrics for value in values.values())


def test_what_an_ablation_leaves_out_has_no_parameters():
    sizes = {
        name: parameter_count(make_agent(agent_config(**changes)))
        for name, changes in {"full": {}, "without IB": {"bottleneck": "identity"}, **ABLATIONS}.items()
    }
    assert sizes["plain"] < sizes["A-2"] < sizes["full"]
    assert sizes["without IB"] < sizes["full"]
    assert sizes["A-1"] < sizes["linear recurrence"]
