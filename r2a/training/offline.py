"""Learn from a data set: many learner steps per compiled call, evaluated, recorded and saved as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.agents.build import build_agent
from r2a.agents.learner import start_learning, update
from r2a.agents.objectives import LearningBatch
from r2a.config import DataConfig, LearnerConfig, RetrievalConfig, RunConfig, config_from_dict
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
from r2a.errors import UserError
from r2a.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from r2a.training.course import Interrupted, Progress, refuse_nan, stop_on_signal
from r2a.training.evaluate import evaluate, require_world, sources_to_evaluate
from r2a.training.metrics import MetricsWriter, read_run_config, require_tensorboard, start_run
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

    def keys_of(step: Array) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        draw_key, update_key = jax.random.split(jax.random.fold_in(state.key, step))
        return draw_key, update_key

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
    agent_key, run_key = jax.random.split(jax.random.key(config.seed))
    shape = observation_shape(dataset, config.data)
    agent = build_agent(config.agent, shape, dataset.num_actions, agent_key)
    return start_learning(agent, config.learner, run_key)


def evaluate_all(
    state: LearnerState, data: ResidentData, config: RunConfig, names: tuple[str, ...]
) -> dict[str, float]:
    """Mean scores from each source, and per task from the first of them; the same starts at every evaluation."""
    metrics: dict[str, float] = {}
    for i, source in enumerate(sources_to_evaluate(config)):
        result = evaluate(state.params, data, config, names, source, jax.random.key(config.seed + 1_000_003))
        metrics[f"eval/{source}"] = result.mean()
        if i == 0:
            per_task = zip(names[: config.data.num_tasks], result.per_task(), strict=True)
            metrics |= {f"eval/{source}/{name}": float(value) for name, value in per_task}
    return metrics


def train(
    config: RunConfig,
    folder: str | Path,
    dataset: OfflineDataset,
    *,
    resume: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
    tensorboard: bool = False,
) -> LearnerState:
    """Run (or go on with) the training that `config` describes; everything about it ends up in `folder`."""
    check_fits(dataset, config)
    state = initial_state(config, dataset)
    saved = {"config": asdict(config), "dataset": dataset.fingerprint}
    extra: dict[str, Any] = {"train_seconds": 0.0}
    # All that can be refused is refused before the run folder is made.
    data = load_resident(dataset, config.data)
    require_world(config.environment)
    if tensorboard:
        require_tensorboard()
    if resume:
        state, extra = restore(folder, state, saved)
    else:
        start_run(folder, saved)
    first = int(state.step)
    with MetricsWriter(folder, first if resume else None, tensorboard=tensorboard) as writer, stop_on_signal() as stop:
        seconds = extra["train_seconds"]
        for step in range(first, config.steps, config.steps_per_call):
            began = time.perf_counter()
            state, averages = learner_steps(
                state, data, config.data, config.agent.retrieval, config.learner, config.steps_per_call
            )
            metrics = {name: float(value) for name, value in averages.items()}
            call_seconds = time.perf_counter() - began
            if step > first:  # the first call of a process compiles
                seconds += call_seconds
            done = step + config.steps_per_call
            refuse_nan(metrics, done, folder)
            if done % config.evaluate_every == 0 or done >= config.steps:
                metrics |= evaluate_all(state, data, config, dataset.task_names)
            metrics["time/train_seconds"] = seconds
            writer.write(done, metrics)
            if done % config.checkpoint_every == 0 or done >= config.steps or stop.requested:
                writer.sync()
                refuse_nan({"the norm of the parameters": float(optax.tree.norm(state.params))}, done, folder)
                save_checkpoint(folder, state, step=done, config=saved, extra={"train_seconds": seconds})
            watch(Progress(done, config.steps_per_call / call_seconds, metrics))
            if stop.requested and done < config.steps:
                raise Interrupted
    return state


def restore(folder: str | Path, like: LearnerState, saved: dict[str, Any]) -> tuple[LearnerState, dict[str, Any]]:
    """The newest checkpoint of a run, provided that the run had the same config and data."""
    before = read_run_config(folder)
    if before.get("dataset") != saved["dataset"]:
        raise UserError(f"{folder} was trained on other data; it can only go on with the data set it began with.")
    if config_from_dict(RunConfig, before["config"]) != config_from_dict(RunConfig, saved["config"]):
        raise UserError(f"{folder} was started with other settings; it can only go on with those.")
    newest = latest_checkpoint(folder)
    if newest is None:
        return like, {"train_seconds": 0.0}
    return load_checkpoint(newest, like)


def load_run(folder: str | Path, dataset: OfflineDataset) -> tuple[RunConfig, LearnerState]:
    """A run's config and its newest state; `dataset` is one of its environment and tells the sizes."""
    config = read_config(folder)
    newest = latest_checkpoint(folder)
    if newest is None:
        raise UserError(f"{folder} has no checkpoint yet; let `r2a train --resume {folder}` go on for a while.")
    state, _ = load_checkpoint(newest, jax.eval_shape(lambda: initial_state(config, dataset)))
    return config, state


def read_config(folder: str | Path) -> RunConfig:
    """The config of a run folder."""
    values = read_run_config(folder)
    if not isinstance(values.get("config"), dict):
        raise UserError(f"{folder} holds no training run: its config.json has no settings.")
    return config_from_dict(RunConfig, values["config"])
