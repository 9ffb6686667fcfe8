"""r2a evaluate: act with a trained agent, reading from where you like."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import tyro
from rich.table import Table

from r2a.commands.options import parse, parse_about, require_first
from r2a.commands.screen import CONSOLE
from r2a.config import EnvSettings, RunConfig, Values
from r2a.data.dataset import find_dataset
from r2a.data.retrieval_batch import check_fits, load_resident
from r2a.environments.api import pictures
from r2a.environments.registry import make, spec_of
from r2a.errors import UserError
from r2a.training import evaluate
from r2a.training.course import use_compilation_cache
from r2a.training.metrics import read_run_config
from r2a.training.offline import load_agent
from r2a.training.online import OnlineRun, load_run
from r2a.training.runs import read_config, settle
from r2a.viewer.video import write_gif

LONGEST_VIDEO = 600
"""Pictures: of a longer episode, only some are shown."""
FASTEST = 15.0
"""Pictures in a second: of faster environments, only some are shown."""


@dataclass(frozen=True)
class Evaluate:
    """Act in the environment with a trained agent; what it reads from can be swapped, nothing is trained.

    Examples:
      r2a evaluate runs/ra_dqn-10-0
      r2a evaluate runs/ra_dqn-10-0 --retrieve-from datasets/other --source right --json
      r2a evaluate runs/ra_dqn-10-0 --values shuffled
      r2a evaluate runs/ra_bc_multi-5-0 --env.goals space_b --retrieve-from datasets/far --episodes 20
      r2a evaluate runs/ra_r2d2-breakout-0 --episodes 100 --videos videos
      r2a evaluate runs/ra_r2d2-breakout-0 --retrieve-from runs/ra_r2d2-breakout-1
    """

    run: tyro.conf.Positional[Path]
    retrieve_from: str = ""
    """Data set to read from, all of it, by name or path; of an agent that learnt while it acted, a run folder whose
    replay is read (default: what the agent was trained with)."""
    source: Literal["right", "wrong", "random", "all_tasks", "all"] = "all"
    """Whose episodes of a data set are read: the evaluated task's, another one's, any one's, or all tasks' together;
    all: as in the run's own evaluations."""
    values: Values = "as_read"
    """What is found where the agent reads: what happened next there; what happened next at another state of the batch;
    or the mean of it all. An agent that does as well without the first has no use for what it reads."""
    episodes: int = 0
    """Episodes of every task, for each retrieval batch of a data set (0: as many as while training)."""
    videos: Path | None = None
    """Folder for a GIF of every task's episode with the median score."""
    seed: int = 0
    """Decides the episodes, and which values are shuffled where."""
    datasets: Path = Path("datasets")
    json: bool = False
    """Print one JSON object instead of a table."""
    env: EnvSettings = field(default_factory=EnvSettings)
    """The environment's settings, if they are to differ from those of the training."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print scores per task."""
    run = parse_about(argv)[0]
    settings = read_config(run).env if run else EnvSettings()
    options = parse(Evaluate, argv, "evaluate", Evaluate(Path(run), env=settings) if run else None)
    require_first("evaluate", "run", str(options.run), str(Path(run)) if run else "")
    use_compilation_cache()
    config = read_config(options.run)
    for option, asked in (("--retrieve-from", options.retrieve_from), ("--values", options.values != "as_read")):
        if asked and not config.agent.retrieval.reads:
            raise UserError(f"This agent reads nothing: {option} makes no difference to it.")
    if options.videos is not None:  # before anything is played, lest the scores be lost
        try:
            options.videos.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"{options.videos} cannot be made ({error.strerror})"
            raise UserError(f"{reason}; choose another folder for videos.") from None
    episodes = options.episodes or config.evaluation.episodes
    evaluation = replace(config.evaluation, values=options.values, episodes=episodes)
    config = replace(config, env=options.env, evaluation=evaluation)
    config, results = (evaluate_replay if config.is_online else evaluate_dataset)(config, options)
    first = next(iter(results.values()))
    if options.videos is not None:
        write_videos(options.videos, first, config)
    tasks = (first.played[0].task,) if config.is_online else config.data.tasks
    if options.json:
        print(json.dumps(as_json(results, tasks, config)))
        return 0
    show(results, tasks, f"{options.run}, {'reading' if config.agent.retrieval.reads else 'which reads nothing'}")
    if options.videos is not None:
        CONSOLE.print(f"The videos: {options.videos}")
    return 0


