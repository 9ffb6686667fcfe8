"""How an agent learns, from what, and how it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from r2a.config.agent import AgentConfig
from r2a.config.rules import require, require_positive
from r2a.config.worlds import CausalWorldConfig


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
    the second half (0: it is constant)."""
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
        require_positive(
            self, "learning_rate", "adam_epsilon", "clip_norm", "huber_delta", "target_period", section="learner."
        )
        require(
            self.schedule_steps >= 0,
            "learner.schedule-steps",
            self.schedule_steps,
            "it must be 0 (a constant rate) or more",
        )
        for name in ("discount", "lambda_", "max_priority_weight"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"learner.{name.replace('_', '-')}", value, "it must lie between 0 and 1")


@dataclass(frozen=True)
class DataConfig:
    """Which data are learnt from, and how a batch is drawn."""

    dataset: str = "gridroboman-scripted"
    """Name under datasets/ or path of the data set."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks to learn (default: the first so many of the data set)."""
    num_tasks: int = 10
    """How many tasks: the first 10, 20 or 30 of gridroboman's list, for example (0: all there are)."""
    episodes_per_task: int = 0
    """How many episodes of each task are used, the first ones (0: all)."""
    task_input: Literal["none", "one_hot"] = "none"
    """none: the agent is never told its task."""
    tasks_per_step: int = 4  # ours
    """Tasks in one learner step, each with a retrieval batch of its own."""
    batch_size: int = 256  # App. gridroboman hyperparameters; shared by the tasks of a step
    """Sequences in one learner step, shared by its tasks."""
    sequence_steps: int = 1  # 1: transitions
    """Steps in each of them; agents with a memory need more than one."""
    burn_in: int = 0  # ours
    """Steps before those, over which the memory is brought up to date and nothing is learnt."""
    learn_from: Literal["learning_episodes", "all_episodes"] = "learning_episodes"
    """learning_episodes: from those that the data set keeps for learning; the others are read. all_episodes: every
    learner step deals out all episodes anew, to be learnt from or to be read."""
    retrieval_fraction: float = 0.25  # ours
    """With all_episodes: the share that is read in a step (one over a whole number); the others are learnt from."""
    retrieve_from: Literal["same_task", "all_tasks", "random_task"] = "same_task"
    """Whose episodes are read: the task's own; all tasks', together; or, as a control, those of a random task, which is
    as much computation but says nothing about the task at hand."""

    def __post_init__(self) -> None:
        require_positive(self, "tasks_per_step", "batch_size", "sequence_steps", section="data.")
        require(self.num_tasks >= 0, "data.num-tasks", self.num_tasks, "it must not be negative")
        require(
            self.episodes_per_task >= 0, "data.episodes-per-task", self.episodes_per_task, "it must be 0 (all) or more"
        )
        require(len(set(self.tasks)) == len(self.tasks), "data.tasks", self.tasks, "it must name no task twice")
        require(self.burn_in >= 0, "data.burn-in", self.burn_in, "it must not be negative")
        rule = "it must be one over a whole number of 2 or more"
        share = self.retrieval_fraction
        fits = 0 < share <= 0.5 and abs(share * self.one_in - 1) < 1e-6
        require(fits, "data.retrieval-fraction", share, rule)
        require(
            not self.num_tasks or self.tasks_per_step <= self.num_tasks,
            "data.tasks-per-step",
            self.tasks_per_step,
            f"there are only data.num-tasks = {self.num_tasks} tasks",
        )
        require(
            self.batch_size % self.tasks_per_step == 0,
            "data.batch-size",
            self.batch_size,
            f"it must be a multiple of data.tasks-per-step = {self.tasks_per_step}",
        )

    @property
    def one_in(self) -> int:
        """With all_episodes: one of so many is read in a step."""
        return round(1 / self.retrieval_fraction)


FoundValues = Literal["as_read", "shuffled", "mean"]
"""What is found where an agent reads."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Acting in the environment, per task, over several retrieval batches (one batch is noisy)."""

    episodes: int = 8
    """Episodes per task and retrieval batch."""
    retrieval_batches: int = 4
    """Retrieval batches per task."""
    trajectories: int = 0
    """Trajectories of each task in a retrieval batch (0: as in training)."""
    values: FoundValues = "as_read"
    """What is found where the agent reads: what happened next there; what happened next at another state of the batch;
    or the mean of it all. An agent that does as well without the first has no use for what it reads."""
    epsilon: float = 6.5e-4  # Table 5
    """Share of random actions."""
    steps: int = 128  # ours
    """Longest episode of BabyAI; gridroboman's all have 50 steps."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes", "retrieval_batches", "steps", section="evaluation.")
        rule = "it must be 0 (as in training) or more"
        require(self.trajectories >= 0, "evaluation.trajectories", self.trajectories, rule)
        require(0 <= self.epsilon <= 1, "evaluation.epsilon", self.epsilon, "it must lie between 0 and 1")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers; saved in its folder."""

    environment: tyro.conf.Suppress[Literal["gridroboman", "babyai", "causalworld"]] = "gridroboman"
    """The world: on the command line, what follows `r2a train`."""
    agent: Annotated[AgentConfig, tyro.conf.arg(name="")] = field(default_factory=AgentConfig)
    """Its parts are options of their own: --retrieval.k-traj rather than --agent.retrieval.k-traj."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    causalworld: CausalWorldConfig = field(default_factory=CausalWorldConfig)
    seed: int = 0
    """Decides initial parameters, batches and noise."""
    steps: int = 100_000
    """Learner steps."""
    steps_per_call: int = 100
    """Learner steps inside one compiled call."""
    evaluate_every: int = 5_000
    """Learner steps between evaluations."""
    checkpoint_every: int = 5_000
    """Learner steps between checkpoints."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "steps_per_call", "evaluate_every", "checkpoint_every")
        for name in ("steps", "evaluate_every", "checkpoint_every"):
            require(
                getattr(self, name) % self.steps_per_call == 0,
                name.replace("_", "-"),
                getattr(self, name),
                f"it must be a multiple of steps-per-call = {self.steps_per_call}",
            )
