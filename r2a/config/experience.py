"""What an agent learns from: a data set, or a replay that it fills while it acts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from r2a.config.rules import require, require_positive

if TYPE_CHECKING:
    from r2a.config.run import RunConfig


@dataclass(frozen=True)
class Experience:
    """A data set or a replay."""

    def check(self, run: RunConfig) -> None:
        """Refuse a run's settings that do not go with it."""


@dataclass(frozen=True)
class DataConfig:
    """Which data are learnt from, and how a batch is drawn."""

    dataset: str = ""
    """Name under datasets/ or path of the data set."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks to learn (default: the first num-tasks of the data set)."""
    num_tasks: int = 10
    """How many tasks, if they are not named: the first so many (0: all there are)."""
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
        episodes = self.episodes_per_task
        require(episodes >= 0, "data.episodes-per-task", episodes, "it must be 0 (all) or more")
        require(len(set(self.tasks)) == len(self.tasks), "data.tasks", self.tasks, "it must name no task twice")
        require(self.burn_in >= 0, "data.burn-in", self.burn_in, "it must not be negative")
        rule = "it must be one over a whole number of 2 or more"
        share = self.retrieval_fraction
        fits = 0 < share <= 0.5 and abs(share * self.one_in - 1) < 1e-6
        require(fits, "data.retrieval-fraction", share, rule)
        at_once = self.tasks_per_step
        rule = f"there are only data.num-tasks = {self.num_tasks} tasks"
        require(not self.num_tasks or at_once <= self.num_tasks, "data.tasks-per-step", at_once, rule)
        rule = f"it must be a multiple of data.tasks-per-step = {at_once}"
        require(self.batch_size % at_once == 0, "data.batch-size", self.batch_size, rule)

    @property
    def one_in(self) -> int:
        """With all_episodes: one of so many is read in a step."""
        return round(1 / self.retrieval_fraction)


@dataclass(frozen=True)
class FromDataset(Experience):
    """Learning from a data set (Sec. 3.2 to 3.4); a run's steps are learner steps."""

    data: DataConfig = field(default_factory=DataConfig)
    steps_per_call: int = 100
    """Learner steps inside one compiled call."""

    def check(self, run: RunConfig) -> None:
        """Evaluations and checkpoints come between compiled calls."""
        require_positive(self, "steps_per_call")
        _require_multiples(run, self.steps_per_call, "steps-per-call")


@dataclass(frozen=True)
class ReplayConfig:
    """The replay of sequences (App. Atari, Table 3; R2D2)."""

    kind: Literal["prioritised", "uniform"] = "prioritised"  # Table 3
    """uniform: every sequence is as likely as any other."""
    capacity: int = 100_000  # Table 3
    """Blocks of `period` steps that are kept; a sequence begins with each."""
    minimum: int = 5_000  # Table 3
    """Sequences that must be there before anything is learnt."""
    trace: int = 80  # Table 3
    """Steps in a sequence."""
    period: int = 40  # Table 3
    """Steps between the starts of two sequences."""
    burn_in: int = 0  # ours: not listed in the paper
    """Steps before a sequence, over which the memory is brought up to date and nothing is learnt."""
    stack: int = 1  # ours
    """Frames that make one observation: the newest and those just before it, put together when a sequence is read."""
    priority_exponent: float = 0.9  # Table 3
    """How much likelier a sequence with a larger error is drawn (0: not at all)."""
    importance_exponent: float = 0.6  # Table 3
    """How much of that is undone by the weight of a sequence in the loss (0: nothing, 1: all)."""
    priority_floor: float = 1e-6  # ours
    """Lowest priority, so that a sequence without any error may be drawn again."""
    memory_share: float = 0.5  # ours
    """Share of the machine's memory that frames may take; more of them need a file."""

    def __post_init__(self) -> None:
        positive = ("capacity", "minimum", "trace", "period", "stack", "priority_floor", "memory_share")
        require_positive(self, *positive, section="replay.")
        rule = f"there is only room for replay.capacity = {self.capacity} sequences"
        require(self.minimum <= self.capacity, "replay.minimum", self.minimum, rule)
        rule = f"it must not be less than replay.period = {self.period}, or steps would be left out"
        require(self.trace >= self.period, "replay.trace", self.trace, rule)
        require(self.burn_in >= 0, "replay.burn-in", self.burn_in, "it must not be negative")
        for name in ("priority_exponent", "importance_exponent"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"replay.{name.replace('_', '-')}", value, "it must lie between 0 and 1")
        require(self.memory_share <= 1, "replay.memory-share", self.memory_share, "it must not be more than 1")


