"""What a run is: nested frozen dataclasses, validated where they are made.

Each value that comes from the paper names its place; "ours" marks a choice the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from r2a.errors import UserError


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Refuse a setting with one sentence that names the field, the value and the rule."""
    if not condition:
        raise UserError(f"{name} is {value!r}, but {rule}.")


def require_positive(config: object, *names: str, section: str = "") -> None:
    """Refuse zero and negative values of the named fields, which are options --SECTION.NAME."""
    for name in names:
        value = getattr(config, name)
        require(value > 0, f"{section}{name.replace('_', '-')}", value, "it must be greater than zero")


@dataclass(frozen=True)
class EncoderConfig:
    """From an observation to the agent state s (Sec. 2.1)."""

    features: Literal["raw", "positions"] = "raw"
    """raw: the numbers as they are; positions: one-hot coordinates and relative positions of what is on the board."""
    hidden: tuple[int, ...] = (256, 256)  # App. gridroboman setup: the first two of three layers
    """Sizes of its layers; the last one is the agent state's."""

    def __post_init__(self) -> None:
        require(
            len(self.hidden) > 0 and min(self.hidden) > 0,
            "encoder.hidden",
            self.hidden,
            "it must list at least one layer size, all greater than zero",
        )


@dataclass(frozen=True)
class HeadConfig:
    """From the agent state to one Q-value per action."""

    hidden: tuple[int, ...] = ()  # App. gridroboman setup: the last layer predicts Q
    """Sizes of the layers between the agent state and the Q-values."""
    attention_heads: int = 4  # ours
    """Heads of the cross-attention from the agent state to the retrieved z."""

    def __post_init__(self) -> None:
        require_positive(self, "attention_heads", section="head.")


@dataclass(frozen=True)
class AuxiliaryConfig:
    """Action, value and reward prediction from the summaries (Sec. 2.2, App. auxiliary losses)."""

    bins: int = 601  # MuZero
    """Bins of the categorical value and reward predictions."""
    low: float = -300.0  # MuZero: the support, after the h(x) transform
    """Lowest bin, after MuZero's h(x)."""
    high: float = 300.0  # MuZero
    """Highest bin, after MuZero's h(x)."""
    discount: float = 0.99
    """Discount of the return to go that the value head predicts."""

    def __post_init__(self) -> None:
        require(self.bins >= 2, "auxiliary.bins", self.bins, "a support needs at least 2 bins")
        require(self.low < self.high, "auxiliary.low", self.low, "it must lie below auxiliary.high")


