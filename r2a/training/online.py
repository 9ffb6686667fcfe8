"""Learning while acting: acting and learning in turns, in one process (Sec. 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, Shaped
from safetensors.numpy import load_file

from r2a.agents.actor import AgentPolicy, Randomness
from r2a.agents.agent import Agent
from r2a.config import ActingConfig, RunConfig
from r2a.data.replay import ReplaySpec, SequenceReplay
from r2a.data.replay_files import load_replay, save_replay
from r2a.environments.api import EnvSpec, VectorEnv
from r2a.environments.registry import make
from r2a.training.checkpoint import load_checkpoint, save_arrays, save_checkpoint
from r2a.training.course import Turn
from r2a.training.evaluate import evaluate_online
from r2a.training.learning import Learner, draw, draw_to_read, run_keys
from r2a.training.rollout import Finished, Rollout
from r2a.training.runs import checkpoint_of, read_config
from r2a.training.train import Run
from r2a.types import AgentState, EncodedBatch, LearnerState

GAMES = "games.safetensors"
REPLAY = "replay"


class Counts(NamedTuple):
    """How far a run is."""

    turns: int = 0
    sequences: int = 0
    updates: int = 0


def mean_metrics(steps: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over learner steps; nothing, if there were none."""
    return {name: float(np.mean([metrics[name] for metrics in steps])) for name in (steps[0] if steps else ())}


def make_replay(config: RunConfig, spec: EnvSpec, state_size: int, scratch: Path | None) -> SequenceReplay:
    """An empty replay for the environments of a run; frames that are too many for the memory are kept in `scratch`."""
    frame = ReplaySpec(spec.observation.shape, spec.observation.dtype, state_size=state_size)
    return SequenceReplay(config.replay, frame, config.acting.num_envs, scratch)


class Chunk(NamedTuple):
    """Consecutive rows of every environment, as `SequenceReplay.add` takes them."""

    observation: Shaped[np.ndarray, "envs n ..."]
    action: Int[np.ndarray, "envs n"]
    reward: Float32[np.ndarray, "envs n"]
    discount: Float32[np.ndarray, "envs n"]
    is_first: Bool[np.ndarray, "envs n"]
    is_last: Bool[np.ndarray, "envs n"]
    state: Float32[np.ndarray, "envs n size"]
    present: Bool[np.ndarray, "envs n"]


class ActorState(NamedTuple):
    """Where acting is: what every environment shows and had done to it just before, and what its agent carries."""

    frames: Shaped[np.ndarray, "envs stack ..."]
    action: Int[np.ndarray, " envs"]
    reward: Float32[np.ndarray, " envs"]
    is_first: Bool[np.ndarray, " envs"]
    agent: AgentState


def epsilon_ladder(config: ActingConfig) -> Float32[np.ndarray, " envs"]:
    """Each environment's share of random actions: epsilon ^ (1 + exponent i / (n - 1)) (Ape-X, R2D2)."""
    rung = np.arange(config.num_envs) / max(config.num_envs - 1, 1)
    return (config.epsilon ** (1.0 + config.epsilon_exponent * rung)).astype(np.float32)


class Actors:
    """Agents in environments of the run: what they do becomes rows of the replay."""

    def __init__(self, env: VectorEnv, config: RunConfig, epsilon: np.ndarray, agent: Agent, key: Any, seed: int):
        """An episode's seed is the actors' own, its row, and its number in that row."""
        self.env = env
        self.policy = AgentPolicy(agent, None, epsilon, Randomness(key), stack=config.replay.stack)
        self.rollout = Rollout(env, self.policy, lambda row, number: (env.spec.tasks[0], (seed, row, number)))

    def play(self, agent: Agent, memory: EncodedBatch | None, steps: int, first_step: int) -> Chunk:
        """Some steps of every row; their randomness is a function of the key and of the steps' numbers.

        A row whose episode ends takes one row more, for what it saw last, and goes on with the next episode.
        """
        self.policy.agent, self.policy.memory, self.rollout.steps = agent, memory, first_step
        rows: list[tuple[np.ndarray, ...]] = []
        everywhere = np.ones(self.env.num_envs, bool)
        for _ in range(steps):
            step = self.rollout.step()
            after, stored = step.after, np.asarray(step.extras["state"])
            done = (step.action, after.reward, after.discount)
            rows.append((step.view.observation, *done, step.view.is_first, ~everywhere, stored, everywhere))
            if after.ended.any():
                rows.append((after.observation, *done, ~everywhere, everywhere, stored, after.truncated))
        return Chunk(*(np.stack(column, axis=1) for column in zip(*rows, strict=True)))

    @property
    def standing(self) -> ActorState:
        """All that the next step depends on, but for the environments themselves."""
        rollout = self.rollout
        frames = self.policy.look(rollout.now.observation, rollout.is_first)
        return ActorState(frames, rollout.action, rollout.reward, rollout.is_first, self.policy.state)

    @standing.setter
    def standing(self, standing: ActorState) -> None:
        rollout, policy = self.rollout, self.policy
        frames, rollout.action, rollout.reward, rollout.is_first, policy.state = standing
        # The newest frame is seen once more: it takes the place of what is shifted out.
        policy.frames = np.roll(frames, 1, axis=1)


