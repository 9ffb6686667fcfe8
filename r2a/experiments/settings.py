"""What the presets of several worlds have in common; each world's file says only what is different there."""

from __future__ import annotations

from typing import Any

from r2a.config import HeadConfig, RunConfig, override
from r2a.environments.registry import world_of
from r2a.experiments.runs import Settings

LAPTOP: dict[str, Any] = {
    "agent.encoder.hidden": (128,),
    "agent.retrieval": {"slots": 2, "slot_size": 64, "key_size": 32, "ranking": "attention", "num_neighbours": 10},
    "agent.retrieval.summariser": "linear",
    "agent.retrieval.summary_size": 64,
    "agent.retrieval.bottleneck_std": 0.03,
    "agent.retrieval.kl_reduction": "mean",
    "agent.retrieval.gate_bias": -3.0,
    "agent.retrieval.auxiliary.bins": 21,
    "agent.head": {"hidden": (128,), "attention_gain": 0.0},
    "learner": {"optimiser": "muon", "schedule_steps": -1},
    "learner.weights": {"kl": 1e-5, "action": 0.03, "value": 0.03, "reward": 0.03},
    "evaluation.retrieval_batches": 2,
    "evaluate_every": 250,
    "checkpoint_every": 250,
}
"""An agent that learns, and reads, on a CPU in minutes."""

SMOKE: dict[str, Any] = {
    "agent.encoder.hidden": (16,),
    "agent.retrieval": {"slot_size": 8, "key_size": 8, "k_traj": 3, "k_states": 4, "summary_size": 8},
    "agent.head": HeadConfig(attention_heads=2),
    "evaluation.episodes": 2,
    "steps": 20,
    "evaluate_every": 20,
    "checkpoint_every": 10,
}
"""How a laptop preset becomes one that only shows that everything works: as little as there can be of everything."""

READ_ALL_TASKS: dict[str, Any] = {
    "agent.retrieval.trajectories": 32,  # App. BabyAI
    "agent.retrieval.ranking": "attention",  # App. BabyAI
    "agent.retrieval.length": 20,
    "data.learn_from": "all_episodes",
    "data.retrieve_from": "all_tasks",
}
"""App. CausalWorld: the same setup as for BabyAI."""


def of(world: str, *changes: Settings) -> RunConfig:
    """The settings of runs in a world: the defaults of r2a/config and of its environment, then the changes in turn."""
    return override(RunConfig(environment=world, env=world_of(world).settings), *changes)
