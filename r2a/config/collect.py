"""How an offline data set is made."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from r2a.config.agent import AgentConfig, RetrievalConfig
from r2a.config.rules import require, require_positive
from r2a.config.run import EnvSettings, LearnerConfig


@dataclass(frozen=True)
class ExpertSettings:
    """What can be set of a world's expert; worlds whose expert has settings have a class of their own."""


@dataclass(frozen=True)
class OnlineCollectConfig:
    """A DQN that learns each task online (App. gridroboman setup), where the world runs inside compiled programs."""

    boards: int = 64
    """Episodes played at once, between two rounds of learning."""
    updates_per_round: int = 64
    """Learner steps in a round."""
    memory: int = 4_096
    """Episodes in the replay memory."""
    epsilon_first: float = 1.0
    """Share of random actions at the start."""
    epsilon_last: float = 0.05
    """Share of random actions in the end."""
    epsilon_fraction: float = 0.3
    """Exploration falls linearly over this share of the episodes."""
    batch_size: int = 256
    """Transitions in a learner step."""
    agent: AgentConfig = field(  # App.: a 3-layer MLP with 256 units
        default_factory=lambda: AgentConfig(retrieval=RetrievalConfig(variant="none"))
    )
    learner: LearnerConfig = field(
        default_factory=lambda: LearnerConfig(learning_rate=1e-3, discount=0.95, target_period=200)
    )

    def __post_init__(self) -> None:
        require(1 <= self.boards <= self.memory, "online.boards", self.boards, "it must lie between 1 and memory")
        require_positive(self, "updates_per_round", "epsilon_fraction", "batch_size", section="online.")
        variant, rule = self.agent.retrieval.variant, "there is nothing to read while data are made"
        require(variant == "none", "online.agent.retrieval.variant", variant, rule)


@dataclass(frozen=True)
class CollectConfig:
    """How many episodes of which tasks, by whom."""

    method: Literal["expert", "online"] = "expert"
    """expert: the world's own, with a ladder of noise; online: the paper's way for gridroboman, a DQN that learns each
    task and whose episodes are all recorded."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks; their order numbers them (default: the first num-tasks)."""
    num_tasks: int = 0
    """How many tasks, if they are not named: the first so many (0: all there are)."""
    episodes: int = 1_000
    """Episodes per task."""
    ladder: tuple[float, ...] = (0.0,)
    """Levels of the expert's noise; the episodes of a task take turns."""
    retrieval_fraction: float = 0.25
    """Share of the episodes that is kept for retrieval."""
    seed: int = 0
    """Decides all episodes; what an episode is depends on nothing but the settings, its task and its number."""
    workers: int = os.cpu_count() or 1
    """Processes; the data do not depend on it."""
    limit_seconds: float = 60.0
    """Processor time of one episode; beyond it its seed is dropped, and the next one taken."""
    env: EnvSettings = field(default_factory=EnvSettings)
    expert: ExpertSettings = field(default_factory=ExpertSettings)
    online: OnlineCollectConfig = field(default_factory=OnlineCollectConfig)

    def __post_init__(self) -> None:
        require(len(set(self.tasks)) == len(self.tasks), "tasks", self.tasks, "it must name no task twice")
        require(self.num_tasks >= 0, "num-tasks", self.num_tasks, "it must be 0 (all) or more")
        require(self.episodes >= 2, "episodes", self.episodes, "it must be at least 2: one to learn, one to retrieve")
        rule = "it must list levels of noise of 0 or more"
        require(len(self.ladder) > 0 and min(self.ladder) >= 0, "ladder", self.ladder, rule)
        require_positive(self, "workers", "limit_seconds")
        require(self.seed >= 0, "seed", self.seed, "it must not be negative")
        share = self.retrieval_fraction
        require(0 < share < 1, "retrieval-fraction", share, "it must lie between 0 and 1")