class ActingRun(Run):
    """What a run that learns while it acts keeps count of, in one process or on a cluster."""

    encoded: EncodedBatch | None

    def __init__(self, config: RunConfig):
        self.config, self.saved, self.counts = config, {"config": asdict(config)}, Counts()
        self._first_turn, self._learnt_here = 0, False

    @property
    def steps(self) -> int:
        """Steps of all environments together so far."""
        return self.counts.turns * self.config.from_replay.steps_per_turn

    def updates_due(self) -> int:
        """How many updates may follow: none before there is enough to learn from, then as many as the ratio says."""
        beyond = self.counts.sequences - self.config.replay.minimum
        owed = beyond * self.config.acting.samples_per_insert / self.config.from_replay.batch_size
        return max(int(owed) - self.counts.updates, 0)

    def ended_turn(self, before: Counts, metrics: dict[str, float], finished: Sequence[Finished]) -> Turn:
        """A turn's metrics, and whether it is the first in which all of this, or learning, was compiled."""
        learns = self.counts.updates > before.updates
        compiled = before.turns == self._first_turn or (learns and not self._learnt_here)
        self._learnt_here = self._learnt_here or learns
        return Turn(metrics | self.pace_and_scores(finished), compiled)

    def pace_and_scores(self, finished: Sequence[Finished]) -> dict[str, Any]:
        """How learning keeps pace with acting, and the scores of episodes that ended, random actions and all."""
        _, sequences, updates = self.counts
        beyond = max(sequences - self.config.replay.minimum, 1)
        ratio = updates * self.config.from_replay.batch_size / beyond
        pace = {"rl/updates": updates, "rl/sequences": sequences, "rl/samples_per_insert": ratio}
        if not finished:
            return pace
        return pace | {
            "rl/score": float(np.mean([episode.scores[0] for episode in finished])),
            "rl/length": float(np.mean([episode.length for episode in finished])),
            "rl/episodes": len(finished),
        }

    def evaluate(self) -> dict[str, float]:
        """Scores and length of whole episodes that the agent plays as it is now, in this process."""
        result = evaluate_online(self.agent, self.encoded, self.config)
        scores = {f"eval/{name}": result.mean(name) for name in result.names}
        return scores | {"eval/length": float(np.mean([len(episode.actions) for episode in result.played]))}

    def save_with(self, folder: str | Path, state: Any, seconds: float, attach: Callable[[Path], None]) -> Path:
        """A checkpoint of the learner, the counts, and what else changes."""
        extra = {"train_seconds": seconds, **self.counts._asdict()}
        return save_checkpoint(folder, state, step=self.steps, config=self.saved, extra=extra, attach=attach)

    def restore_counts(self, extra: dict[str, Any]) -> float:
        """Go on counting from a checkpoint; returns its seconds of training."""
        self.counts = Counts(*(extra[name] for name in Counts._fields))
        self._first_turn = self.counts.turns
        return extra["train_seconds"]


def replay_before(previous: Path | None) -> Path | None:
    """The replay of the checkpoint before, if it is still there: what has not changed since is not written again."""
    return previous / REPLAY if previous is not None and previous.is_dir() else None


