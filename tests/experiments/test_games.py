"""Sweeps of online games: what is run, what is kept of it, and what is made of that."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import jax
import numpy as np
import pytest
from PIL import Image
from test_presets import differences

from r2a.agents.agent import parameter_count
from r2a.agents.build import build_agent
from r2a.cli import main
from r2a.config import OnlineConfig, config_from_dict
from r2a.errors import UserError
from r2a.experiments.games import analysis
from r2a.experiments.games.presets import ARMS, ATARI_PAPER, MINATAR_LAPTOP, PRESETS, arm
from r2a.experiments.games.sweep import ATARI, MINATAR, SCALES, training_curve
from r2a.experiments.presets import online_arm, online_preset
from r2a.experiments.statistics import interquartile_mean, iqm_interval


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_changes_exactly_what_it_names(name):
    expected = set() if name == "ra_r2d2" else {"agent.retrieval.variant"}
    assert differences(asdict(MINATAR_LAPTOP), asdict(arm(MINATAR_LAPTOP, name))) == expected


def test_the_paper_preset_has_the_papers_values():
    learner, replay, retrieval = ATARI_PAPER.learner, ATARI_PAPER.replay, ATARI_PAPER.agent.retrieval
    assert (learner.learning_rate, learner.adam_epsilon, learner.clip_norm) == (1e-4, 1e-7, 40.0)
    assert (learner.discount, learner.lambda_, learner.target_period, learner.weights.kl) == (0.997, 0.8, 400, 0.1)
    assert (replay.trace, replay.period, replay.capacity, replay.minimum) == (80, 40, 100_000, 5_000)
    assert (replay.priority_exponent, replay.importance_exponent, ATARI_PAPER.play.epsilon) == (0.9, 0.6, 0.01)
    assert (retrieval.slots, retrieval.summary_size, retrieval.k_traj, retrieval.k_states) == (8, 512, 10, 10)
    assert retrieval.trajectories + ATARI_PAPER.batch_size == 512
    assert (learner.loss, learner.optimiser, learner.max_priority_weight, replay.burn_in) == (
        "squashed_q_lambda",
        "adam",
        0.9,
        0,
    )
    assert (ATARI_PAPER.acting.epsilon, ATARI_PAPER.acting.epsilon_exponent) == (0.4, 7.0)
    agent = jax.eval_shape(lambda: build_agent(ATARI_PAPER.agent, (replay.stack, 84, 84), 18, jax.random.key(0)))
    assert parameter_count(agent) > 12_000_000


@pytest.mark.parametrize("experiment", [MINATAR, ATARI], ids=["minatar", "atari"])
def test_every_run_has_valid_settings_and_a_name_of_its_own(experiment):
    for scale in experiment.scales:
        runs = list(experiment.all_runs(scale))
        settings = SCALES[experiment.name][scale]
        assert len({run.name for run in runs}) == len(runs) == len(settings.games) * settings.seeds * len(settings.arms)
        run = runs[-1]
        assert run.config().seed == settings.seeds - 1
        assert experiment.run_from(**json.loads(json.dumps(asdict(run)))) == run
        assert experiment.comes_from({"config": json.loads(json.dumps(asdict(run.config())))}, run, "")
        assert not experiment.comes_from({"config": asdict(runs[0].config())}, run, "")


def test_configs_survive_json():
    for presets in PRESETS.values():
        for config in presets.values():
            assert config_from_dict(OnlineConfig, json.loads(json.dumps(asdict(config)))) == config


def test_what_ra_r2d2_reads_with_is_what_the_config_says():
    agent = MINATAR_LAPTOP.agent
    queries = replace(agent, retrieval=replace(agent.retrieval, variant="agent_query"))
    config = replace(MINATAR_LAPTOP, agent=queries)
    assert online_arm(config, "ra_r2d2") == config
    assert online_arm(config, "r2d2").agent.retrieval.variant == "none"


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(UserError, match="no preset"):
        online_preset("minatar", "paper")
    with pytest.raises(UserError, match="no agent 'dqn' for minatar"):
        online_arm(MINATAR_LAPTOP, "dqn")
    with pytest.raises(UserError, match="learnt while acting"):
        MINATAR.have_source("smoke", "some-data", print)


def test_the_interquartile_mean_by_hand():
    assert interquartile_mean([1, 2, 3, 100]) == 2.5
    # Of five values, the middle half is the third, and three quarters of its neighbours.
    assert interquartile_mean([0, 10, 20, 40, 1000]) == pytest.approx((0.75 * 10 + 20 + 0.75 * 40) / 2.5)
    interval = iqm_interval([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    assert interval.low < interval.mean < interval.high
    assert iqm_interval([[2.0, 2.0], [2.0, 2.0]]) == (2.0, 2.0, 2.0)


def make_run(arm, game, seed, score):
    curve = {"step": [10, 20], "seconds": [1.0, 2.0], "score": [0.0, score]}
    final = {"score": score}
    return {"arm": arm, "game": game, "seed": seed, "final": final, "curve": curve} | {
        "env_steps": 20,
        "wall_seconds": 60.0,
        "parameters": 5,
        "training": {"step": list(range(8)), "score": [0.0] * 6 + [score, 2 * score]},
        "config": {},
    }


def test_the_summary_is_means_over_seeds_and_an_iqm_over_games(tmp_path):
    runs = [
        make_run(arm, game, seed, scale * (seed + 1) * factor)
        for arm, factor in (("r2d2", 1.0), ("ra_r2d2", 2.0))
        for game, scale in (("breakout", 1.0), ("asterix", 10.0))
        for seed in range(3)
    ]
    for run in runs:
        file = tmp_path / "laptop" / "runs" / f"{run['arm']}-{run['game']}-{run['seed']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(run))
    text = analysis.analyse(tmp_path, "laptop")
    records = {(r["arm"], r["game"]): r for r in json.loads((tmp_path / "summary.json").read_text())}
    assert records["r2d2", "breakout"]["mean"] == 2.0
    assert records["ra_r2d2", "asterix"]["mean"] == 40.0
    assert records["ra_r2d2", "all"]["iqm"] == pytest.approx(2.0)
    assert records["r2d2", "all"]["iqm"] == pytest.approx(1.0)
    assert "| breakout | R2D2 | 2.0 | -0.5 to 4.5 | 2.0 | 3.0 | 3 | 1.0 |" in text
    with Image.open(tmp_path / "score_by_steps.png") as plot:
        assert plot.size[0] > 600


def test_where_no_game_came_to_its_end_there_is_no_score_while_learning():
    run = make_run("r2d2", "breakout", 0, 1.0) | {"training": {"step": [], "score": []}}
    (record,) = analysis.summarise([run])
    assert record["while_learning"] is None
    assert "| 1.0 |  | 1 |" in analysis.table([record])
    (record,) = analysis.summarise([run, make_run("r2d2", "breakout", 1, 2.0)])
    assert record["while_learning"] == 3.0


def test_the_training_curve_weighs_turns_by_their_games():
    lines = [{"step": i, "rl/score": float(i), "rl/episodes": 1 + i % 2} for i in range(8)] + [{"step": 9}]
    curve = training_curve(lines, points=2)
    assert curve["step"] == [3, 7]
    assert curve["score"][0] == pytest.approx(np.average([0, 1, 2, 3], weights=[1, 2, 1, 2]), abs=1e-3)


def test_a_sweep_goes_from_nothing_to_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "minatar", "--scale", "smoke", "--only", "r2d2", "--workers", "1"]) == 0
    folder = tmp_path / "results/minatar/smoke"
    records = json.loads((folder / "summary.json").read_text())
    assert {(r["arm"], r["game"], r["seeds"], r["env_steps"]) for r in records} == {("r2d2", "breakout", 1, 400)}
    result = json.loads((folder / "runs/r2d2-breakout-0.json").read_text())
    assert len(result["final_scores"]) == 4
    assert result["curve"]["step"] == [200, 400]
    capsys.readouterr()
    assert main(["sweep", "minatar", "--scale", "smoke", "--only", "r2d2", "--workers", "1"]) == 0
    assert "1 of 1 runs are done" in capsys.readouterr().out
