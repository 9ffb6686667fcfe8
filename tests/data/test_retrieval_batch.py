"""What a learner step is given: the right episodes, each in its role, cut and marked correctly."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import draw_learning_batch

from r2a.config import AgentConfig, DataConfig, EvaluationConfig, FromDataset, RetrievalConfig, RunConfig
from r2a.data.columns import LEARNING, RETRIEVAL
from r2a.data.dataset import write_dataset
from r2a.data.retrieval_batch import (
    EpisodeTable,
    check_fits,
    deal,
    draw_retrieval_batch,
    draw_sequences,
    draw_tasks,
    load_resident,
    observation_shape,
    tell_task,
)
from r2a.errors import UserError

TASKS, PER_TASK, STEPS = ("lift red", "touch blue", "stack"), 14, 6
CONFIG = RetrievalConfig(trajectories=4, k_traj=2, k_states=3)
DATA = DataConfig(num_tasks=3, tasks_per_step=2, batch_size=8)
DRAWS = 400


def run_of(data, retrieval, **evaluation):
    """A run's settings, as far as data and reading go."""
    return RunConfig(
        agent=AgentConfig(retrieval=retrieval),
        experience=FromDataset(data),
        evaluation=EvaluationConfig(**evaluation),
    )


def make_columns():
    """Episodes whose observations tell their own number and the step; what lies beyond an end must never be seen."""
    generator = np.random.default_rng(0)
    episodes = len(TASKS) * PER_TASK
    length = generator.integers(1, STEPS + 1, episodes).astype(np.int32)
    number, step = np.meshgrid(np.arange(episodes), np.arange(STEPS + 1), indexing="ij")
    reward = generator.normal(size=(episodes, STEPS)).astype(np.float32)
    # The splits are unequal, so that the tables of episodes are ragged.
    split = np.where(
        np.arange(episodes) % PER_TASK < 5 + np.repeat(np.arange(len(TASKS)), PER_TASK), LEARNING, RETRIEVAL
    )
    return {
        "observation": np.stack([number, step], -1).astype(np.int16),
        "action": generator.integers(0, 5, (episodes, STEPS), dtype=np.int8),
        "reward": reward,
        "length": length,
        "terminated": generator.random(episodes) < 0.5,
        "task_id": np.repeat(np.arange(len(TASKS)), PER_TASK),
        "split": split,
    }