class OnlineRun(ActingRun):
    """All that changes in the course of a run: learner, replay, environments, and where each of them is."""

    def __init__(self, config: RunConfig, scratch: Path | None = None):
        """`scratch` is a folder for frames that are too many for the memory."""
        super().__init__(config)
        env = make(config.environment, config.env, config.acting.num_envs)
        self.learner = Learner(config, env.spec)
        self.replay = make_replay(config, env.spec, self.learner.stored_states.size, scratch)
        act_key, epsilon = run_keys(config.seed)[2], epsilon_ladder(config.acting)
        self.actors = Actors(env, config, epsilon, self.learner.agent, act_key, config.seed)
        self.refresh()

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        return self.learner.agent

    @property
    def fresh(self) -> bool:
        """Whether what actors read has just been drawn: a run can be saved then."""
        return self.counts.turns % self.config.acting.refresh_turns == 0

    def turn(self) -> Turn:
        """Act, keep what was done, and learn as often as the ratio of samples to inserts allows."""
        config, before = self.config, self.counts
        per_turn = config.acting.steps_per_turn
        chunk = self.actors.play(self.agent, self.encoded, per_turn, before.turns * per_turn)
        ready = self.replay.add(*chunk)
        sequences = before.sequences + len(ready.numbers)
        self.counts = before._replace(turns=before.turns + 1, sequences=sequences)
        metrics = mean_metrics(self.learn())
        if self.encoded is not None:
            # How old, in steps of all environments together, what actors read was at the end of the turn.
            age = before.turns % config.acting.refresh_turns + 1
            metrics["retrieval/age"] = float(age * config.from_replay.steps_per_turn)
        if self.fresh:
            self.refresh()
        return self.ended_turn(before, metrics, self.actors.rollout.finished())

    def learn(self) -> list[dict[str, float]]:
        """The updates that are due; the metrics of each."""
        metrics = []
        for _ in range(self.updates_due() if self.replay.ready else 0):
            learnt, read = draw(self.replay, self.config, self.counts.updates)
            step, priority = self.learner.update(learnt, read)
            self.replay.update_priorities(learnt.drawn.ids, priority)
            self.counts = self.counts._replace(updates=self.counts.updates + 1)
            metrics.append(step)
        return metrics

    def refresh(self) -> None:
        """Draw and encode the actors' retrieval batch anew; before there is enough to read, it is empty."""
        self.encoded = self.learner.encode(draw_to_read(self.replay, self.config, self.counts.turns))

    def read_from(self, replay: SequenceReplay) -> None:
        """Have the actors read from another run's replay; another agent's memory of it means nothing to this one."""
        read = draw_to_read(replay, self.config, self.counts.turns)
        assert read is not None
        self.encoded = self.learner.encode(read._replace(state=np.zeros_like(read.state)))

    def close(self) -> None:
        """Let go of the environments."""
        self.actors.env.close()

    def save(self, folder: str | Path, seconds: float, previous: Path | None) -> Path:
        """Learner, environments, replay and counts of this moment, in one checkpoint."""

        def attach(partial: Path) -> None:
            save_arrays(self.actors.rollout.state(), partial / GAMES)
            save_replay(self.replay, partial / REPLAY, replay_before(previous))

        return self.save_with(folder, (self.learner.state, self.actors.standing), seconds, attach)

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training.

        A run on a cluster saves no episodes: those begin anew.
        """
        if (checkpoint / GAMES).is_file():
            like = (self.learner.state, self.actors.standing)
            (self.learner.state, standing), extra = load_checkpoint(checkpoint, like)
            self.actors.rollout.restore(load_file(checkpoint / GAMES))
            self.actors.standing = standing
        else:
            self.learner.state, extra = load_learner(checkpoint, self.learner.state)
        seconds = self.restore_counts(extra)
        load_replay(self.replay, checkpoint / REPLAY)
        self.refresh()
        return seconds


def load_learner(checkpoint: Path, like: LearnerState) -> tuple[LearnerState, dict[str, Any]]:
    """The learner of an online run's checkpoint alone, wherever it was saved."""
    (state, _), extra = load_checkpoint(checkpoint, (like, ()), whole=False)
    return state, extra


def load_run(folder: str | Path) -> OnlineRun:
    """A run as it was when it was saved last, episodes and replay and all."""
    run = OnlineRun(read_config(folder), Path(folder).parent)
    run.restore(checkpoint_of(folder))
    return run
