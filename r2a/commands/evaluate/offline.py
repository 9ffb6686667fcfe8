"""r2a evaluate: act with a trained agent, reading from any data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import tyro
from rich.table import Table

from r2a.commands.evaluate.reading import require_reading
from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.config import FoundValues
from r2a.data.dataset import find_dataset
from r2a.data.retrieval_batch import check_fits, load_resident
from r2a.environments.gridroboman import GRIDROBOMAN
from r2a.errors import UserError
from r2a.training.compilation import use_compilation_cache
from r2a.training.evaluate import evaluate, sources_to_evaluate
from r2a.training.metrics import read_run_config
from r2a.training.offline import load_run, read_config
from r2a.training.tasks import choose_tasks
from r2a.viewer.video import write_gif


@dataclass(frozen=True)
class Evaluate:
    """Act in the environment with a trained agent; the data set it reads from can be swapped, nothing is trained.

    Examples:
      r2a evaluate runs/ra_dqn-10-0
      r2a evaluate runs/ra_dqn-10-0 --retrieve-from datasets/other --source right --json
      r2a evaluate runs/ra_dqn-10-0 --values shuffled
      r2a evaluate runs/ra_bc_multi-5-0 --goals space_b --retrieve-from datasets/far --episodes 20
      r2a evaluate runs/ra_bc_multi-5-0 --films films
    """

    run: tyro.conf.Positional[Path]
    retrieve_from: str = ""
    """Name or path of the data set to read from, all of it (default: what the agent was trained with)."""
    source: Literal["right", "wrong", "random", "all_tasks", "all"] = "all"
    """Whose episodes are read: the evaluated task's, another one's, any one's, or all tasks' together; all: what the
    agent was trained with, and on gridroboman also the others."""
    values: FoundValues = "as_read"
    """What is found where the agent reads: what happened next there; what happened next at another state of the batch;
    or the mean of it all. An agent that does as well without the first has no use for what it reads."""
    goals: Literal["as_trained", "space_a", "space_b"] = "as_trained"
    """Where CausalWorld's goals lie: space_b is outside the range of the usual data."""
    episodes: int = 0
    """Episodes of every task for each retrieval batch (0: as many as while training)."""
    films: Path | None = None
    """Folder for a GIF of one episode of every task (CausalWorld; reads as --source says, or as trained)."""
    seed: int = 0
    datasets: Path = Path("datasets")
    json: bool = False
    """Print one JSON object instead of a table."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print returns per task."""
    options = parse(Evaluate, argv, "evaluate")
    use_compilation_cache()
    config = read_config(options.run)
    dataset = find_dataset(options.retrieve_from or config.data.dataset, options.datasets)
    if not options.retrieve_from and dataset.fingerprint != read_run_config(options.run)["dataset"]:
        raise UserError(
            f"{dataset.path} is not what {options.run} was trained with any more; "
            f"to read from it all the same, say --retrieve-from {dataset.path}."
        )
    if options.retrieve_from:  # however many episodes were learnt from
        config = replace(config, data=replace(config.data, episodes_per_task=0))
    config, dataset = choose_tasks(config, dataset)
    names = config.data.tasks or GRIDROBOMAN.spec.task_names[: config.data.num_tasks]
    if dataset.task_names[: len(names)] != tuple(names):
        raise UserError(f"{dataset.path} has other tasks than {options.run} was trained on; choose another data set.")
    for option, asked in (("--retrieve-from", options.retrieve_from), ("--values", options.values != "as_read")):
        require_reading(config.agent, option, bool(asked))
    episodes = options.episodes or config.evaluation.episodes
    config = replace(config, evaluation=replace(config.evaluation, values=options.values, episodes=episodes))
    for name, asked in (("--goals", options.goals != "as_trained"), ("--films", options.films is not None)):
        if asked and config.environment != "causalworld":
            raise UserError(f"{name} is for runs of CausalWorld, and {options.run} is one of {config.environment}.")
    if options.goals != "as_trained":
        config = replace(config, causalworld=replace(config.causalworld, goals=options.goals))
    if options.films is not None:
        make_folder(options.films)  # before anything is played, lest the figures be lost
    _, state = load_run(options.run, dataset)
    check_fits(dataset, config, to_learn=False)
    data = load_resident(dataset, config.data)
    sources = sources_to_evaluate(config) if options.source == "all" else (options.source,)
    results = {
        source: evaluate(state.params, data, config, names, source, jax.random.key(options.seed)) for source in sources
    }
    if options.films is not None:
        write_films(options.films, state.params, data, config, names, sources[0], jax.random.key(options.seed))
    if options.json:
        per_task = {s: dict(zip(names, map(float, r.per_task()), strict=True)) for s, r in results.items()}
        found = {"mean": {s: r.mean() for s, r in results.items()}, "per_task": per_task}
        covered = {s: float(r.fraction.mean()) for s, r in results.items() if r.fraction is not None}
        print(json.dumps(found | ({"fraction": covered} if covered else {})))
        return 0
    columns = {source: result.scores for source, result in results.items()}
    columns |= {f"{s}, covered": r.fraction for s, r in results.items() if r.fraction is not None}
    reading = f"reading from {dataset.name}" if config.agent.retrieval.reads else "which reads nothing"
    table = Table("task", *columns, title=f"{options.run}, {reading}")
    for row in zip(names, *(scores.mean((1, 2)) for scores in columns.values()), strict=True):
        table.add_row(row[0], *(f"{value:.2f}" for value in row[1:]))
    table.add_section()
    table.add_row("mean", *(f"{scores.mean():.2f}" for scores in columns.values()))
    CONSOLE.print(table)
    if options.films is not None:
        CONSOLE.print(f"The films: {options.films}")
    return 0


def make_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise UserError(f"{folder} cannot be made ({reason.strerror}); choose another folder for the films.") from None


def write_films(folder: Path, *played: Any) -> None:
    """A GIF of one episode of every task of CausalWorld, at its speed in the world if actions last 10 frames."""
    from r2a.training.evaluate.causalworld import films  # needs pybullet and causal_world

    for task, pictures in films(*played):
        write_gif(pictures, folder / f"{task}.gif", frames_per_second=12.5, every=2)
