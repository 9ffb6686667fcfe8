"""Sec. 3.3, Table 1: missions in words, from a single-task or a multi-task retrieval data set, on two sizes of data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from r2a.config import (
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    DataConfig,
    EncoderConfig,
    EvaluationConfig,
    FromDataset,
    HeadConfig,
    LearnerConfig,
    LossWeights,
    RetrievalConfig,
    RunConfig,
)
from r2a.environments.babyai import BabyAISettings
from r2a.environments.babyai.levels import COMPOSITIONAL, LEVEL_NAMES
from r2a.environments.registry import world_of
from r2a.experiments.harness import Arm, Axis, Experiment, Result, Scale, along
from r2a.experiments.report import markdown, save, score_of, tasks_of
from r2a.experiments.statistics import interval
from r2a.storage import atomic_write_text
from r2a.training.collect import collect

LAPTOP_LEVELS = (
    *("GoToObj", "GoToRedBallGrey", "GoToLocal", "PickupLoc", "OpenDoor", "GoToDoor", "ActionObjDoor"),
    *("PutNextLocal", "OpenRedBlueDoors", "OpenTwoDoors", "OpenDoorsOrderN4", "UnlockPickupDist"),
)
"""Seven levels of one behaviour each, and five compositional ones, all of which a bot solves in less than 64 steps."""

SMOKE_LEVELS = ("GoToObj", "GoToLocal", "PutNextLocal")

PAPER = RunConfig(
    environment="babyai",
    env=BabyAISettings(),
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(256, 256), cell_size=64, word_size=128),
        core=CoreConfig(kind="gru", size=512),  # Table 6
        # App. BabyAI: as for gridroboman, but 32 trajectories of each task, and a learned ranking
        retrieval=RetrievalConfig(trajectories=32, ranking="attention", length=20),
    ),
    learner=LearnerConfig(adam_epsilon=1e-7, target_period=1000),  # Table 6; the rest as for gridroboman
    experience=FromDataset(
        DataConfig(
            dataset="babyai-expert",
            num_tasks=40,
            tasks_per_step=40,
            batch_size=240,  # 256, but a multiple of the tasks
            sequence_steps=40,
            burn_in=20,
            learn_from="all_episodes",
            retrieve_from="all_tasks",
        )
    ),
    steps=1_000_000,
)
"""The paper's values where it has them; its data: `r2a collect babyai --episodes 50000` (or 200000)."""

LAPTOP = RunConfig(
    environment="babyai",
    env=BabyAISettings(),
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(128,)),
        core=CoreConfig(kind="gru", size=128),
        retrieval=RetrievalConfig(
            slots=2,
            slot_size=64,
            key_size=32,
            trajectories=60,
            num_grad_trajectories=6,
            length=8,
            ranking="attention",
            num_neighbours=10,
            summariser="linear",
            summary_size=64,
            bottleneck_std=0.03,
            kl_reduction="mean",
            gate_bias=-3.0,
            auxiliary=AuxiliaryConfig(bins=21, low=-0.5, high=0.6, discount=0.95),
        ),
        head=HeadConfig(hidden=(128,), attention_gain=0.0),
    ),
    learner=LearnerConfig(
        optimiser="muon",
        learning_rate=2e-3,
        schedule_steps=-1,
        discount=0.95,
        target_period=100,
        weights=LossWeights(kl=1e-5, action=0.03, value=0.03, reward=0.03),
    ),
    experience=FromDataset(
        DataConfig(
            dataset="babyai-laptop",
            num_tasks=12,
            tasks_per_step=12,
            batch_size=96,
            sequence_steps=10,
            burn_in=4,
            learn_from="all_episodes",
            retrieve_from="all_tasks",
        ),
        steps_per_call=50,
    ),
    evaluation=EvaluationConfig(episodes=16, retrieval_batches=2, trajectories=120),
    steps=1_500,
    evaluate_every=250,
    checkpoint_every=250,
)

SMOKE = replace(
    LAPTOP,
    agent=AgentConfig(
        encoder=EncoderConfig(features="babyai", hidden=(16,), cell_size=8, word_size=8),
        core=CoreConfig(kind="gru", size=16),
        retrieval=replace(
            LAPTOP.agent.retrieval,
            slot_size=8,
            key_size=8,
            summary_size=16,
            trajectories=4,
            num_grad_trajectories=2,
            k_traj=3,
            k_states=4,
            num_neighbours=6,
        ),
        head=HeadConfig(hidden=(), attention_heads=2),
    ),
    experience=FromDataset(
        replace(
            LAPTOP.data,
            dataset="babyai-smoke",
            num_tasks=3,
            tasks_per_step=3,
            batch_size=6,
            sequence_steps=3,
            burn_in=1,
        ),
        steps_per_call=10,
    ),
    env=BabyAISettings(max_steps=24),
    evaluation=EvaluationConfig(episodes=2, retrieval_batches=2, trajectories=6),
    steps=20,
    evaluate_every=10,
    checkpoint_every=10,
)

PRESETS = {"paper": PAPER, "laptop": LAPTOP, "smoke": SMOKE}
LEVELS = {"paper": LEVEL_NAMES, "laptop": LAPTOP_LEVELS, "smoke": SMOKE_LEVELS}

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
SCALES = {
    "smoke": Scale({SIZE: along(EPISODES, 48, 24)}, seeds=1, final_evaluation={}),
    "laptop": Scale({SIZE: along(EPISODES, 1_000, 250)}, seeds=3, final_evaluation=FINAL),
    "paper": Scale({SIZE: along(EPISODES, 200_000, 50_000)}, seeds=3, final_evaluation=FINAL),
}


def collect_for(scale: str, path: Path) -> None:
    """Collect the data set of a scale: as many episodes as its largest runs use."""
    most = max(SCALES[scale].axes[SIZE])
    usual = world_of("babyai").collect
    assert usual is not None
    collect("babyai", replace(usual, tasks=LEVELS[scale], episodes=most), path)


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
    others = np.array([1.0 - np.diag(np.array(run["weight"])) for run in runs])
    composed = np.array([name in COMPOSITIONAL for name in names])

    def described(values: Any) -> dict[str, float | None]:
        found = zip(("share", "low", "high"), interval(list(values), (0.0, 1.0)), strict=True)
        return {name: None if value is None else round(value, 4) for name, value in found}

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
    weight = np.mean([np.array(run["weight"]) for run in runs], axis=0)[np.ix_(order, order)]
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
        known = share.get("low") is not None
        ends = f"{100 * share['low']:.0f} to {100 * share['high']:.0f} %" if known else "-"
        return [name, f"{100 * share['share']:.0f} %", ends, paper]

    lines = [["weight on other levels' episodes", "share", "95 % interval", "paper"]]
    lines += [row(f"{group} levels", share, f"{PAPER_OTHER[group]} %") for group, share in shares["groups"].items()]
    lines += [row("by chance", {"share": shares["by_chance"]})]
    return markdown([*lines, *(row(label, shares["levels"][name]) for name, label in marked(names).items())])


EXPERIMENT = Experiment(
    "babyai",
    PRESETS,
    ARMS,
    axes={SIZE: Axis("per level", "{} trajectories per level")},
    scales=SCALES,
    score="success",
    bounds=(0.0, 1.0),
    collect=collect_for,
    by_task=True,
    task_names=marked,
    also=also,
    extras=(retrieved_from,),
)
