"""What is particular to a world: the paper's values, controls of the same size, which runs there are."""

from __future__ import annotations

from dataclasses import replace

import jax
import pytest

from r2a.agents.agent import parameter_count
from r2a.agents.build import build_agent
from r2a.config import HeadConfig, RetrievalConfig, override
from r2a.environments.babyai.levels import COMPOSITIONAL, LEVEL_NAMES
from r2a.environments.registry import load_features
from r2a.experiments import atari, babyai, causalworld, gridroboman, minatar
from r2a.experiments.harness import choose_runs
from r2a.experiments.presets import arm


def test_gridroboman_has_the_papers_values():
    learner, data, retrieval = gridroboman.PAPER.learner, gridroboman.PAPER.data, gridroboman.PAPER.agent.retrieval
    assert (learner.learning_rate, learner.discount, learner.target_period) == (3e-4, 0.99, 2500)
    assert (data.batch_size, retrieval.trajectories, retrieval.slots) == (256, 64, 4)
    assert (retrieval.k_traj, retrieval.k_states) == (10, 10)
    assert (retrieval.summariser, retrieval.summary_size) == ("gru", 256)
    assert (learner.weights.kl, learner.weights.action) == (0.3, 0.1)


def test_babyai_has_the_papers_values():
    paper = babyai.PAPER
    assert (paper.learner.learning_rate, paper.learner.discount, paper.learner.target_period) == (3e-4, 0.99, 1000)
    assert (paper.agent.core.size, paper.agent.retrieval.trajectories, paper.agent.retrieval.slots) == (512, 32, 4)
    assert paper.data.num_tasks * paper.agent.retrieval.trajectories == 1280
    assert (paper.agent.retrieval.ranking, paper.agent.retrieval.k_traj) == ("attention", 10)
    load_features("babyai")
    agent = jax.eval_shape(lambda: build_agent(paper.agent, 148, 7, jax.random.key(0)))
    assert agent.core.gru.initial_state().shape == (512,)


def test_causalworld_is_set_up_as_babyai():
    assert causalworld.PAPER.agent.retrieval == babyai.PAPER.agent.retrieval
    assert causalworld.PAPER.learner.weights == babyai.PAPER.learner.weights


def test_atari_has_the_papers_values():
    paper = atari.PAPER
    learner, replay, retrieval = paper.learner, paper.replay, paper.agent.retrieval
    assert (learner.learning_rate, learner.adam_epsilon, learner.clip_norm) == (1e-4, 1e-7, 40.0)
    assert (learner.discount, learner.lambda_, learner.target_period, learner.weights.kl) == (0.997, 0.8, 400, 0.1)
    assert (replay.trace, replay.period, replay.capacity, replay.minimum) == (80, 40, 100_000, 5_000)
    assert (replay.priority_exponent, replay.importance_exponent, paper.evaluation.epsilon) == (0.9, 0.6, 0.01)
    assert (retrieval.slots, retrieval.summary_size, retrieval.k_traj, retrieval.k_states) == (8, 512, 10, 10)
    assert retrieval.trajectories + paper.from_replay.batch_size == 512
    assert (learner.loss, learner.optimiser) == ("squashed_q_lambda", "adam")
    assert (learner.max_priority_weight, replay.burn_in) == (0.9, 0)
    assert (paper.acting.epsilon, paper.acting.epsilon_exponent) == (0.4, 7.0)
    agent = jax.eval_shape(lambda: build_agent(paper.agent, (replay.stack, 84, 84), 18, jax.random.key(0)))
    assert parameter_count(agent) > 12_000_000


@pytest.mark.parametrize("task_input", ["none", "one_hot"])
def test_the_matched_dqn_has_as_many_parameters(task_input):
    config = override(gridroboman.LAPTOP, {"data.num_tasks": 30, "data.task_input": task_input})
    sizes = {name: gridroboman.size_of(arm(config, name)) for name in gridroboman.ARMS}
    assert sizes["ra_dqn"] == sizes["ra_dqn_random"] > 2 * sizes["dqn"]
    assert sizes["dqn_matched"] == pytest.approx(sizes["ra_dqn"], rel=0.005)


