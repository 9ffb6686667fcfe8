"""What is made of results: intervals, records, tables, and whose data were read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from r2a.errors import UserError
from r2a.experiments import babyai, causalworld, gridroboman, minatar, report
from r2a.experiments.report import analyse, grouped, over_games, summarise, table, task_table
from r2a.experiments.runs import training_curve
from r2a.experiments.statistics import Interval, interquartile_mean, interval, iqm_interval

T = 4.302653 / 3**0.5
"""Half of an interval over three seeds, in standard deviations."""


def test_an_interval_by_hand():
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (low, high) == (pytest.approx(2.0 - T), pytest.approx(2.0 + T))
    assert interval([1.0, 2.0, 3.0], (0.0, 3.0)) == (2.0, 0.0, 3.0)
    assert interval([1.0, 2.0, 3.0], (0.0, None)) == (2.0, 0.0, pytest.approx(2.0 + T))
    assert interval([5.0]) == (5.0, None, None)
    assert interval([5.0, 5.0]) == (5.0, None, None)  # of two that are alike one cannot tell


def test_the_interquartile_mean_by_hand():
    assert interquartile_mean([1, 2, 3, 100]) == 2.5
    # Of five values, the middle half is the third, and three quarters of its neighbours.
    assert interquartile_mean([0, 10, 20, 40, 1000]) == pytest.approx((0.75 * 10 + 20 + 0.75 * 40) / 2.5)
    found = iqm_interval([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    assert found.low < found.mean < found.high
    assert iqm_interval([[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]) == (2.0, 2.0, 2.0)
    assert iqm_interval([[1.0, 2.0, 3.0], [2.0]]) == Interval(2.0)


def offline_run(arm, place, seed, scores, **more):
    """The result of a run that learnt from data, reading what it was trained with."""
    read = more.pop("read", "right")
    finals = {
        name: score + shift
        for name, shift in more.pop("finals", {read: 0.0}).items()
        for score in [np.mean(list(scores.values()))]
    }
    return {
        "arm": arm,
        "scale": "laptop",
        **place,
        "seed": seed,
        "config": {"data": {"tasks": list(scores)}},
        "final": finals,
        "per_task": {read: scores},
        "curve": {"step": [1, 2], "time/train_seconds": [1.0, 2.0], **{f"eval/{name}": [0.1, 0.2] for name in finals}},
        "learner_steps": 10,
        "wall_seconds": 120.0,
        "parameters": 5,
        **more,
    }


def levels_run(arm, seed, score, own):
    """A run on two levels, of which the agent reads its own with weight `own`."""
    scores = {"GoToObj": score + 0.1, "PutNextLocal": score - 0.1}
    weight = [[own, 1 - own], [0.6, 0.4]]
    return offline_run(arm, {"trajectories_per_level": 250}, seed, scores, read="all_tasks", weight=weight)


def test_a_record_is_a_mean_over_seeds_with_its_interval(tmp_path):
    runs = [levels_run("ra_rdqn_multi", seed, 0.5 + 0.1 * seed, 0.8 - 0.1 * seed) for seed in range(3)]
    runs.append(levels_run("rdqn", 0, 0.3, 0.5))
    groups = grouped(babyai.EXPERIMENT, runs)
    records = summarise(babyai.EXPERIMENT, groups)
    place = {(record["arm"], record["task"]): record for record in records}
    assert place["ra_rdqn_multi", "all"]["mean"] == place["ra_rdqn_multi", "all"]["success_mean"] == pytest.approx(0.6)
    assert place["ra_rdqn_multi", "all"]["high"] == pytest.approx(0.6 + 0.1 * T, abs=1e-4)
    assert place["ra_rdqn_multi", "GoToObj"]["high"] == pytest.approx(0.7 + 0.1 * T, abs=1e-4)
    assert place["rdqn", "all"]["low"] is None
    text = table(babyai.EXPERIMENT, records, "laptop")
    assert "| 250 | RA-RDQN, multi-task | 60.0 % | 35.2 to 84.8 % | 55 % | 3 | 2.0 |" in text
    assert "| 250 | RDQN | 30.0 % | - | 32 % | 1 | 2.0 |" in text
    assert "| PutNextLocal (c) | 50 % | 20 % |" in task_table(babyai.EXPERIMENT, groups)


def test_the_share_of_weight_that_goes_to_other_levels(tmp_path):
    runs = [levels_run("ra_rdqn_multi", seed, 0.5, 0.8 - 0.1 * seed) for seed in range(3)]
    shares = babyai.shares_from_others(runs)
    assert shares["groups"]["other"]["share"] == pytest.approx(0.3)
    assert shares["groups"]["compositional"]["share"] == pytest.approx(0.6)
    assert shares["by_chance"] == 0.5
    text = babyai.retrieved_from(runs, tmp_path)
    assert "| other levels | 30 % | 5 to 55 % | 21 % |" in text
    assert "| by chance | 50 % | - | - |" in text
    assert (tmp_path / "retrieved_from.png").stat().st_size > 5_000
    assert babyai.retrieved_from([], tmp_path) == ""
    assert "| other levels | 20 % | - | 21 % |" in babyai.retrieved_from(runs[:1], tmp_path)


def demonstrated(arm, size, seed, solved, covered, **more):
    fraction = {"right": {"pushing": covered, "picking": covered}}
    scores = {"pushing": solved, "picking": 0.0}
    return offline_run(arm, {"demonstrations": size}, seed, scores, fraction=fraction, **more)


def test_what_was_covered_stands_beside_what_was_solved():
    seeds = [demonstrated("bc", 10, seed, *found) for seed, found in enumerate([(0.4, 0.5), (0.6, 0.7), (0.2, 0.6)])]
    runs = [*seeds, *(demonstrated("ra_bc_multi", 10, seed, 1.0, 0.9) for seed in range(2))]
    groups = grouped(causalworld.EXPERIMENT, runs)
    records = summarise(causalworld.EXPERIMENT, groups)
    whole = next(r for r in records if r["arm"] == "bc" and r["task"] == "all")
    assert (whole["success"], whole["fractional"], whole["seeds"]) == (0.2, 0.6, 3)
    assert whole["high"] == pytest.approx(0.2 + 0.1 * T, abs=1e-4)
    assert whole["low"] == 0.0  # a share is not below
    alone = next(r for r in records if r["arm"] == "ra_bc_multi" and r["task"] == "pushing")
    assert (alone["mean"], alone["low"], alone["fractional_low"]) == (1.0, None, None)
    text = table(causalworld.EXPERIMENT, records, "laptop")
    assert "| 10 | BC | 20.0 % | 0.0 to 44.8 % | 60.0 % | - | 3 | 2.0 |" in text
    assert "| pushing | 100 % (90) | 40 % (60) |" in task_table(causalworld.EXPERIMENT, groups)


def test_the_papers_scores_stand_beside_the_largest_runs():
    runs = [demonstrated("bc", size, 0, 0.5, 0.5) for size in (10, 50, 250)]
    text = table(
        causalworld.EXPERIMENT, summarise(causalworld.EXPERIMENT, grouped(causalworld.EXPERIMENT, runs)), "laptop"
    )
    assert [line.split("|")[6].strip() for line in text.splitlines()[2:]] == ["-", "-", "61 %"]


def test_far_goals_are_read_of_what_was_swapped():
    found = {"success": 0.5, "fractional": 0.6}
    runs = [demonstrated("bc", 250, seed, 0.5, 0.5, far_goals={"training_data": found}) for seed in range(3)]
    swap = {"training_data": found, "far_data": {"success": 0.25, "fractional": 0.5}}
    runs.append(demonstrated("ra_bc_multi", 250, 0, 0.5, 0.5, far_goals=swap))
    text = causalworld.far_table(runs, None)
    assert "| BC | nothing | 50.0 % | 50.0 to 50.0 % | 60.0 % | 3 |" in text
    assert "| RA-BC, multi-task | data with far goals | 25.0 % | - | 50.0 % | 1 |" in text
    assert causalworld.far_table(runs[:0], None) == ""


def test_every_evaluation_that_an_arm_reports_has_a_record():
    place = {"num_tasks": 3, "task_input": "none"}
    finals = {"right": 0.0, "wrong": -20.0, "random": -10.0}
    runs = [offline_run("ra_dqn", place, seed, {"touch red": 30.0 + seed}, finals=finals) for seed in range(3)]
    runs += [
        offline_run("dqn", place, 0, {"touch red": 5.0}),
        offline_run("ra_dqn_random", place, 0, {"touch red": 4.0}, finals=finals),
    ]
    records = summarise(gridroboman.EXPERIMENT, grouped(gridroboman.EXPERIMENT, runs))
    assert [(r["arm"], r["retrieval"], r["mean"]) for r in records] == [
        ("ra_dqn", "right", 31.0),
        ("ra_dqn", "wrong", 11.0),
        ("ra_dqn", "random", 21.0),
        ("dqn", "none", 5.0),
        ("ra_dqn_random", "random", -6.0),
    ]
    assert records[0]["floor"] < records[0]["expert"] < 50
    assert "| 3 | not told | RA-DQN | wrong | 11.0 | 8.5 to 13.5 | 3 | 2.0 |" in table(
        gridroboman.EXPERIMENT, records, "laptop"
    )


def game_run(arm, game, seed, score):
    return {"arm": arm, "scale": "laptop", "game": game, "seed": seed, "final": {"score": score}} | {
        "curve": {"step": [10, 20], "seconds": [1.0, 2.0], "score": [0.0, score]},
        "env_steps": 20,
        "wall_seconds": 60.0,
        "parameters": 5,
        "training": {"step": list(range(8)), "score": [0.0] * 6 + [score, 2 * score]},
        "config": {},
    }


def test_games_are_put_together_in_parts_of_one_arms_score(tmp_path):
    runs = [
        game_run(arm, game, seed, scale * (seed + 1) * factor)
        for arm, factor in (("r2d2", 1.0), ("ra_r2d2", 2.0))
        for game, scale in (("breakout", 1.0), ("asterix", 10.0))
        for seed in range(3)
    ]
    for run in runs:
        file = tmp_path / "laptop" / "runs" / f"{run['arm']}-{run['game']}-{run['seed']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(run))
    text = analyse(minatar.EXPERIMENT, tmp_path, "laptop")
    records = {(r["arm"], r["game"]): r for r in json.loads((tmp_path / "summary.json").read_text())}
    assert records["r2d2", "breakout"]["mean"] == 2.0
    assert records["ra_r2d2", "asterix"]["mean"] == 40.0
    assert records["ra_r2d2", "all"]["iqm"] == pytest.approx(2.0)
    assert records["r2d2", "all"]["iqm"] == pytest.approx(1.0)
    assert "| breakout | R2D2 | 2.0 | 0.0 to 4.5 | 2.0 | 3.0 | 3 | 1.0 |" in text
    assert "| RA-R2D2 | 2.00 | " in text
    assert (tmp_path / "score_by_steps.png").stat().st_size > 5_000
    one = grouped(minatar.EXPERIMENT, [run for run in runs if run["game"] == "asterix"])
    assert over_games(minatar.EXPERIMENT, one) == []


def test_where_no_game_came_to_its_end_there_is_no_score_while_learning():
    run = game_run("r2d2", "breakout", 0, 1.0) | {"training": {"step": [], "score": []}}
    (record,) = summarise(minatar.EXPERIMENT, grouped(minatar.EXPERIMENT, [run]))
    assert record["while_learning"] is None
    assert "| breakout | R2D2 | 1.0 | - | 1.0 | - | 1 |" in table(minatar.EXPERIMENT, [record], "laptop")
    (record,) = summarise(minatar.EXPERIMENT, grouped(minatar.EXPERIMENT, [run, game_run("r2d2", "breakout", 1, 2.0)]))
    assert record["while_learning"] == 3.0


def test_the_training_curve_weighs_turns_by_their_games():
    lines = [{"step": i, "rl/score": float(i), "rl/episodes": 1 + i % 2} for i in range(8)] + [{"step": 9}]
    curve = training_curve(lines, points=2)
    assert curve["step"] == [3, 7]
    assert curve["score"][0] == pytest.approx(np.average([0, 1, 2, 3], weights=[1, 2, 1, 2]), abs=1e-3)


def test_no_results_give_an_empty_table_and_foreign_ones_are_refused(tmp_path):
    assert analyse(minatar.EXPERIMENT, tmp_path, "laptop").startswith("| game | agent | score |")
    file = tmp_path / "laptop" / "runs" / "ra_bc_multi-10-0.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(demonstrated("ra_bc_multi", 10, 0, 1.0, 1.0)))
    with pytest.raises(UserError, match="is no result of minatar; move it away"):
        analyse(minatar.EXPERIMENT, tmp_path, "laptop")


def test_curves_have_bands_from_three_seeds_on_and_lines_of_reference():
    place = {"num_tasks": 3, "task_input": "none"}
    runs = [offline_run("dqn", place, seed, {"touch red": 5.0}) for seed in range(3)]
    groups = grouped(gridroboman.EXPERIMENT, runs)
    figure = report.plot_curves(gridroboman.EXPERIMENT, groups, summarise(gridroboman.EXPERIMENT, groups), "steps")
    (panel,) = figure.axes
    assert [line.get_label() for line in panel.lines] == ["DQN", "scripted expert", "best constant action"]
    assert panel.get_title() == "3 tasks, task not told"
    assert panel.get_ylim()[0] == 0
    assert np.isfinite(panel.collections[0].get_paths()[0].vertices).all()
