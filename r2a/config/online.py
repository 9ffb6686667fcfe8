"""How an agent learns while it acts (Sec. 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from r2a.config.agent import AgentConfig
from r2a.config.replay import ReplayConfig
from r2a.config.rules import require, require_positive
from r2a.config.run import LearnerConfig
from r2a.config.worlds import AtariConfig, MinAtarConfig


@dataclass(frozen=True)
class ActingConfig:
    """Games that are played side by side to fill the replay."""

    lanes: int = 16  # ours; R2D2 has 256 actors
    """Games at a time."""
    epsilon: float = 0.4  # R2D2
    """Share of random actions in the most curious lane."""
    epsilon_exponent: float = 7.0  # R2D2
    """The least curious lane's share is epsilon to the power of one plus this."""
    steps_per_turn: int = 40  # ours
    """Steps of every lane between two turns of the learner."""
    samples_per_insert: float = 4.0  # ours
    """How often, on average, a sequence is learnt from."""
    refresh_turns: int = 1  # ours
    """Turns after which the actors' retrieval batch is drawn and encoded anew, with the parameters of that moment."""

    def __post_init__(self) -> None:
        require_positive(self, "lanes", "steps_per_turn", "samples_per_insert", "refresh_turns", section="acting.")
        require(0 <= self.epsilon <= 1, "acting.epsilon", self.epsilon, "it must lie between 0 and 1")
        require(self.epsilon_exponent >= 0, "acting.epsilon-exponent", self.epsilon_exponent, "it must not be negative")


@dataclass(frozen=True)
class PlayConfig:
    """Evaluation: whole episodes by the greedy agent."""

    episodes: int = 10
    """Episodes, side by side."""
    epsilon: float = 0.01  # Table 3
    """Share of random actions."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes", section="play.")
        require(0 <= self.epsilon <= 1, "play.epsilon", self.epsilon, "it must lie between 0 and 1")


@dataclass(frozen=True)
class OnlineConfig:
    """Everything that decides an online run's numbers; saved in its folder."""

    environment: tyro.conf.Suppress[Literal["atari", "minatar"]] = "minatar"
    """The world: on the command line, what follows `r2a train`."""
    atari: AtariConfig = field(default_factory=AtariConfig)
    minatar: MinAtarConfig = field(default_factory=MinAtarConfig)
    agent: Annotated[AgentConfig, tyro.conf.arg(name="")] = field(default_factory=AgentConfig)
    """Its parts are options of their own: --retrieval.k-traj rather than --agent.retrieval.k-traj."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    play: PlayConfig = field(default_factory=PlayConfig)
    batch_size: int = 64  # App. Atari hyperparameters
    """Sequences that an update learns from; retrieval.trajectories others, without a frame in common, are read."""
    seed: int = 0
    """Decides initial parameters, games, batches and noise."""
    steps: int = 1_000_000
    """Steps of the environment, all lanes together."""
    evaluate_every: int = 100_000
    """Steps of the environment between evaluations."""
    checkpoint_every: int = 100_000
    """Steps of the environment between checkpoints."""

    def __post_init__(self) -> None:
        require_positive(self, "batch_size", "steps", "evaluate_every", "checkpoint_every")
        per_turn = self.steps_per_turn
        for name in ("steps", "evaluate_every", "checkpoint_every"):
            require(
                getattr(self, name) % (per_turn * self.acting.refresh_turns) == 0,
                name.replace("_", "-"),
                getattr(self, name),
                f"it must be a multiple of lanes x steps-per-turn x refresh-turns = "
                f"{per_turn * self.acting.refresh_turns}",
            )

        retrieval, replay = self.agent.retrieval, self.replay
        read, window = retrieval.trajectories, replay.stack - 1 + replay.burn_in + replay.trace + 1
        neighbours = -(-window // replay.period) - 1  # on either side, sequences that share a frame with one
        needed = read + (1 + 2 * neighbours) * self.batch_size
        require(
            not self.agent.retrieval.needs_batch or self.replay.minimum >= needed,
            "replay.minimum",
            self.replay.minimum,
            f"{self.batch_size} sequences to learn from and {read} that share no frame with them need {needed}",
        )
        require(
            self.learner.loss != "cloning",
            "learner.loss",
            self.learner.loss,
            "an agent that learns while it acts has nobody to clone",
        )
        require(
            retrieval.length == 0,
            "retrieval.length",
            retrieval.length,
            "what is read are the replay's sequences, of replay.burn-in + replay.trace steps",
        )
        states = retrieval.k_traj * (replay.burn_in + replay.trace)
        require(
            not retrieval.reads or bool(retrieval.num_neighbours) or retrieval.k_states <= states,
            "retrieval.k-states",
            retrieval.k_states,
            f"only {states} states are there to choose from",
        )

    @property
    def steps_per_turn(self) -> int:
        """Steps of all lanes together in one turn."""
        return self.acting.lanes * self.acting.steps_per_turn
