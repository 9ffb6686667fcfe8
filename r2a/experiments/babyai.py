"""Sec. 3.3, Table 1: missions in words, from a single-task or a multi-task retrieval data set, on two sizes of data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from r2a.config import override
from r2a.environments.babyai.levels import COMPOSITIONAL, LEVEL_NAMES
from r2a.experiments import settings
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Scale, along
from r2a.experiments.report import markdown, rounded, save, score_of, shown, shown_interval, tasks_of
from r2a.experiments.statistics import interval
from r2a.storage import atomic_write_text

LAPTOP_LEVELS = (
    *("GoToObj", "GoToRedBallGrey", "GoToLocal", "PickupLoc", "OpenDoor", "GoToDoor", "ActionObjDoor"),
    *("PutNextLocal", "OpenRedBlueDoors", "OpenTwoDoors", "OpenDoorsOrderN4", "UnlockPickupDist"),
)
"""Seven levels of one behaviour each, and five compositional ones, all of which a bot solves in less than 64 steps."""

SMOKE_LEVELS = ("GoToObj", "GoToLocal", "PutNextLocal")

PAPER = settings.of(
    "babyai",
    settings.READ_ALL_TASKS,  # all else as for gridroboman
    {
        "agent.encoder": {"features": "babyai", "cell_size": 64, "word_size": 128},
        "agent.core.kind": "gru",  # Table 6
        "learner": {"adam_epsilon": 1e-7, "target_period": 1000},  # Table 6
        "data": {"dataset": "babyai-expert", "num_tasks": 40, "tasks_per_step": 40},
        "data.batch_size": 240,  # 256, but a multiple of the tasks
        "data.sequence_steps": 40,
        "data.burn_in": 20,
        "steps": 1_000_000,
    },
)
"""The paper's values where it has them; its data: `r2a collect babyai --episodes 50000` (or 200000)."""

LAPTOP = settings.of(
    "babyai",
    settings.LAPTOP,
    settings.READ_ALL_TASKS,
    {
        "agent.encoder.features": "babyai",
        "agent.core": {"kind": "gru", "size": 128},
        "agent.retrieval": {"trajectories": 60, "num_grad_trajectories": 6, "length": 8},
        "agent.retrieval.auxiliary": {"low": -0.5, "high": 0.6, "discount": 0.95},
        "learner": {"learning_rate": 2e-3, "discount": 0.95, "target_period": 100},
        "data": {"dataset": "babyai-laptop", "num_tasks": 12, "tasks_per_step": 12, "batch_size": 96},
        "data.sequence_steps": 10,
        "data.burn_in": 4,
        "steps_per_call": 50,
        "evaluation": {"episodes": 16, "trajectories": 120},
        "steps": 1_500,
    },
)

SMOKE = override(
    LAPTOP,
    settings.SMOKE,
    {
        "env.max_steps": 24,
        "agent.encoder": {"cell_size": 8, "word_size": 8},
        "agent.core.size": 16,
        "agent.retrieval": {"trajectories": 4, "num_grad_trajectories": 2, "num_neighbours": 6, "summary_size": 16},
        "data": {"dataset": "babyai-smoke", "num_tasks": 3, "tasks_per_step": 3, "batch_size": 6},
        "data.sequence_steps": 3,
        "data.burn_in": 1,
        "steps_per_call": 10,
        "evaluation.trajectories": 6,
        "evaluate_every": 10,
    },
)

MULTI = "ra_rdqn_multi"
ARMS = {  # the paper's scores: Table 1, 50K and 200K trajectories per level, all 40 levels
    MULTI: Arm("RA-RDQN, multi-task", short="multi", paper=(0.55, 0.74)),
    "rdqn": Arm("RDQN", {"agent.retrieval.variant": "none"}, short="RDQN", paper=(0.32, 0.45)),
    "ra_rdqn_single": Arm(
        "RA-RDQN, single-task", {"data.retrieve_from": "same_task"}, short="single", paper=(0.48, 0.64)
    ),
    "ra_rdqn_multi_no_ib": Arm(
        "RA-RDQN, multi-task, without IB",
        {"agent.retrieval.bottleneck": "identity"},
        short="no IB",
        paper=(0.47, 0.59),
    ),
    # Ours: one reads a random level's episodes in training and test, the other has the auxiliary losses alone.
    "ra_rdqn_random": Arm("RA-RDQN, random level (control)", {"data.retrieve_from": "random_task"}, short="random"),
    "rdqn_auxiliary": Arm("RDQN, aux. losses (control)", {"agent.retrieval.variant": "auxiliary_only"}, short="aux."),
}
PAPER_OTHER = {"compositional": 54, "other": 21}
"""Sec. 3.3: per cent of retrievals from other levels."""