@dataclass(frozen=True)
class ActingConfig:
    """Environments that fill the replay."""

    num_envs: int = 16  # ours; R2D2 has 256 actors
    """Environments side by side."""
    epsilon: float = 0.4  # R2D2
    """Share of random actions in the environment that explores most."""
    epsilon_exponent: float = 7.0  # R2D2
    """The share where least is explored is epsilon to the power of one plus this."""
    steps_per_turn: int = 40  # ours
    """Steps of every environment between two turns of the learner."""
    samples_per_insert: float = 4.0  # ours
    """How often, on average, a sequence is learnt from."""
    refresh_turns: int = 1  # ours
    """Turns after which the actors' retrieval batch is drawn and encoded anew, with the parameters of that moment."""

    def __post_init__(self) -> None:
        require_positive(self, "num_envs", "steps_per_turn", "samples_per_insert", "refresh_turns", section="acting.")
        require(0 <= self.epsilon <= 1, "acting.epsilon", self.epsilon, "it must lie between 0 and 1")
        require(self.epsilon_exponent >= 0, "acting.epsilon-exponent", self.epsilon_exponent, "it must not be negative")


@dataclass(frozen=True)
class FromReplay(Experience):
    """Learning while acting (Sec. 3.1); a run's steps are steps of all environments together."""

    replay: ReplayConfig = field(default_factory=ReplayConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    batch_size: int = 64  # App. Atari hyperparameters
    """Sequences that an update learns from; retrieval.trajectories others, without a frame in common, are read."""

    @property
    def steps_per_turn(self) -> int:
        """Steps of all environments together in one turn."""
        return self.acting.num_envs * self.acting.steps_per_turn

    def check(self, run: RunConfig) -> None:
        """There must be enough to draw from, and turns that come out even."""
        require_positive(self, "batch_size")
        names = "acting.num-envs x acting.steps-per-turn x acting.refresh-turns"
        _require_multiples(run, self.steps_per_turn * self.acting.refresh_turns, names)
        retrieval, replay = run.agent.retrieval, self.replay
        read, window = retrieval.trajectories, replay.stack - 1 + replay.burn_in + replay.trace + 1
        neighbours = -(-window // replay.period) - 1  # on either side, sequences that share a frame with one
        needed = read + (1 + 2 * neighbours) * self.batch_size
        rule = f"{self.batch_size} sequences to learn from and {read} that share no frame with them need {needed}"
        require(not retrieval.needs_batch or replay.minimum >= needed, "replay.minimum", replay.minimum, rule)
        loss, rule = run.learner.loss, "an agent that learns while it acts has nobody to clone"
        require(loss != "cloning", "learner.loss", loss, rule)
        rule = "what is read are the replay's sequences, of replay.burn-in + replay.trace steps"
        require(retrieval.length == 0, "retrieval.length", retrieval.length, rule)
        states = retrieval.k_traj * (replay.burn_in + replay.trace)
        enough = not retrieval.reads or retrieval.num_neighbours > 0 or retrieval.k_states <= states
        rule = f"only {states} states are there to choose from"
        require(enough, "retrieval.k-states", retrieval.k_states, rule)


def _require_multiples(run: RunConfig, of: int, named: str) -> None:
    for name in ("steps", "evaluate_every", "checkpoint_every"):
        value = getattr(run, name)
        require(value % of == 0, name.replace("_", "-"), value, f"it must be a multiple of {named} = {of}")
