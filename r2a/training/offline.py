"""Learning from a data set: many learner steps per compiled call."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.agents.agent import Agent
from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import DataConfig, LearnerConfig, RetrievalConfig, RunConfig
from r2a.data.dataset import OfflineDataset
from r2a.data.retrieval_batch import (
    BatchPlan,
    ResidentData,
    check_fits,
    load_resident,
    observation_shape,
    plan_learning_batch,
    read_learning_batch,
)
from r2a.environments.registry import load_features, spec_of
from r2a.training.checkpoint import load_checkpoint, save_checkpoint
from r2a.training.course import Turn
from r2a.training.evaluate import SEED_OF_EVALUATIONS, evaluate, sources_to_evaluate
from r2a.training.runs import checkpoint_of, read_config, settle
from r2a.training.train import Run
from r2a.types import LearnerState


@partial(jax.jit, static_argnames=("data_config", "retrieval", "learner", "count"), donate_argnums=0)
def learner_steps(
    state: LearnerState,
    data: ResidentData,
    data_config: DataConfig,
    retrieval: RetrievalConfig,
    learner: LearnerConfig,
    count: int,
) -> tuple[LearnerState, dict[str, Float[Array, ""]]]:
    """`count` times: draw a batch, update. Returns the mean of each metric.

    The randomness of a step is a function of the run's key and the step's number, so a run that is cut anywhere goes
    on as if it had not been.
    """
    names: list[str] = []

    def keys_of(step: Array) -> tuple[PRNGKeyArray, ...]:
        return tuple(jax.random.split(jax.random.fold_in(state.key, step)))

    def one(state: LearnerState, given: tuple[BatchPlan, PRNGKeyArray]) -> tuple[LearnerState, Array]:
        plan, update_key = given
        batch = LearningBatch(*read_learning_batch(data, data_config, retrieval, plan))
        state, metrics, _ = update(state, batch, update_key, learner)
        names[:] = metrics
        return state, jnp.stack(list(metrics.values()))  # one small vector is cheaper to keep than many numbers

    draw_keys, update_keys = jax.vmap(keys_of)(state.step + jnp.arange(count))
    # All random draws of all steps at once: inside the loop they would cost more than a small network's update.
    plans = jax.vmap(lambda key: plan_learning_batch(data, data_config, retrieval, key))(draw_keys)
    state, metrics = jax.lax.scan(one, state, (plans, update_keys))
    return state, dict(zip(names, metrics.mean(0), strict=True))


def initial_state(config: RunConfig, dataset: OfflineDataset) -> LearnerState:
    """The learner state before the first step, a function of the run's seed."""
    load_features(config.environment)
    agent_key, run_key = jax.random.split(jax.random.key(config.seed))
    shape = observation_shape(dataset, config.data)
    agent = build_agent(config.agent, shape, dataset.num_actions, agent_key)
    return start_learning(agent, config.learner, run_key)


class OfflineRun(Run):
    """A run that learns from a data set."""

    def __init__(self, config: RunConfig, dataset: OfflineDataset):
        """Everything that can be refused is refused here, before there is a run folder."""
        self.config, dataset = settle(config, dataset)
        check_fits(dataset, self.config)
        spec_of(config.environment, config.env)  # what is needed to evaluate is missed before hours of training
        self.saved = {"config": asdict(self.config), "dataset": dataset.fingerprint}
        self.state = initial_state(self.config, dataset)
        self.data = load_resident(dataset, self.config.data)
        self._compiled = False

    @property
    def steps(self) -> int:
        """Learner steps so far."""
        return int(self.state.step)

    @property
    def agent(self) -> Agent:
        """With the newest parameters."""
        return self.state.params

    def turn(self) -> Turn:
        """The learner steps of one compiled call."""
        config = self.config
        settings = (config.data, config.agent.retrieval, config.learner, config.from_dataset.steps_per_call)
        self.state, averages = learner_steps(self.state, self.data, *settings)
        compiled, self._compiled = not self._compiled, True
        return Turn({name: float(value) for name, value in averages.items()}, compiled)

    def evaluate(self) -> dict[str, float]:
        """Mean scores from each source, and per task from the first of them; the same starts at every evaluation."""
        metrics: dict[str, float] = {}
        for i, source in enumerate(sources_to_evaluate(self.config)):
            key = jax.random.key(self.config.seed + SEED_OF_EVALUATIONS)
            result = evaluate(self.agent, self.data, self.config, source, key)
            metrics[f"eval/{source}"] = result.mean()
            if i == 0:
                per_task = zip(self.config.data.tasks, result.per_task(), strict=True)
                metrics |= {f"eval/{source}/{name}": float(value) for name, value in per_task}
        return metrics

    def save(self, folder: str | Path, seconds: float, previous: Path | None) -> Path:
        """The learner of this moment."""
        extra = {"train_seconds": seconds}
        return save_checkpoint(folder, self.state, step=self.steps, config=self.saved, extra=extra)

    def restore(self, checkpoint: Path) -> float:
        """Go on where a run of the same settings was saved; returns its seconds of training."""
        self.state, extra = load_checkpoint(checkpoint, self.state)
        return extra["train_seconds"]


def load_agent(folder: str | Path, dataset: OfflineDataset, config: RunConfig | None = None) -> Agent:
    """The agent of a run as it was saved last; `dataset` is one of its environment and tells the sizes."""
    config = config or read_config(folder)
    like = jax.eval_shape(lambda: initial_state(config, dataset))
    state, _ = load_checkpoint(checkpoint_of(folder), like)
    return state.params