SIZE, EPISODES = "trajectories_per_level", "data.episodes_per_task"
FINAL = {"evaluation.episodes": 25, "evaluation.retrieval_batches": 4}


def of_levels(levels: tuple[str, ...], most: int, few: int) -> Scale:
    """Runs on two sizes of data; collected are as many trajectories as the largest of them use."""
    collect = {"": {"tasks": levels, "episodes": most}}
    return Scale({SIZE: along(EPISODES, most, few)}, seeds=3, final_evaluation=FINAL, collect=collect)


SCALES = {
    "smoke": replace(of_levels(SMOKE_LEVELS, 48, 24), seeds=1, final_evaluation={}),
    "laptop": of_levels(LAPTOP_LEVELS, 1_000, 250),
    "paper": of_levels(LEVEL_NAMES, 200_000, 50_000),
}


def marked(names: Sequence[str]) -> dict[str, str]:
    """Levels of one behaviour, then the compositional ones, which are marked (c)."""
    ordered = sorted(names, key=lambda name: (name in COMPOSITIONAL, names.index(name)))
    return {name: name + (" (c)" if name in COMPOSITIONAL else "") for name in ordered}


def also(runs: Sequence[Result], task: str) -> dict[str, Any]:
    """How many levels are learnt together, and the mean by its old name."""
    mean = float(np.mean([score_of(run, task) for run in runs]))
    return {"levels": len(tasks_of(runs[0])), "success_mean": round(mean, 4)}


def shares_from_others(runs: Sequence[Result]) -> dict[str, Any]:
    """Of every level: the share of retrieval weight that went to other levels' episodes, with intervals over seeds."""
    names = tasks_of(runs[0])
    others = np.array([1.0 - np.diag(run["weight"]) for run in runs])
    composed = np.array([name in COMPOSITIONAL for name in names])

    def described(values: Any) -> dict[str, float | None]:
        return rounded(dict(zip(("share", "low", "high"), interval(list(values), (0.0, 1.0)), strict=True)), 4)

    groups = {"compositional": composed, "other": ~composed}
    return {
        "seeds": len(runs),
        "by_chance": round(1.0 - 1.0 / len(names), 4),
        "groups": {name: described(others[:, members].mean(1)) for name, members in groups.items() if members.any()},
        "levels": {name: described(others[:, i]) for i, name in enumerate(names)},
    }


def plot_heat_map(runs: Sequence[Result], path: Path) -> None:
    """Level played x level read from: mean share of retrieval weight over seeds."""
    names = tasks_of(runs[0])
    labels = marked(names)
    order = [names.index(name) for name in labels]
    weight = np.mean([run["weight"] for run in runs], axis=0)[np.ix_(order, order)]
    side = 2.5 + 0.42 * len(order)
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=False)
    image = axes.imshow(weight, cmap="viridis", vmin=0)
    axes.set_xticks(range(len(order)), list(labels.values()), rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(order)), list(labels.values()), fontsize=8)
    axes.set_xlabel("level read from")
    axes.set_ylabel("level played")
    for (i, j), share in np.ndenumerate(weight):
        if share >= 0.05:
            colour = "black" if share > 0.6 * weight.max() else "white"
            axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=axes, label="share of retrieval weight", fraction=0.046)
    save(figure, path)


def retrieved_from(results: Sequence[Result], folder: Path) -> str:
    """Whose data the multi-task agent reads where it has most of them: a table, its numbers, and a heat map."""
    own = [run for run in results if run["arm"] == MULTI]
    runs = [run for run in own if run[SIZE] == max(run[SIZE] for run in own)]
    if not runs:
        return ""
    shares, names = shares_from_others(runs), tasks_of(runs[0])
    atomic_write_text(folder / "retrieved_from.json", json.dumps(shares, indent=1) + "\n")
    plot_heat_map(runs, folder / "retrieved_from.png")

    def row(name: str, share: dict[str, float], paper: str = "-") -> list[str]:
        return [name, shown(share["share"], True, 0), shown_interval(share, True, 0), paper]

    lines = [["weight on other levels' episodes", "share", "95 % interval", "paper"]]
    lines += [row(f"{group} levels", share, f"{PAPER_OTHER[group]} %") for group, share in shares["groups"].items()]
    lines += [row("by chance", {"share": shares["by_chance"]})]
    return markdown([*lines, *(row(label, shares["levels"][name]) for name, label in marked(names).items())])


EXPERIMENT = Experiment(
    "babyai",
    {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE},
    ARMS,
    axes={SIZE: Axis("per level", "{} trajectories per level")},
    scales=SCALES,
    score="success",
    bounds=(0.0, 1.0),
    by_task=True,
    task_names=marked,
    also=also,
    extras=(retrieved_from,),
)
