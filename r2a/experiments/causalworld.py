"""Sec. 3.4, Table 2: behaviour cloning of continuous control, from a single-task or a multi-task retrieval data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from r2a.config import HeadConfig, RetrievalConfig, RunConfig, override
from r2a.data.dataset import MANIFEST, OfflineDataset, find_dataset
from r2a.environments.causalworld import CausalWorldSettings
from r2a.environments.causalworld.layout import SIZE
from r2a.environments.causalworld.tasks import TASK_NAMES
from r2a.experiments import settings
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Run, Scale, Settings, along
from r2a.experiments.matching import agent_size, widen_to_match
from r2a.experiments.report import ALL, markdown, rounded, score_of, shown, shown_interval
from r2a.experiments.runs import evaluate_run, evaluation_of, same_evaluation
from r2a.experiments.statistics import interval

EVERY = {
    **settings.READ_ALL_TASKS,
    "agent.encoder.features": "poses",
    "learner.loss": "cloning",
    "data": {"num_tasks": 5, "tasks_per_step": 5, "batch_size": 320},
}
PAPER = settings.of(
    "causalworld",
    EVERY,  # encoder: App. gridroboman setup
    {
        "agent.head": {"hidden": (256,), "num_components": 1},  # ours
        "data.dataset": "causalworld-expert",
        "steps": 100_000,
    },
)
"""The paper's values where it has them; its data: `r2a collect causalworld --episodes 50000`."""

LAPTOP = settings.of(
    "causalworld",
    settings.LAPTOP,
    EVERY,
    {
        "agent.encoder.hidden": (256, 128),
        "agent.retrieval": {"trajectories": 2, "k_traj": 2, "length": 64},
        "agent.retrieval.auxiliary": {"low": -2.0, "high": 2.0, "discount": 0.95},
        "agent.head": {"num_components": 5, "min_std": 0.03},
        "learner.learning_rate": 5e-3,
        "data.dataset": "causalworld-laptop",
        "evaluation.episodes": 2,
        "steps": 6_000,
        "evaluate_every": 3_000,
        "checkpoint_every": 1_000,
    },
)

SMOKE = override(
    LAPTOP,
    settings.SMOKE,
    {
        "agent.retrieval": {"trajectories": 1, "k_traj": 1, "length": 8, "k_states": 2, "num_neighbours": 2},
        "agent.head": HeadConfig(hidden=(8,), attention_heads=2, num_components=1),
        "data": {"dataset": "causalworld-smoke", "num_tasks": 2, "tasks_per_step": 2, "batch_size": 8},
        "steps_per_call": 10,
        "evaluation": {"episodes": 1, "retrieval_batches": 1},
    },
)


def size_of(config: RunConfig) -> int:
    """How many parameters the agent of `config` has; it sees numbers, or each camera's pictures of table and goal."""
    env = config.env
    assert isinstance(env, CausalWorldSettings)
    pictures = (2 * len(env.cameras), env.image_size, env.image_size, 3)
    return agent_size(config.environment, config.agent, pictures if env.cameras else SIZE, 9)


NO_RETRIEVAL = {"agent.retrieval": RetrievalConfig(variant="none")}  # none of its settings: they could not matter
MULTI = "ra_bc_multi"
ARMS = {  # the paper's scores: Table 2, 50K trajectories
    MULTI: Arm("RA-BC, multi-task", short="multi", paper=(0.82,)),
    "bc": Arm("BC", NO_RETRIEVAL, short="BC", paper=(0.61,)),
    "ra_bc_single": Arm("RA-BC, single-task", {"data.retrieve_from": "same_task"}, short="single", paper=(0.71,)),
    # Ours: one has as many parameters as RA-BC, the other reads a random task's episodes in training and test.
    "bc_matched": Arm(
        "BC, same size (control)", NO_RETRIEVAL, short="same size", adapt=partial(widen_to_match, size_of=size_of)
    ),
    "ra_bc_random": Arm("RA-BC, random task (control)", {"data.retrieve_from": "random_task"}, short="random"),
}

DEMONSTRATIONS = "demonstrations"
EPISODES = "data.episodes_per_task"
FINAL = {"evaluation.episodes": 25, "evaluation.retrieval_batches": 4}
FAR = "-far"
"""Added to a data set's name: the same tasks with goals outside the range of those that are learnt from."""


def data_sets(num_tasks: int, episodes: int) -> dict[str, Settings]:
    """As many episodes as the largest runs use, and at most 50 with far goals."""
    own = {"tasks": TASK_NAMES[:num_tasks], "episodes": episodes}
    return {"": own, FAR: {**own, "episodes": min(episodes, 50), "env.goals": "space_b"}}


SCALES = {
    "smoke": Scale({DEMONSTRATIONS: along(EPISODES, 4)}, seeds=1, collect=data_sets(2, 4)),
    "laptop": Scale(
        {DEMONSTRATIONS: along(EPISODES, 10, 50, 250)},
        seeds=3,
        final_evaluation=FINAL | {"evaluation.episodes": 13},
        collect=data_sets(5, 250),
        optional=("bc_matched-10", "bc_matched-50", "ra_bc_random-10", "ra_bc_random-50"),
    ),
    "paper": Scale(
        {DEMONSTRATIONS: along(EPISODES, 50_000)}, seeds=3, final_evaluation=FINAL, collect=data_sets(5, 50_000)
    ),
}

