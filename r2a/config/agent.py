"""What an agent is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from r2a.config.rules import require, require_positive


@dataclass(frozen=True)
class EncoderConfig:
    """From an observation to the agent state s (Sec. 2.1)."""

    features: str = "raw"
    """raw: the numbers as they are; resnet47: the paper's convolutions of a stack of frames; strided: few of them, for
    a CPU; strided_half: for pictures of 42 x 42. A world can have encoders of its own."""
    hidden: tuple[int, ...] = (256, 256)  # App. gridroboman setup: the first two of three layers
    """Sizes of its dense layers; the last one is the agent state's, unless there is a memory."""
    cell_size: int = 32  # ours
    """Numbers that a cell of a symbolic view becomes."""
    word_size: int = 32  # ours
    """Numbers that a word, and a whole instruction, become."""

    def __post_init__(self) -> None:
        require_positive(self, "cell_size", "word_size", section="encoder.")
        rule = "it must list at least one layer size, all greater than zero"
        require(len(self.hidden) > 0 and min(self.hidden) > 0, "encoder.hidden", self.hidden, rule)


@dataclass(frozen=True)
class CoreConfig:
    """What the agent remembers of the episode so far (Sec. 3.3)."""

    kind: Literal["none", "gru"] = "none"
    """none: nothing, as DQN; gru: a GRU over what was seen, done and got, as recurrent DQN."""
    size: int = 512  # App. BabyAI, Table 6
    """Numbers in the memory, and in the agent state."""

    def __post_init__(self) -> None:
        require_positive(self, "size", section="core.")