@dataclass(frozen=True)
class RetrievalConfig:
    """The retrieval process (Sec. 2.2, 2.3, Algorithm 1) and its ablations."""

    variant: Literal["none", "full", "agent_query", "slots_only"] = "full"
    """none: the plain agent; full: Algorithm 1; agent_query: ablation A-1; slots_only: ablation A-2."""
    slots: int = 4  # App. gridroboman hyperparameters
    """Slots, each with a query of its own."""
    slot_size: int = 256  # ours
    """Numbers in a slot's state and in what it retrieves."""
    key_size: int = 256  # ours
    """Numbers in a query and in a key."""
    trajectories: int = 64  # App. gridroboman hyperparameters: n_retrieval, per task
    """Trajectories in a retrieval batch, per task."""
    length: int = 0  # ours: 0 is the whole episode; ablation A-3 sets 5
    """Steps of each retrieved trajectory that are summarised (0: all of them)."""
    piece: Literal["start", "random"] = "random"  # ours
    """Where those steps lie: at the episode's start, or anywhere in it."""
    k_traj: int = 10  # Sec. 3
    """Trajectories that are read of them."""
    k_states: int = 10  # Sec. 3
    """States each slot reads (0: all of the chosen trajectories)."""
    ranking: Literal["attention", "return"] = "return"  # App. gridroboman hyperparameters
    """Which those are: the most relevant to the query, or the best."""
    similar_states: int = 0  # App. computational complexity, switched off
    """Read only from this many states nearest to the agent's own (0: from all)."""
    retrievals_per_step: int = 1  # App. "improvements tried"
    """Rounds of steps 1 to 5 of Algorithm 1 at every step."""
    slot_periods: tuple[int, ...] = ()  # App. "improvements tried"
    """Slot k retrieves every slot_periods[k] steps (empty: all at every step). Only agents that carry their slots from
    step to step have use for it; DQN learns from single states and starts each with fresh slots."""
    summariser: Literal["gru", "transformer", "linear"] = "gru"  # Sec. 3
    """What makes the summaries of past and future."""
    summary_size: int = 256  # App. gridroboman hyperparameters
    """Numbers in a summary."""
    summary_layers: int = 1  # ours; used by the transformer
    """Layers of the transformer summariser."""
    bottleneck: Literal["gaussian", "identity"] = "gaussian"  # Sec. 2.3 step 4; identity: "without IB"
    """identity: retrieved information passes freely (without IB)."""
    bottleneck_std: float = 0.3  # ours
    """Standard deviation of p(z | g) and r(z | m) before anything is learnt."""
    kl_reduction: Literal["sum", "mean"] = "sum"  # ours: the paper does not say
    """How the KL of a slot's dimensions becomes one number."""
    update: Literal["gated", "sum"] = "gated"  # App. implementation details; sum: Algorithm 1 as printed
    """gated: GRU-style gate and layer norm; sum: Algorithm 1 as printed."""
    slot_update: Literal["gru", "transformer"] = "gru"  # Algorithm 1; transformer: A-2 as Sec. 3.1.1 words it
    """Step 1 of ablation A-2 (slots_only); the others use a GRU."""
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)

    def __post_init__(self) -> None:
        require_positive(
            self,
            "slots",
            "slot_size",
            "key_size",
            "trajectories",
            "k_traj",
            "retrievals_per_step",
            "summary_size",
            "summary_layers",
            "bottleneck_std",
            section="retrieval.",
        )
        require(
            self.k_traj <= self.trajectories,
            "retrieval.k-traj",
            self.k_traj,
            f"only retrieval.trajectories = {self.trajectories} trajectories are there to choose from",
        )
        require(self.k_states >= 0, "retrieval.k-states", self.k_states, "it must be 0 (all) or more")
        require(self.length >= 0, "retrieval.length", self.length, "it must be 0 (whole episodes) or more")
        require(
            self.similar_states >= 0, "retrieval.similar-states", self.similar_states, "it must be 0 (no limit) or more"
        )
        if self.length:
            require(
                self.k_states <= self.k_traj * self.length,
                "retrieval.k-states",
                self.k_states,
                f"k-traj x length = {self.k_traj * self.length} states are there to choose from",
            )
        if self.similar_states:
            require(
                self.k_states <= self.similar_states,
                "retrieval.k-states",
                self.k_states,
                f"retrieval.similar-states leaves {self.similar_states} candidates",
            )
        require(
            not self.slot_periods or (len(self.slot_periods) == self.slots and min(self.slot_periods) > 0),
            "retrieval.slot-periods",
            self.slot_periods,
            f"it must list one period greater than zero for each of the {self.slots} slots, or be empty",
        )