FAR_EVALUATION = {
    "smoke": {},
    "laptop": {"evaluation.episodes": 10, "evaluation.retrieval_batches": 2},
    "paper": FINAL,
}
"""How closely far goals are evaluated, for runs with the most demonstrations."""


def far_data(run: Run, source: str) -> OfflineDataset | None:
    """The data with far goals that lie beside a run's own, if it is one that they are for."""
    own = find_dataset(source).path
    path = own.with_name(own.name + FAR)
    most = run.values[DEMONSTRATIONS] == max(run.settings.axes[DEMONSTRATIONS])
    return find_dataset(path) if most and (path / MANIFEST).is_file() else None


def far_goals(run: Run, folder: Path, source: str) -> Result:
    """Swap at test time: goals outside the training range, reading the training data, then data that have such goals.

    Nothing is trained in between. An agent that reads nothing is evaluated once. Left out where no data with far goals
    lie beside the training data.
    """
    far = far_data(run, source)
    if far is None:
        return {}
    changes = {**FAR_EVALUATION[run.scale], "env.goals": "space_b"}
    found: Result = {"evaluation": evaluation_of(run.config, FAR_EVALUATION[run.scale]), "dataset": far.fingerprint}
    swaps = {"training_data": (source, changes), "far_data": (str(far.path), {**changes, EPISODES: 0})}
    for name, (read_from, changed) in swaps.items():
        if name == "training_data" or run.config.agent.retrieval.reads:
            played = evaluate_run(folder, read_from, changed, 20_000 + run.seed)
            found[name] = {
                "success": played["mean"],
                "fractional": float(np.mean(list(played["fraction"].values()))),
                "per_task": played["per_task"],
                "covered": played["fraction"],
            }
    return {"far_goals": found}


def far_goals_fit(run: Run, result: Result, source: str) -> bool:
    """Whether a result has the scores of far goals that it should have."""
    far, found = far_data(run, source), result.get("far_goals", {})
    same = same_evaluation(found, run.config, FAR_EVALUATION[run.scale])
    return far is None or (found.get("dataset") == far.fingerprint and same)


def also(runs: Sequence[Result], task: str) -> dict[str, Any]:
    """How much of the goals was covered, with its interval, and the share of episodes solved by its old name."""
    covered = [next(iter(run["fraction"].values())) for run in runs]
    own = [float(np.mean(list(of.values()))) if task == ALL else of[task] for of in covered]
    names = ("fractional", "fractional_low", "fractional_high")
    found = dict(zip(names, interval(own, (0.0, 1.0)), strict=True))
    return rounded({"success": float(np.mean([score_of(run, task) for run in runs])), **found}, 4)


def far_table(results: Sequence[Result], folder: Path) -> str:
    """Success on far goals, reading the training data or data that have such goals."""
    lines = [["far goals", "reads", "success", "95 % interval", "covered", "seeds"]]
    for arm in ARMS:
        runs = [run["far_goals"] for run in results if run["arm"] == arm and "far_goals" in run]
        for name, read in (("training_data", "training data"), ("far_data", "data with far goals")):
            own = [run[name] for run in runs if name in run]
            if own:
                record = interval([found["success"] for found in own], (0.0, 1.0))._asdict()
                covered = float(np.mean([found["fractional"] for found in own]))
                reads = read if any("far_data" in run for run in runs) else "nothing"
                scores = [shown(record["mean"], True), shown_interval(record, True), shown(covered, True)]
                lines.append([ARMS[arm].label, reads, *scores, str(len(own))])
    return markdown(lines) if len(lines) > 1 else ""


def reading_table(results: Sequence[Result], folder: Path) -> str:
    """Of what RA-BC multi-task reads on each task: the share that is its own, and whose episodes have the largest."""
    own = [run for run in results if run["arm"] == MULTI]
    sizes = sorted({run[DEMONSTRATIONS] for run in own})
    lines = [["multi-task, on", *(f"{size:,}: own share; most from" for size in sizes)]]
    tasks = list(next(iter(own[0]["per_task"].values()))) if own else []
    for place, task in enumerate(tasks):
        shares = [np.mean([run["weight"][place] for run in own if run[DEMONSTRATIONS] == size], 0) for size in sizes]
        cells = [f"{100 * s[place]:.0f} %; {tasks[int(s.argmax())]} {100 * s.max():.0f} %" for s in shares]
        lines.append([task, *cells])
    return markdown(lines) if own else ""


EXPERIMENT = Experiment(
    "causalworld",
    {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE},
    ARMS,
    axes={DEMONSTRATIONS: Axis("demonstrations", "{} demonstrations per task")},
    scales=SCALES,
    score="success",
    bounds=(0.0, 1.0),
    further=far_goals,
    further_fits=far_goals_fit,
    by_task=True,
    also=also,
    columns={"fractional": "covered"},
    curves=(DEMONSTRATIONS,),
    extras=(reading_table, far_table),
)