def write(path, columns):
    provenance = {"method": "by hand"}
    return write_dataset(
        path, columns, name="small", environment="none", task_names=TASKS, num_actions=5, provenance=provenance
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write(tmp_path_factory.mktemp("datasets") / "small", make_columns())


@pytest.fixture(scope="module")
def resident(dataset):
    return load_resident(dataset, DATA)


def draw_many(draw, count=DRAWS, seed=0):
    """Many independent draws as numpy arrays, the draws along the first axis."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(seed), count)))


@pytest.fixture(scope="module")
def transitions(resident):
    """Transitions of every task, [draw, task, 4, 1]; a transition is a sequence of one step."""
    tasks = jnp.arange(len(TASKS))
    return draw_many(lambda key: jax.vmap(lambda task: draw_sequences(resident, task, 4, DATA, key))(tasks))


@pytest.fixture(scope="module")
def retrieval_batches(resident):
    """Whole episodes drawn for task 1."""
    return draw_many(lambda key: draw_retrieval_batch(resident, jnp.array(1), CONFIG, key))


def test_transitions_are_steps_of_the_tasks_learning_episodes(dataset, transitions):
    columns = dataset.columns
    for task in range(len(TASKS)):
        seen = transitions.frames.observation[:, task].reshape(-1, 2, 2)
        episode, step = seen[:, 0].T
        assert set(episode) == set(dataset.episodes(task, LEARNING))
        possible = {(int(e), j) for e in set(episode) for j in range(columns["length"][e])}
        assert set(zip(episode.tolist(), step.tolist(), strict=True)) == possible
        np.testing.assert_array_equal(seen[:, 1].T, [episode, step + 1])
        np.testing.assert_array_equal(transitions.action[:, task].ravel(), columns["action"][episode, step])
        np.testing.assert_array_equal(transitions.reward[:, task].ravel(), columns["reward"][episode, step])


def test_only_a_terminal_last_step_ends_the_discount(dataset, transitions):
    episode, step = transitions.frames.observation[..., 0, :].reshape(-1, 2).T
    last = step + 1 == dataset.columns["length"][episode]
    terminated = dataset.columns["terminated"][episode]
    np.testing.assert_array_equal(transitions.discount.ravel(), np.where(last & terminated, 0.0, 1.0))
    assert (last & ~terminated).any(), "no truncated episode was drawn"


def test_learning_episodes_are_equally_likely_whatever_their_length(dataset, transitions):
    episode = transitions.frames.observation[:, 0, :, 0, 0].ravel()
    count = np.array([(episode == e).sum() for e in dataset.episodes(0, LEARNING)])
    np.testing.assert_allclose(count / count.sum(), 1 / len(count), atol=0.04)


def test_sequences_stay_within_their_episode_and_reach_every_part_of_it(dataset, resident):
    steps, burn_in = 3, 2
    config, columns = replace(DATA, sequence_steps=steps, burn_in=burn_in), dataset.columns
    drawn = draw_many(lambda key: draw_sequences(resident, jnp.array(0), 4, config, key))
    reached = set()
    for s in (jax.tree.map(lambda column, i=i: column[i // 4, i % 4], drawn) for i in range(4 * DRAWS)):
        episode, first = s.frames.observation[burn_in]
        length = columns["length"][episode]
        reached.add((int(episode), int(first)))
        for t in range(-burn_in, steps + 1):
            step, frame = first + t, s.frames.at(burn_in + t)
            assert bool(frame.is_first) == (step == 0)
            if 0 <= step <= length:
                np.testing.assert_array_equal(frame.observation, [episode, step])
            if 0 < step <= length:
                assert frame.previous_action == columns["action"][episode, step - 1]
                assert frame.previous_reward == columns["reward"][episode, step - 1]
            if step <= 0:
                assert (frame.previous_action, frame.previous_reward) == (-1, 0)
        for t in range(steps):
            step = first + t
            assert s.valid[t] == (step < length)
            if s.valid[t]:
                assert s.action[t] == columns["action"][episode, step]
                assert s.reward[t] == columns["reward"][episode, step]
                assert s.discount[t] == (0.0 if columns["terminated"][episode] and step + 1 == length else 1.0)
    lengths = {int(e): int(columns["length"][e]) for e in dataset.episodes(0, LEARNING)}
    assert reached == {(e, first) for e, length in lengths.items() for first in range(max(length - steps, 0) + 1)}


def test_all_tasks_read_from_one_batch_with_episodes_of_each(dataset, resident):
    config = replace(DATA, retrieve_from="all_tasks")
    sequences, batches = draw_many(lambda key: draw_learning_batch(resident, config, CONFIG, key), count=20)
    assert sequences.reward.shape == (20, 1, DATA.batch_size, 1)
    expected = np.repeat(np.arange(3), CONFIG.trajectories)
    np.testing.assert_array_equal(batches.trajectories.task_id, np.broadcast_to(expected, (20, 1, len(expected))))


def test_retrieval_episodes_are_distinct_and_of_the_asked_task(dataset, retrieval_batches):
    ids, allowed = retrieval_batches.trajectories.trajectory_id, set(dataset.episodes(1, RETRIEVAL))
    assert all(len(set(batch)) == CONFIG.trajectories for batch in ids.tolist())
    assert set(ids.ravel()) == allowed
    assert set(retrieval_batches.trajectories.task_id.ravel()) == {1}
    share = np.array([(ids == e).any(1).mean() for e in allowed])
    np.testing.assert_allclose(share, CONFIG.trajectories / len(allowed), atol=0.1)


def test_whole_episodes_are_marked_where_they_end(dataset, retrieval_batches):
    t, columns = retrieval_batches.trajectories, dataset.columns
    ids = t.trajectory_id
    length = columns["length"][ids][..., None]
    np.testing.assert_array_equal(t.valid, np.arange(STEPS) < length)
    np.testing.assert_array_equal(t.is_first, np.broadcast_to(np.arange(STEPS) == 0, t.is_first.shape))
    np.testing.assert_array_equal(t.observation[..., 0], np.broadcast_to(ids[..., None], t.valid.shape))
    np.testing.assert_array_equal(t.observation[..., 1], np.broadcast_to(np.arange(STEPS), t.valid.shape))
    np.testing.assert_array_equal(t.action, columns["action"][ids])
    np.testing.assert_array_equal(t.reward, columns["reward"][ids])
    np.testing.assert_array_equal(retrieval_batches.returns, columns["episode_return"][ids])
    ends = columns["terminated"][ids][..., None] & (np.arange(STEPS) + 1 == length)
    np.testing.assert_array_equal(t.discount, np.where(ends, 0.0, 1.0))


@pytest.mark.parametrize("segment", ["start", "random"])
def test_pieces_of_episodes(dataset, resident, segment):
    config = replace(CONFIG, length=3, segment=segment)
    batches = draw_many(lambda key: draw_retrieval_batch(resident, jnp.array(2), config, key))
    t = batches.trajectories
    step, length = t.observation[..., 1], dataset.columns["length"][t.trajectory_id][..., None]
    np.testing.assert_array_equal(t.valid, step < length)
    np.testing.assert_array_equal(t.is_first, step == 0)
    np.testing.assert_array_equal(np.diff(step, axis=-1), 1)
    first, slack = step[..., 0], np.maximum(length[..., 0] - 3, 0)
    if segment == "start":
        assert (first == 0).all()
    else:  # anywhere within the episode, and never further than needed to stay within it
        assert {(int(a), int(b)) for a, b in zip(first.ravel(), slack.ravel(), strict=True)} == {
            (a, int(b)) for b in set(slack.ravel()) for a in range(b + 1)
        }
    np.testing.assert_array_equal(batches.returns, dataset.columns["episode_return"][t.trajectory_id])


def test_learning_and_retrieval_never_share_an_episode(dataset, resident):
    transitions, batches = draw_many(lambda key: draw_learning_batch(resident, DATA, CONFIG, key))
    learnt = set(transitions.frames.observation[..., 0].ravel().tolist())
    retrieved = set(batches.trajectories.trajectory_id.ravel().tolist())
    assert not learnt & retrieved
    assert learnt == set(dataset.episodes(split=LEARNING).tolist())
    assert retrieved == set(dataset.episodes(split=RETRIEVAL).tolist())
    # Every task of a step has its own batch, of its own task.
    task_of = dataset.columns["task_id"]
    task_learnt = task_of[transitions.frames.observation[..., 0, 0]]
    assert (task_learnt == task_learnt[..., :1]).all()
    np.testing.assert_array_equal(
        batches.trajectories.task_id, np.repeat(task_learnt[..., :1], CONFIG.trajectories, -1)
    )
    assert transitions.reward.shape == (DRAWS, DATA.tasks_per_step, DATA.batch_size // DATA.tasks_per_step, 1)


def test_the_control_reads_from_any_task(dataset, resident):
    config = replace(DATA, retrieve_from="random_task")
    transitions, batches = draw_many(lambda key: draw_learning_batch(resident, config, CONFIG, key))
    own = dataset.columns["task_id"][transitions.frames.observation[:, :, 0, 0, 0]].ravel()
    source = batches.trajectories.task_id
    assert (source == source[..., :1]).all(), "one batch mixes tasks"
    pairs = np.bincount(3 * own + source[..., 0].ravel(), minlength=9) / own.size
    np.testing.assert_allclose(pairs, 1 / 9, atol=0.04)


def test_every_task_comes_equally_often_and_at_most_once_in_a_step():
    tasks = draw_many(lambda key: draw_tasks(DATA, key), count=3000)
    assert all(a != b for a, b in tasks.tolist())
    np.testing.assert_allclose(np.bincount(tasks.ravel()) / tasks.size, 1 / 3, atol=0.02)
    everything = draw_tasks(replace(DATA, tasks_per_step=3, batch_size=9), jax.random.key(0))
    assert sorted(np.asarray(everything).tolist()) == [0, 1, 2]


def test_the_task_is_told_as_a_one_hot_or_not_at_all(dataset, resident):
    told = replace(DATA, task_input="one_hot")
    assert (observation_shape(dataset, DATA), observation_shape(dataset, told)) == ((2,), (5,))
    observation = jnp.array([[7, 8], [9, 10]], jnp.int16)
    np.testing.assert_array_equal(tell_task(observation, jnp.array([2, 0]), DATA), observation)
    expected = [[7, 8, 0, 0, 1], [9, 10, 1, 0, 0]]
    np.testing.assert_array_equal(tell_task(observation, jnp.array([2, 0]), told), expected)
    np.testing.assert_array_equal(tell_task(observation, jnp.array([1]), told)[:, 2:], [[0, 1, 0], [0, 1, 0]])
    random = replace(told, retrieve_from="random_task")
    sequences, batches = draw_many(lambda key: draw_learning_batch(resident, random, CONFIG, key), count=20)
    one_hots = np.eye(3)
    seen = sequences.frames.observation
    np.testing.assert_array_equal(seen[..., 2:], one_hots[dataset.columns["task_id"][seen[..., 0]]])
    t = batches.trajectories
    np.testing.assert_array_equal(t.observation[..., 2:], one_hots[np.repeat(t.task_id[..., None], STEPS, -1)])


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"trajectories": 8}, "retrieval.trajectories"),
        ({"length": STEPS + 1}, "retrieval.length"),
        ({"k_states": 2 * STEPS + 1}, "retrieval.k-states"),
    ],
)
def test_settings_the_data_cannot_serve_are_refused_in_one_sentence(dataset, changes, option):
    check_fits(dataset, run_of(DATA, CONFIG))
    with pytest.raises(UserError) as refusal:
        check_fits(dataset, run_of(DATA, replace(CONFIG, **changes)))
    assert_one_sentence(str(refusal.value), option)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"k_traj": 5}, "retrieval.k-traj"),
        ({"length": 2, "k_states": 5}, "retrieval.k-states"),
        ({"num_neighbours": 2}, "retrieval.k-states"),
        ({"k_states": -1}, "retrieval.k-states"),
        ({"slot_periods": (1, 2)}, "retrieval.slot-periods"),
        ({"num_neighbours": -1}, "retrieval.num-neighbours"),
    ],
)
def test_impossible_settings_are_refused_in_one_sentence(changes, option):
    with pytest.raises(UserError) as refusal:
        replace(CONFIG, **changes)
    assert_one_sentence(str(refusal.value), option)


def assert_one_sentence(message, option):
    assert message.startswith(option), message
    assert message.endswith(".")
    assert "\n" not in message


def test_a_task_without_retrieval_episodes_is_refused(tmp_path):
    columns = make_columns()
    columns["split"][columns["task_id"] == 1] = LEARNING
    with pytest.raises(UserError, match="no retrieval episodes of task 'touch blue'"):
        load_resident(write(tmp_path / "broken", columns), DATA)


def test_fewer_tasks_leave_out_the_others(dataset):
    two = load_resident(dataset.select(dataset.task_names[:2]), replace(DATA, num_tasks=2))
    assert two.reward.shape[0] == 2 * PER_TASK
    assert two.learning.count.tolist() == [len(dataset.episodes(task, LEARNING)) for task in range(2)]


@pytest.mark.parametrize("one_in", [2, 4])
@pytest.mark.parametrize("episodes", [1, 3, 4, 7, 14])
def test_all_episodes_are_dealt_out_anew_to_learn_from_or_to_read_and_never_to_both(resident, episodes, one_in):
    """Whatever the number of episodes: each has one role in a step, one in so many is read, and roles change."""
    whole = EpisodeTable(jnp.arange(20, dtype=jnp.int32)[None] + 100, jnp.array([episodes], jnp.int32))
    data = resident._replace(learning=whole, retrieval=whole)
    learnt, read = [], []
    for seed in range(40):
        dealt = deal(data, one_in, jax.random.key(seed))
        roles = [
            table.episode(jnp.array(0), jnp.arange(table.count[0])).tolist()
            for table in (dealt.learning, dealt.retrieval)
        ]
        assert sorted(roles[0] + roles[1]) == list(range(100, 100 + episodes))
        assert len(roles[1]) == episodes // one_in
        learnt += roles[0]
        read += roles[1]
    assert len(set(learnt)) == episodes
    assert len(set(read)) == (episodes if episodes >= one_in else 0)


def test_a_learner_step_never_reads_what_it_learns_from_when_all_episodes_are_dealt_out(dataset):
    config = replace(DATA, learn_from="all_episodes")
    data = load_resident(dataset, config)
    retrieval = replace(CONFIG, trajectories=3)
    sequences, batches = draw_many(lambda key: draw_learning_batch(data, config, retrieval, key))
    learnt = sequences.frames.observation[..., 0].reshape(DRAWS, -1)
    read = batches.trajectories.trajectory_id.reshape(DRAWS, -1)
    assert not any(set(a) & set(b) for a, b in zip(learnt.tolist(), read.tolist(), strict=True))
    assert len(np.unique(learnt)) == len(np.unique(read)) == len(TASKS) * PER_TASK
    with pytest.raises(UserError, match=r"retrieval.trajectories is 4, .* only 3 retrieval episodes, one in 4"):
        check_fits(dataset, run_of(config, CONFIG))
    check_fits(dataset, run_of(config, CONFIG), to_learn=False)
    with pytest.raises(UserError, match=r"evaluation.trajectories is 15, .* only 14 retrieval episodes"):
        check_fits(dataset, run_of(config, CONFIG, trajectories=15), to_learn=False)
