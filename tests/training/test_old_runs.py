"""Runs of earlier versions can still be loaded: settings and parameters under the names that they had."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from small import agent_config, make_agent

from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning
from r2a.config import RunConfig, config_from_dict
from r2a.environments.gridroboman import SPEC
from r2a.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from r2a.training.offline import read_config
from r2a.training.online.train import load_run

RUNS = Path(__file__).parent.parent / "golden" / "runs"


def test_an_old_offline_run_is_loaded():
    folder = RUNS / "old_offline"
    config, checkpoint = read_config(folder), latest_checkpoint(folder)

    def start():
        agent = build_agent(config.agent, SPEC.observation_shape, SPEC.num_actions, jax.random.key(0))
        return start_learning(agent, config.learner, jax.random.key(1))

    state, _ = load_checkpoint(checkpoint, jax.eval_shape(start))
    assert int(state.step) == 20
    assert config.learner.loss == "q_learning"
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_an_old_online_run_is_loaded():
    run = load_run(RUNS / "old_online")
    assert run.steps == 200
    assert run.config.learner.loss == "squashed_q_lambda"
    assert run.encoded is not None


@pytest.mark.parametrize(
    ("old", "loss"),
    [
        ({"objective": "q_learning", "returns": "one_step"}, "q_learning"),
        ({"objective": "q_learning", "returns": "squashed_lambda"}, "squashed_q_lambda"),
        ({"objective": "cloning", "returns": "one_step"}, "cloning"),
        ({"returns": "squashed_lambda"}, "squashed_q_lambda"),
        ({"loss": "cloning"}, "cloning"),
        ({}, "q_learning"),
    ],
)
def test_objective_and_returns_are_one_loss(old, loss):
    assert config_from_dict(RunConfig, {"learner": old}).learner.loss == loss


class OldSlots(NamedTuple):
    slot_start: Any
    slot_input: Any
    slot_update: Any
    agent_update: Any


class OldAgent(NamedTuple):
    retrieval: Any


def test_slots_that_read_nothing_had_no_process(tmp_path):
    agent = make_agent(agent_config(variant="slots_only"))
    process = agent.retrieval.process
    old = OldAgent(OldSlots(process.start, process.slot_input, process.slot_update, process.agent_update))
    folder = save_checkpoint(tmp_path, old, step=1, config={})
    new, _ = load_checkpoint(folder, OldAgent(agent.retrieval))
    for one, two in zip(jax.tree.leaves(new.retrieval), jax.tree.leaves(agent.retrieval), strict=True):
        np.testing.assert_array_equal(one, two)