@dataclass(frozen=True)
class AgentConfig:
    """Agent = encoder + retrieval + head."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    head: HeadConfig = field(default_factory=HeadConfig)


@dataclass(frozen=True)
class LossWeights:
    """Weights of the named losses; the RL loss has weight one."""

    kl: float = 0.3  # App. gridroboman hyperparameters: beta
    """The bottleneck's price (beta)."""
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
    """Double DQN (App. gridroboman hyperparameters, Table 3)."""

    optimiser: Literal["adam", "muon"] = "adam"  # Table 3
    """muon: orthogonalised steps for all parameters with two axes, Adam for all else."""
    learning_rate: float = 3e-4  # Table 3
    """At its peak, if there is a schedule."""
    schedule_steps: int = 0  # ours
    """Over this many steps the learning rate rises from a tenth in the first twentieth, and falls to a tenth again in
    the second half (0: it is constant)."""
    adam_epsilon: float = 1e-8  # ours: optax's default
    """Added to Adam's denominator."""
    clip_norm: float = 40.0  # App. Atari, Table 2
    """Longest gradient."""
    discount: float = 0.99  # Table 3
    """Of future rewards."""
    huber: float = 1.0  # Table 3
    """Size of a TD error from which on the loss is linear."""
    target_period: int = 2500  # Table 3
    """Learner steps between two copies to the target network."""
    weights: LossWeights = field(default_factory=LossWeights)

    def __post_init__(self) -> None:
        require_positive(
            self, "learning_rate", "adam_epsilon", "clip_norm", "huber", "target_period", section="learner."
        )
        require(
            self.schedule_steps >= 0,
            "learner.schedule-steps",
            self.schedule_steps,
            "it must be 0 (a constant rate) or more",
        )
        require(0 <= self.discount <= 1, "learner.discount", self.discount, "it must lie between 0 and 1")


@dataclass(frozen=True)
class DataConfig:
    """Which data are learnt from, and how a batch is drawn."""

    dataset: str = "gridroboman-scripted"
    """Name under datasets/ or path of the data set."""
    num_tasks: int = 10
    """The first 10, 20 or 30 tasks of the paper's list."""
    task_input: Literal["none", "one_hot"] = "none"
    """none: the agent is never told its task."""
    tasks_per_step: int = 4  # ours
    """Tasks in one learner step, each with a retrieval batch of its own."""
    batch_size: int = 256  # App. gridroboman hyperparameters; shared by the tasks of a step
    """Transitions in one learner step, shared by its tasks."""
    retrieve_from: Literal["same_task", "random_task"] = "same_task"
    """random_task is the control: as much computation, but what is read says nothing about the task at hand."""

    def __post_init__(self) -> None:
        require_positive(self, "num_tasks", "tasks_per_step", "batch_size", section="data.")
        require(
            self.tasks_per_step <= self.num_tasks,
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


@dataclass(frozen=True)
class EvaluationConfig:
    """Acting in the environment, per task, over several retrieval batches (one batch is noisy)."""

    episodes: int = 8
    """Episodes per task and retrieval batch."""
    retrieval_batches: int = 4
    """Retrieval batches per task."""
    epsilon: float = 6.5e-4  # Table 3
    """Share of random actions."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes", "retrieval_batches", section="evaluation.")
        require(0 <= self.epsilon <= 1, "evaluation.epsilon", self.epsilon, "it must lie between 0 and 1")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers; saved in its folder."""

    environment: Literal["gridroboman"] = "gridroboman"
    """The world; there is one so far."""
    agent: Annotated[AgentConfig, tyro.conf.arg(name="")] = field(default_factory=AgentConfig)
    """Its parts are options of their own: --retrieval.k-traj rather than --agent.retrieval.k-traj."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
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


def config_from_dict(kind: type, values: Mapping[str, Any], where: str = "config") -> Any:
    """The config that `dataclasses.asdict` (and JSON) made `values` of; anything unknown or ill-typed is refused."""
    hints = get_type_hints(kind)
    unknown = set(values) - {f.name for f in fields(kind)}
    if unknown:
        raise UserError(f"{where} has an unknown entry {sorted(unknown)[0]!r}; it may come from another version.")
    return kind(**{name: _typed(hints[name], value, f"{where}.{name}") for name, value in values.items()})


def _typed(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(value, Mapping):
        return config_from_dict(hint, value, where)  # type: ignore[arg-type]
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(_typed(get_args(hint)[0], entry, where) for entry in value)
    if get_origin(hint) is Literal:
        require(value in get_args(hint), where, value, f"it must be one of {', '.join(map(str, get_args(hint)))}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    require(type(value) is hint, where, value, f"it must be of type {getattr(hint, '__name__', hint)}")
    return value
