"""What do demonstrations tell about actions in episodes that were not learnt from?

Mean absolute error on the last 50 episodes of each task: of saying 0, of the actions at the nearest states of the
demonstrations, and of trained runs, which read as in training; then with what they find where they read shuffled. Of
a run that reads nothing also the error of its action and the neighbours' in the best of several proportions.

    python results/causalworld/held_out.py datasets/causalworld-laptop [RUN ...]
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from r2a.agents.agent import Agent, only_seen
from r2a.agents.objective import action_error
from r2a.data.dataset import OfflineDataset, find_dataset
from r2a.data.retrieval_batch import draw_learning_batch, load_resident
from r2a.environments.causalworld.layout import BLOCK_SIZE, BLOCKS_AT, GOAL_SIZE, GOALS_AT, RELATIONS_AT, SIZE
from r2a.training.compilation import use_compilation_cache
from r2a.training.evaluate.sources import spoiled
from r2a.training.offline import load_run
from r2a.training.tasks import choose_tasks

HELD_OUT, STATES, BATCHES = 50, 800, 60
TIPS = np.arange(19, 28)
RELATIONS = np.arange(RELATIONS_AT, SIZE)
SOLIDS = np.concatenate([np.arange(at, at + GOAL_SIZE) for at in (BLOCKS_AT, BLOCKS_AT + BLOCK_SIZE)])
COLUMNS = {
    "fingertips, solids, relations": np.r_[TIPS, SOLIDS, GOALS_AT:RELATIONS_AT, RELATIONS],
    "fingertips, relations": np.r_[TIPS, RELATIONS],
}


class Guessed(NamedTuple):
    """States, what was done there, and a guess at it."""

    state: np.ndarray
    action: np.ndarray
    guess: np.ndarray


def rounded(value: Any) -> float:
    """To what 4,000 states can tell."""
    return round(float(value), 4)


def steps(dataset: OfflineDataset, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions of some episodes."""
    columns, length = dataset.columns, dataset.columns["length"]
    both = [np.concatenate([columns[name][e][: length[e]] for e in episodes]) for name in ("observation", "action")]
    return both[0], both[1]


def neighbours(dataset: OfflineDataset, demonstrations: int, columns: np.ndarray, count: int) -> Iterator[Guessed]:
    """For each task, unseen states, what was done there, and what the nearest states of the demonstrations say."""
    for task in range(len(dataset.task_names)):
        seen, done = steps(dataset, dataset.episodes(task)[:demonstrations])
        state, action = steps(dataset, dataset.episodes(task)[-HELD_OUT:])
        chosen = np.random.default_rng(task).choice(len(state), STATES, replace=False)
        state, action = state[chosen], action[chosen]
        spread = seen[:, columns].std(0) + 1e-3
        near, at = seen[:, columns] / spread, state[:, columns] / spread
        nearest = np.argpartition((near**2).sum(1) - 2 * at @ near.T, count, axis=1)[:, :count]
        yield Guessed(state, action, done[nearest].mean(1))


def of_neighbours(dataset: OfflineDataset, demonstrations: int) -> dict:
    """Errors of the action at the nearest state, and of the nearest five's mean, of the task's demonstrations."""
    errors = {}
    for name, columns in COLUMNS.items():
        for count in (1, 5):
            guessed = Guessed(
                *map(np.concatenate, zip(*neighbours(dataset, demonstrations, columns, count), strict=True))
            )
            errors["zero"] = rounded(np.abs(guessed.action).mean())
            errors[f"{count} nearest by {name}"] = rounded(np.abs(guessed.guess - guessed.action).mean())
    return errors


def blended(agent: Agent, dataset: OfflineDataset, demonstrations: int) -> dict:
    """Errors of what the agent would do and what the nearest five say, in several proportions."""
    columns = COLUMNS["fingertips, relations"]
    guessed = Guessed(*map(np.concatenate, zip(*neighbours(dataset, demonstrations, columns, 5), strict=True)))
    start = agent.start(None)
    act = jax.jit(jax.vmap(lambda state: agent.head.mode(agent(start, only_seen(state), None, None).q_values)))
    own = np.asarray(act(jnp.asarray(guessed.state)))
    shares = (0.0, 0.1, 0.2, 0.3, 0.5)
    blends = {share: (1 - share) * own + share * guessed.guess for share in shares}
    return {f"{share:g} of the nearest": rounded(np.abs(b - guessed.action).mean()) for share, b in blends.items()}


def of_run(folder: str, dataset: OfflineDataset) -> dict:
    """Errors of a trained run that reads its own demonstrations, as they are and with the values shuffled."""
    config, state = load_run(folder, dataset)
    config, own = choose_tasks(config, dataset)
    assert 0 < config.data.episodes_per_task <= len(dataset.episodes(0)) - HELD_OUT, (
        "the run has learnt from all episodes"
    )
    rows = np.concatenate([dataset.episodes(task)[-HELD_OUT:] for task in range(len(dataset.task_names))])
    others = replace(dataset, columns={name: np.asarray(column[rows]) for name, column in dataset.columns.items()})
    data, unseen = load_resident(own, config.data), load_resident(others, config.data)

    @partial(jax.jit, static_argnames="how")
    def error(agent, data, unseen, key, how):
        sequences = draw_learning_batch(unseen, config.data, config.agent.retrieval, key)[0]
        batches = draw_learning_batch(data, config.data, config.agent.retrieval, key)[1]
        encoded = jax.vmap(lambda batch: spoiled(agent.prepare(batch)[0], how, key))(batches)

        def one(sequence, encoded):
            outputs = agent.follow(agent.start(None), sequence.frames.at(slice(-1)), encoded, None).outputs
            return action_error(agent.head.mode(outputs), sequence.action)

        return jax.vmap(jax.vmap(one, in_axes=(0, None)))(sequences, encoded).mean()

    found = {}
    for how in ("as_read", "shuffled") if config.agent.retrieval.reads else ("as_read",):
        values = [error(state.params, data, unseen, jax.random.key(number), how) for number in range(BATCHES)]
        found[how] = rounded(jnp.mean(jnp.stack(values)))
    if not config.agent.retrieval.reads:
        found |= blended(state.params, dataset, config.data.episodes_per_task)
    return found


if __name__ == "__main__":
    use_compilation_cache()
    dataset = find_dataset(sys.argv[1])
    report = {f"neighbours among {count} demonstrations": of_neighbours(dataset, count) for count in (10, 50, 200)}
    report |= {Path(folder).name: of_run(folder, dataset) for folder in sys.argv[2:]}
    print(json.dumps(report, indent=1))
