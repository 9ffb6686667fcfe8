"""How an agent learns, from what, and how it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from r2a.config.agent import AgentConfig
from r2a.config.experience import ActingConfig, DataConfig, Experience, FromDataset, FromReplay, ReplayConfig
from r2a.config.rules import require, require_positive


@dataclass(frozen=True)
class LossWeights:
    """Weights of the named losses; the RL loss has weight one."""

    kl: float = 0.3  # App. gridroboman hyperparameters: beta
    """The bottleneck's KL (beta)."""
    action: float = 0.1  # App. gridroboman hyperparameters
    """Prediction of actions from the summaries."""
    value: float = 0.1  # App. gridroboman hyperparameters
    """Prediction of returns from the summaries."""
    reward: float = 0.1  # App. gridroboman hyperparameters
    """Prediction of rewards from the summaries."""

    def __post_init__(self) -> None:
        for name in ("kl", "action", "value", "reward"):
            require(getattr(self, name) >= 0, f"weights.{name}", getattr(self, name), "it must not be negative")


@dataclass(frozen=True)
class LearnerConfig:
    """Double DQN (App. gridroboman hyperparameters, Table 5), R2D2 (Table 3), or behaviour cloning (Sec. 3.4)."""

    loss: str = "q_learning"  # Table 5; squashed_q_lambda: Table 3, R2D2
    """q_learning: double Q-learning; squashed_q_lambda: that with Q(lambda) returns, on the scale of h(x); cloning: the
    actions in the data, whatever they brought."""
    optimiser: Literal["adam", "muon"] = "adam"  # Table 5
    """muon: orthogonalised steps for all parameters with two axes, Adam for all else."""
    learning_rate: float = 3e-4  # Table 5
    """At its peak, if there is a schedule."""
    schedule_steps: int = 0  # ours
    """Over this many steps the learning rate rises from a tenth in the first twentieth, and falls to a tenth again in
    the second half (0: it is constant; -1: over all learner steps of the run)."""
    adam_epsilon: float = 1e-8  # ours: optax's default
    """Added to Adam's denominator."""
    clip_norm: float = 40.0  # App. Atari, Table 3
    """Longest gradient."""
    discount: float = 0.99  # Table 5
    """Of future rewards."""
    huber_delta: float = 1.0  # Table 5
    """Size of a TD error from which on the loss is linear."""
    lambda_: float = 0.8  # Table 3: Q's lambda
    """lambda of Q(lambda) returns."""
    max_priority_weight: float = 0.9  # R2D2's eta
    """Share of the largest TD error, against the mean, in a sequence's priority."""
    target_period: int = 2500  # Table 5
    """Learner steps between two copies to the target network."""
    weights: LossWeights = field(default_factory=LossWeights)

    def __post_init__(self) -> None:
        positive = ("learning_rate", "adam_epsilon", "clip_norm", "huber_delta", "target_period")
        require_positive(self, *positive, section="learner.")
        rule = "it must be -1 (all of the run), 0 (a constant rate) or more"
        require(self.schedule_steps >= -1, "learner.schedule-steps", self.schedule_steps, rule)
        for name in ("discount", "lambda_", "max_priority_weight"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"learner.{name.replace('_', '-')}", value, "it must lie between 0 and 1")


Values = Literal["as_read", "shuffled", "mean"]
"""What is found where an agent reads."""
Source = Literal["right", "wrong", "random", "all_tasks"]
"""Whose episodes are read: the played task's, another one's, any one's, or all tasks' together."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Whole episodes by the greedy agent, per task, over several retrieval batches (one batch is noisy)."""

    episodes: int = 8
    """Episodes per task and retrieval batch."""
    retrieval_batches: int = 4
    """Retrieval batches per task, of a data set."""
    trajectories: int = 0
    """Trajectories of each task in a retrieval batch (0: as in training)."""
    sources: tuple[Source, ...] = ()
    """Whose episodes of a data set are read, in turn (empty: the same as in training)."""
    values: Values = "as_read"
    """What is found where the agent reads: what happened next there; what happened next at another state of the batch;
    or the mean of it all. An agent that does as well without the first has no use for what it reads."""
    epsilon: float = 6.5e-4  # Table 5
    """Share of random actions."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes", "retrieval_batches", section="evaluation.")
        rule = "it must be 0 (as in training) or more"
        require(self.trajectories >= 0, "evaluation.trajectories", self.trajectories, rule)
        require(0 <= self.epsilon <= 1, "evaluation.epsilon", self.epsilon, "it must lie between 0 and 1")


@dataclass(frozen=True)
class EnvSettings:
    """What can be set of an environment; every world that has settings has a class of its own."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers; saved in its folder."""

    environment: tyro.conf.Suppress[str] = ""
    """The world: on the command line, what follows `r2a train`."""
    env: EnvSettings = field(default_factory=EnvSettings)
    """Its settings."""
    agent: Annotated[AgentConfig, tyro.conf.arg(name="")] = field(default_factory=AgentConfig)
    """Its parts are options of their own: --retrieval.k-traj rather than --agent.retrieval.k-traj."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    experience: Annotated[Experience, tyro.conf.arg(name="")] = field(default_factory=FromDataset)
    """A data set, or a replay: their parts are options of their own, too."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0
    """Decides initial parameters, batches, noise, and the episodes that are played."""
    steps: int = 100_000
    """Learner steps; of an agent that learns while it acts, steps of all environments together."""
    evaluate_every: int = 5_000
    """Steps between evaluations."""
    checkpoint_every: int = 5_000
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "evaluate_every", "checkpoint_every")
        self.experience.check(self)

    @property
    def is_online(self) -> bool:
        """Whether the agent learns while it acts."""
        return isinstance(self.experience, FromReplay)

    @property
    def from_dataset(self) -> FromDataset:
        """What it learns from, which is a data set."""
        assert isinstance(self.experience, FromDataset)
        return self.experience

    @property
    def from_replay(self) -> FromReplay:
        """What it learns from, which is a replay."""
        assert isinstance(self.experience, FromReplay)
        return self.experience

    @property
    def data(self) -> DataConfig:
        """Which data are learnt from, and how."""
        return self.from_dataset.data

    @property
    def replay(self) -> ReplayConfig:
        """What is kept of what was done."""
        return self.from_replay.replay

    @property
    def acting(self) -> ActingConfig:
        """How experience is made."""
        return self.from_replay.acting