def evaluate_dataset(config: RunConfig, options: Evaluate) -> tuple[RunConfig, dict[str, evaluate.Evaluation]]:
    """With a data set to read from: the agent's own, or another one."""
    dataset = find_dataset(options.retrieve_from or config.data.dataset, options.datasets)
    if not options.retrieve_from and dataset.fingerprint != read_run_config(options.run)["dataset"]:
        changed = f"{dataset.path} is not what {options.run} was trained with any more"
        raise UserError(f"{changed}; to read from it all the same, say --retrieve-from {dataset.path}.")
    if options.retrieve_from:  # however many episodes were learnt from
        every = replace(config.data, episodes_per_task=0)
        config = replace(config, experience=replace(config.from_dataset, data=every))
    config, dataset = settle(config, dataset)
    check_fits(dataset, config, to_learn=False)
    agent, data = load_agent(options.run, dataset, config), load_resident(dataset, config.data)
    sources = evaluate.sources_to_evaluate(config) if options.source == "all" else (options.source,)
    key, film = jax.random.key(options.seed), options.videos is not None
    return config, {s: evaluate.evaluate(agent, data, config, s, key, on_host=film) for s in sources}


def evaluate_replay(config: RunConfig, options: Evaluate) -> tuple[RunConfig, dict[str, evaluate.Evaluation]]:
    """With a replay to read from: the run's own, or another run's."""
    run = load_run(options.run)
    if options.retrieve_from:
        read_other(run, Path(options.retrieve_from))
    memory = evaluate.corrupt_values(run.encoded, config.evaluation.values, jax.random.key(options.seed))
    config = replace(config, seed=config.seed + options.seed)
    result = evaluate.evaluate_online(run.agent, memory, config)
    run.close()
    return config, {result.names[0]: result}


def read_other(run: OnlineRun, folder: Path) -> None:
    """Have a run's actors read from another run's replay."""
    other = load_run(folder)
    mine, theirs = run.actors.env.spec, other.actors.env.spec
    if (mine.observation, mine.action_names) != (theirs.observation, theirs.action_names):
        difference = f"which shows or asks for something else than {mine.tasks[0]}"
        raise UserError(f"{folder} is about {theirs.tasks[0]}, {difference}.")
    if run.config.replay != other.config.replay:
        raise UserError(f"{folder} keeps other sequences: its replay has other settings than this run's.")
    run.read_from(other.replay)


def as_json(results: dict[str, evaluate.Evaluation], tasks: Sequence[str], config: RunConfig) -> dict[str, Any]:
    """Means and scores per task; of a run that learnt while acting, those of every episode."""
    first = next(iter(results.values()))
    if config.is_online:
        lengths = [len(episode.actions) for episode in first.played]
        means = {name: first.mean(name) for name in first.names}
        return {"task": tasks[0], **means, "scores": first.scores[0, 0, :, 0].tolist(), "lengths": lengths}
    found: dict[str, Any] = {"mean": {s: r.mean() for s, r in results.items()}}
    found["per_task"] = {s: dict(zip(tasks, map(float, r.per_task()), strict=True)) for s, r in results.items()}
    return found | {name: {s: r.mean(name) for s, r in results.items()} for name in first.names[1:]}


def show(results: dict[str, evaluate.Evaluation], tasks: Sequence[str], title: str) -> None:
    """A table with a row per task."""
    columns = {
        source if name == result.names[0] else f"{source}, {name}": result.per_task(name)
        for source, result in results.items()
        for name in result.names
    }
    table = Table("task", *columns, title=title)
    for row in zip(tasks, *columns.values(), strict=True):
        table.add_row(row[0], *(f"{value:.2f}" for value in row[1:]))
    if len(tasks) > 1:
        table.add_section()
        table.add_row("mean", *(f"{scores.mean():.2f}" for scores in columns.values()))
    CONSOLE.print(table)


def write_videos(folder: Path, result: evaluate.Evaluation, config: RunConfig) -> None:
    """A GIF of every task's episode with the median score."""
    fps = spec_of(config.environment, config.env).fps
    scores = result.scores[..., 0].reshape(len(result.scores), -1)
    episodes = np.array(range(len(result.played))).reshape(scores.shape)
    for own, numbers in zip(scores, episodes, strict=True):
        episode = result.played[int(numbers[np.argsort(own, kind="stable")[(len(own) - 1) // 2]])]
        in_time = math.ceil(fps / FASTEST)
        every = max(math.ceil(len(episode.actions) / LONGEST_VIDEO), in_time)
        path = folder / f"{episode.task.replace(' ', '_')}.gif"
        shown = pictures(partial(make, config.environment, config.env, render=True), episode)
        write_gif(shown, path, frames_per_second=fps / in_time, every=every)