def test_the_matched_bc_has_as_many_parameters():
    sizes = {name: causalworld.size_of(arm(causalworld.LAPTOP, name)) for name in causalworld.ARMS}
    assert (sizes["bc"], sizes["ra_bc_multi"]) == (94_175, 432_005)  # as the runs' results say
    assert sizes["bc_matched"] == pytest.approx(sizes["ra_bc_multi"], rel=0.005)
    assert arm(causalworld.LAPTOP, "bc").agent.retrieval == RetrievalConfig(variant="none")


def test_so_it_has_where_pictures_are_seen():
    pictures = {"env.cameras": (0, 2), "env.image_size": 32, "agent.encoder.features": "strided_half"}
    seeing = override(causalworld.SMOKE, pictures)
    names = ("bc", "bc_matched", "ra_bc_multi")
    small, matched, full = (causalworld.size_of(arm(seeing, name)) for name in names)
    assert small < full
    assert matched == pytest.approx(full, rel=0.05)


def test_every_number_of_tasks_has_as_many_states_of_each():
    for scale, states in (("smoke", 8), ("laptop", 32), ("paper", 64)):
        for run in (run for run in gridroboman.EXPERIMENT.runs(scale) if run.arm == "dqn"):
            data = run.config.data
            assert (data.num_tasks, data.task_input) == (run.values["num_tasks"], run.values["task_input"])
            assert data.batch_size == data.tasks_per_step * states


def test_only_the_small_dqn_that_is_told_its_task_has_a_learning_rate_of_its_own():
    runs = [run for run in gridroboman.EXPERIMENT.runs("laptop") if run.seed == 0]
    rates = {(run.arm, run.values["task_input"]): run.config.learner.learning_rate for run in runs}
    assert rates.pop(("dqn", "one_hot")) == 2 * gridroboman.LAPTOP.learner.learning_rate
    assert set(rates.values()) == {gridroboman.LAPTOP.learner.learning_rate}


def test_the_laptop_levels_span_easy_to_compositional():
    assert len(babyai.LAPTOP_LEVELS) == len(set(babyai.LAPTOP_LEVELS)) == 12
    assert set(babyai.LAPTOP_LEVELS) <= set(LEVEL_NAMES)
    assert len(COMPOSITIONAL & set(babyai.LAPTOP_LEVELS)) == 5
    large, small = babyai.SCALES["laptop"].axes["trajectories_per_level"]
    assert large == 4 * small


def test_controls_of_causalworld_are_run_with_the_most_demonstrations():
    runs = choose_runs(causalworld.EXPERIMENT, "laptop", "")
    controls = {(run.arm, run.values["demonstrations"]) for run in runs if run.arm in ("bc_matched", "ra_bc_random")}
    assert controls == {("bc_matched", 250), ("ra_bc_random", 250)}
    assert len(runs) == 3 * (3 * 3 + 2)
    assert [run.name for run in choose_runs(causalworld.EXPERIMENT, "laptop", "bc_matched-10-1")] == ["bc_matched-10-1"]


def test_a_control_of_minatar_is_run_only_if_asked_for_by_name():
    def arms(only: str) -> set[str]:
        return {run.arm for run in choose_runs(minatar.EXPERIMENT, "laptop", only)}

    assert "r2d2_auxiliary" not in arms("") | arms("breakout") | arms("0")
    assert arms("r2d2_auxiliary") == arms("r2d2_auxiliary-freeway-3") == {"r2d2_auxiliary"}
    assert len(choose_runs(minatar.EXPERIMENT, "laptop", "r2d2_auxiliary")) == 15


def test_what_ra_r2d2_reads_with_is_what_the_config_says():
    agent = minatar.LAPTOP.agent
    queries = replace(minatar.LAPTOP, agent=replace(agent, retrieval=replace(agent.retrieval, variant="agent_query")))
    assert arm(queries, "ra_r2d2") == queries
    assert arm(queries, "r2d2").agent.retrieval.variant == "none"


def test_later_changes_prevail_over_earlier_ones_field_by_field():
    first = {"agent.retrieval": {"slots": 3, "key_size": 5}, "agent.head.hidden": (7,)}
    changed = override(minatar.LAPTOP, first, {"agent.retrieval.slots": 2, "agent.head": HeadConfig(attention_heads=1)})
    assert (changed.agent.retrieval.slots, changed.agent.retrieval.key_size) == (2, 5)
    assert changed.agent.head == HeadConfig(attention_heads=1)  # a whole section replaces what was said of it before
    assert changed == override(minatar.LAPTOP, {**first, "agent.retrieval.slots": 2, "agent.head": changed.agent.head})