@dataclass(frozen=True)
class HeadConfig:
    """From the agent state to one Q-value per action, or to a distribution of continuous actions."""

    hidden: tuple[int, ...] = ()  # App. gridroboman setup: the last layer predicts Q
    """Sizes of the layers between the agent state and the outputs."""
    num_components: int = 0
    """0: one number per action; otherwise a mixture of so many Gaussians over continuous actions (1: a single one)."""
    min_std: float = 0.01  # ours
    """Least standard deviation of a Gaussian: the smaller, the more those steps count that are nearly all alike."""
    attention_heads: int = 4  # ours
    """Heads of the cross-attention from the agent state to the retrieved z."""
    attention_gain: float = 1.0  # ours
    """Size of that attention's output weights before anything is learnt; 0: Q starts out as a function of s alone."""

    def __post_init__(self) -> None:
        require_positive(self, "attention_heads", section="head.")
        require(0 < self.min_std < 1, "head.min_std", self.min_std, "it must lie between 0 and 1")
        require(self.num_components >= 0, "head.num-components", self.num_components, "it must not be negative")
        require(self.attention_gain >= 0, "head.attention-gain", self.attention_gain, "it must not be negative")


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

    variant: Literal["none", "full", "agent_query", "slots_only", "auxiliary_only"] = "full"
    """none: the plain agent; full: Algorithm 1; agent_query: ablation A-1; slots_only: ablation A-2; auxiliary_only:
    the plain agent, whose encoder also learns by the auxiliary losses of a retrieval batch that it never reads."""
    slots: int = 4  # App. gridroboman hyperparameters
    """Slots, each with a query of its own."""
    slot_size: int = 256  # ours
    """Numbers in a slot's state and in what it retrieves."""
    key_size: int = 256  # ours
    """Numbers in a query and in a key."""
    trajectories: int = 64  # App. gridroboman hyperparameters: n_retrieval, per task
    """Trajectories in a retrieval batch, per task."""
    num_grad_trajectories: int = 0  # ours: 0 is all of them
    """How many of them, per task, teach encoder and summariser (0: all); the others are read without a gradient."""
    length: int = 0  # ours: 0 is the whole episode; ablation A-3 sets 5
    """Steps of each retrieved trajectory that are summarised (0: all of them)."""
    segment: Literal["start", "random"] = "random"  # ours
    """Where those steps lie: at the episode's start, or anywhere in it."""
    k_traj: int = 10  # Sec. 3
    """Trajectories that are read of them."""
    k_states: int = 10  # Sec. 3
    """States each slot reads (0: all of the chosen trajectories)."""
    ranking: Literal["attention", "return"] = "return"  # App. gridroboman hyperparameters
    """Which those are: the most relevant to the query, or the best."""
    num_neighbours: int = 0  # App. computational complexity, switched off
    """Read only the states nearest to the agent's own: one of each of so many trajectories (0: from all states)."""
    query_scale: float = 1.0  # ours
    """Size of the queries before anything is learnt: at 1, ten chosen states out of many get nearly equal weights."""
    retrievals_per_step: int = 1  # App. "improvements tried"
    """Rounds of steps 1 to 5 of Algorithm 1 at every step."""
    slot_periods: tuple[int, ...] = ()  # App. "improvements tried"
    """Slot k retrieves every slot_periods[k] steps (empty: all at every step). Only agents with a memory carry their
    slots from step to step; DQN starts each with fresh slots."""
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
    gate_bias: float = 0.0  # ours
    """Bias of step 6's gate before anything is learnt: the more negative, the more the agent starts out as one without
    retrieval."""
    slot_input: Literal["gru", "transformer"] = "gru"  # Algorithm 1; transformer: A-2 as Sec. 3.1.1 words it
    """Step 1 of ablation A-2 (slots_only); the others use a GRU."""
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)

    def __post_init__(self) -> None:
        positive = ("slots", "slot_size", "key_size", "trajectories", "k_traj", "query_scale", "retrievals_per_step")
        sizes = ("summary_size", "summary_layers", "bottleneck_std")
        require_positive(self, *positive, *sizes, section="retrieval.")
        rule = f"only retrieval.trajectories = {self.trajectories} trajectories are there to choose from"
        require(self.k_traj <= self.trajectories, "retrieval.k-traj", self.k_traj, rule)
        grad = self.num_grad_trajectories
        rule = f"it must be 0 (all) or divide retrieval.trajectories = {self.trajectories}"
        divides = not grad or (grad > 0 and self.trajectories % grad == 0)
        require(divides, "retrieval.num-grad-trajectories", grad, rule)
        rule = "it needs retrieval.ranking attention: ranked by return, only what is read is encoded"
        require(not grad or self.ranking == "attention", "retrieval.num-grad-trajectories", grad, rule)
        require(self.k_states >= 0, "retrieval.k-states", self.k_states, "it must be 0 (all) or more")
        require(self.length >= 0, "retrieval.length", self.length, "it must be 0 (whole episodes) or more")
        near = self.num_neighbours
        require(near >= 0, "retrieval.num-neighbours", near, "it must be 0 (no limit) or more")
        states = self.k_traj * self.length
        rule = f"k-traj x length = {states} states are there to choose from"
        require(not self.length or self.k_states <= states, "retrieval.k-states", self.k_states, rule)
        rule = f"retrieval.num-neighbours leaves {near} candidates"
        require(not near or self.k_states <= near, "retrieval.k-states", self.k_states, rule)
        periods = self.slot_periods
        rule = f"it must list one period greater than zero for each of the {self.slots} slots, or be empty"
        fits = not periods or (len(periods) == self.slots and min(periods) > 0)
        require(fits, "retrieval.slot-periods", periods, rule)

    @property
    def reads(self) -> bool:
        """Whether anything is read from a retrieval batch."""
        return self.variant in ("full", "agent_query")

    @property
    def needs_batch(self) -> bool:
        """Whether there has to be a retrieval batch to learn from."""
        return self.reads or self.variant == "auxiliary_only"


@dataclass(frozen=True)
class AgentConfig:
    """Agent = encoder + memory + retrieval + head."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    core: CoreConfig = field(default_factory=CoreConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
