"""What do demonstrations tell about actions in episodes that were not learnt from?

Mean absolute error on the last 50 episodes of each task: of saying 0, of the actions at the nearest states of the
demonstrations, and of trained runs, which read as in training; then with what they find where they read shuffled.

    python results/causalworld/held_out.py datasets/causalworld-laptop [RUN ...]
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

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


def steps(dataset: OfflineDataset, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions of some episodes."""
    columns, length = dataset.columns, dataset.columns["length"]
    both = [np.concatenate([columns[name][e][: length[e]] for e in episodes]) for name in ("observation", "action")]
    return both[0], both[1]


def of_neighbours(dataset: OfflineDataset, demonstrations: int) -> dict:
    """Errors of the action at the nearest state, and of the nearest five's mean, of the task's demonstrations."""
    generator, errors = np.random.default_rng(0), {"zero": []}
    for task in range(len(dataset.task_names)):
        seen, done = steps(dataset, dataset.episodes(task)[:demonstrations])
        state, action = steps(dataset, dataset.episodes(task)[-HELD_OUT:])
        chosen = generator.choice(len(state), STATES, replace=False)
        state, action = state[chosen], action[chosen]
        errors["zero"].append(np.abs(action).mean())
        for name, columns in COLUMNS.items():
            spread = seen[:, columns].std(0) + 1e-3
            near, at = seen[:, columns] / spread, state[:, columns] / spread
            distance = (near**2).sum(1) - 2 * at @ near.T
            for count in (1, 5):
                nearest = np.argpartition(distance, count, axis=1)[:, :count]
                own = np.abs(done[nearest].mean(1) - action).mean()
                errors.setdefault(f"{count} nearest by {name}", []).append(own)
    return {name: round(float(np.mean(values)), 4) for name, values in errors.items()}


def of_run(folder: str, dataset: OfflineDataset) -> dict:
    """Errors of a trained run that reads its own demonstrations, as they are and with the values shuffled."""
    config, state = load_run(folder, dataset)
    config, own = choose_tasks(config, dataset)
    assert config.data.episodes_per_task <= len(dataset.episodes(0)) - HELD_OUT, "the run has learnt from all episodes"
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
        found[how] = round(float(jnp.mean(jnp.stack(values))), 4)
    return found


if __name__ == "__main__":
    use_compilation_cache()
    dataset = find_dataset(sys.argv[1])
    report = {f"neighbours among {count} demonstrations": of_neighbours(dataset, count) for count in (10, 50, 200)}
    report |= {Path(folder).name: of_run(folder, dataset) for folder in sys.argv[2:]}
    print(json.dumps(report, indent=1))
