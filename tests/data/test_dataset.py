"""Offline data sets: what is written is read back, and what is broken is told in one sentence."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2a.data.columns import RETRIEVAL, assign_splits
from r2a.data.dataset import OfflineDataset, find_dataset, list_datasets, new_dataset, write_dataset
from r2a.errors import UserError

TASKS = ("lift red", "touch blue", "stack")
SETTINGS = {
    "name": "small",
    "environment": "gridroboman",
    "task_names": TASKS,
    "num_actions": 6,
    "provenance": {"method": "scripted", "seed": 3},
}


def make_columns(per_task=4, steps=5, seed=0, tasks=range(len(TASKS)), observation_shape=(11,)):
    generator = np.random.default_rng(seed)
    task_id = np.repeat(np.asarray(tasks, np.int16), per_task)
    episodes = len(task_id)
    return {
        "observation": generator.integers(-1, 7, (episodes, steps + 1, *observation_shape), dtype=np.int8),
        "action": generator.integers(0, 6, (episodes, steps), dtype=np.int8),
        "reward": generator.normal(size=(episodes, steps)).astype(np.float32),
        "length": generator.integers(1, steps + 1, episodes, dtype=np.int32),
        "terminated": generator.random(episodes) < 0.5,
        "task_id": task_id,
        "split": assign_splits(task_id, 0.5, seed),
    }


@pytest.fixture
def path(tmp_path):
    write_dataset(tmp_path / "datasets" / "small", make_columns(), **SETTINGS)
    return tmp_path / "datasets" / "small"


def edit_manifest(path, **changes):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))


def flip_last_byte(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@settings(max_examples=25, deadline=None)
@given(
    per_task=st.integers(2, 5),
    steps=st.integers(1, 4),
    seed=st.integers(0, 99),
    observation_shape=st.sampled_from([(), (3,), (2, 2, 1)]),
)
def test_round_trip(tmp_path_factory, per_task, steps, seed, observation_shape):
    columns = make_columns(per_task, steps, seed, observation_shape=observation_shape)
    written = write_dataset(tmp_path_factory.mktemp("data") / "set", columns, **SETTINGS)
    dataset = OfflineDataset.open(written.path)
    dataset.verify()
    for name, column in columns.items():
        np.testing.assert_array_equal(dataset.columns[name], column)
        assert dataset.columns[name].dtype == column.dtype
    inside = np.arange(steps) < columns["length"][:, None]
    np.testing.assert_allclose(dataset.columns["episode_return"], np.sum(columns["reward"] * inside, axis=1), atol=1e-5)
    assert (dataset.num_episodes, dataset.max_length) == (3 * per_task, steps)
    assert dataset.observation_shape == observation_shape
    assert (dataset.task_names, dataset.num_actions) == (TASKS, 6)
    assert dataset.manifest["provenance"] == SETTINGS["provenance"]


def test_shards_give_the_same_files_as_one_piece(tmp_path, path):
    columns = make_columns()
    with new_dataset(tmp_path / "shards", **SETTINGS) as writer:
        for rows in (slice(0, 3), slice(3, 4), slice(4, None)):
            writer.append({name: column[rows] for name, column in columns.items()})
    shards, whole = OfflineDataset.open(tmp_path / "shards"), OfflineDataset.open(path)
    assert shards.manifest == whole.manifest
    shards.verify()
    for name in whole.columns:
        assert (shards.path / f"{name}.npy").read_bytes() == (path / f"{name}.npy").read_bytes()


def test_types_are_brought_into_line_but_never_wrapped(tmp_path):
    columns = make_columns() | {"length": make_columns()["length"].astype(np.int64)}
    dataset = write_dataset(tmp_path / "set", columns, **SETTINGS)
    assert dataset.columns["length"].dtype == np.int32
    too_large = columns | {"task_id": columns["task_id"].astype(np.int64) + 2**16}
    with pytest.raises(ValueError, match="task_id"):
        write_dataset(tmp_path / "other", too_large, **SETTINGS)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("length", 0, "length must be from 1 to 5"),
        ("length", 6, "length must be from 1 to 5"),
        ("task_id", 3, "task_id must be below 3"),
        ("split", 2, "split must be 0"),
        ("reward", np.nan, "reward must be finite"),
        ("action", 6, "action must be from 0 to 5"),
    ],
)
def test_broken_rules_are_refused_and_leave_nothing(tmp_path, column, value, words):
    columns = make_columns()
    columns[column][7] = value
    with pytest.raises(ValueError, match=f"episode 7: {words}"):
        write_dataset(tmp_path / "data" / "set", columns, **SETTINGS)
    assert list(tmp_path.iterdir()) == []


def test_wrong_returns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="sum of the episode's rewards"):
        write_dataset(tmp_path / "set", make_columns() | {"episode_return": np.full(12, 99.0)}, **SETTINGS)


def test_columns_that_change_between_shards_are_refused(tmp_path):
    def write_shards(*shards):
        with new_dataset(tmp_path / "set", **SETTINGS) as writer:
            for shard in shards:
                writer.append(shard)

    with pytest.raises(ValueError, match="columns changed"):
        write_shards(make_columns(steps=5), make_columns(steps=6))
    assert list(tmp_path.iterdir()) == []


def test_no_episodes_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no episodes"), new_dataset(tmp_path / "set", **SETTINGS):
        pass
    assert list(tmp_path.iterdir()) == []


def test_opening_reads_no_column(tmp_path):
    columns = make_columns(per_task=20_000, steps=50)
    path = write_dataset(tmp_path / "set", columns, **SETTINGS).path
    # Resident anonymous and file pages together: a column that were read would show in either.
    program = f"""
import resource
from r2a.data.dataset import OfflineDataset
read = lambda: int([line for line in open("/proc/self/statm").read().split()][1]) * resource.getpagesize()
OfflineDataset.open({str(path)!r})
before = read()
dataset = OfflineDataset.open({str(path)!r})
print(read() - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert sum(column.nbytes for column in OfflineDataset.open(path).columns.values()) > 40e6
    assert grown < 1e6


def test_existing_folders_are_kept_unless_told(path):
    before = OfflineDataset.open(path).fingerprint
    with pytest.raises(UserError, match="already exists"):
        write_dataset(path, make_columns(seed=1), **SETTINGS)
    broken = make_columns(seed=1) | {"length": np.zeros(12, int)}
    with pytest.raises(ValueError, match="length"):
        write_dataset(path, broken, **SETTINGS, overwrite=True)
    assert OfflineDataset.open(path).fingerprint == before
    changed = write_dataset(path, make_columns(seed=1), **SETTINGS, overwrite=True)
    changed.verify()
    assert changed.fingerprint != before
    assert [entry.name for entry in path.parent.iterdir()] == ["small"]


def test_overwrite_spares_folders_that_are_no_data_set(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="not a data set"):
        write_dataset(tmp_path / "precious", make_columns(), **SETTINGS, overwrite=True)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("column", ["observation", "reward", "split"])
def test_a_flipped_byte_is_found_by_verify(path, column):
    flip_last_byte(path / f"{column}.npy")
    with pytest.raises(UserError, match=rf"{column}\.npy is damaged.*checksum"):
        OfflineDataset.open(path).verify()


def test_a_truncated_column_is_found_at_once(path):
    content = (path / "reward.npy").read_bytes()
    for size in (len(content) - 1, 10, 0):
        (path / "reward.npy").write_bytes(content[:size])
        with pytest.raises(UserError, match=r"reward\.npy is damaged: it has"):
            OfflineDataset.open(path)


def test_a_lost_column_is_named(path):
    (path / "action.npy").unlink()
    with pytest.raises(UserError, match=r"action\.npy is missing"):
        OfflineDataset.open(path)


def test_a_pickle_in_place_of_a_column_is_never_loaded(path):
    np.save(path / "length.npy", np.array([print, None], dtype=object), allow_pickle=True)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["columns"]["length"]["bytes"] = (path / "length.npy").stat().st_size
    edit_manifest(path, columns=manifest["columns"])
    with pytest.raises(UserError, match=r"length\.npy is damaged"):
        OfflineDataset.open(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ('{"format": "r2a-data', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("\xff\xfe", "not valid JSON"),
        ("[]", "does not describe an r2a data set"),
        ('{"format": "minari"}', "does not describe an r2a data set"),
        ('{"format": "r2a-dataset"}', "format_version is None"),
        ('{"format": "r2a-dataset", "format_version": 2}', "newer r2a.*upgrade"),
        ('{"format": "r2a-dataset", "format_version": 1}', "'name' is missing"),
    ],
)
def test_foreign_and_future_manifests(path, text, words):
    (path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=words):
        OfflineDataset.open(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fingerprint": "0"}, "fingerprint"),
        ({"task_names": ["a"]}, "'tasks' and 'task_names' differ"),
        ({"columns": {"reward": 3}}, "entry of column 'reward'"),
        ({"columns": {"../reward": {}}}, "entry of column '../reward'"),
        ({"episodes": 13}, "number of episodes"),
    ],
)
def test_manifests_that_contradict_themselves(path, changes, words):
    edit_manifest(path, **changes)
    with pytest.raises(UserError, match=words):
        OfflineDataset.open(path)


def test_a_column_of_another_type_is_found_at_once(path):
    np.save(path / "length.npy", np.ones(24, np.int16))
    with pytest.raises(UserError, match=r"length\.npy holds int16"):
        OfflineDataset.open(path)


def test_verify_wants_both_splits_of_every_task(tmp_path):
    columns = make_columns()
    columns["split"][columns["task_id"] == 1] = RETRIEVAL
    dataset = write_dataset(tmp_path / "set", columns, **SETTINGS)
    with pytest.raises(UserError, match="'touch blue' has no learning episodes"):
        dataset.verify()


def test_verify_counts_the_tasks_again(path):
    tasks = OfflineDataset.open(path).manifest["tasks"]
    edit_manifest(path, tasks=tasks | {"stack": tasks["stack"] | {"return_max": 1e9}})
    with pytest.raises(UserError, match="counts or returns per task"):
        OfflineDataset.open(path).verify()


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=50, deadline=None)
def test_splits_are_fair_per_task_and_repeatable(counts, fraction, seed):
    task_id = np.repeat(np.arange(len(counts)), counts)
    split = assign_splits(task_id, fraction, seed)
    np.testing.assert_array_equal(split, assign_splits(task_id, fraction, seed))
    for task, count in enumerate(counts):
        retrieval = int(np.sum(split[task_id == task] == RETRIEVAL))
        assert abs(retrieval - fraction * count) <= 1
        assert count == 1 or 1 <= retrieval <= count - 1
    np.testing.assert_array_equal(split[task_id == 0], assign_splits(task_id[task_id == 0], fraction, seed))


def test_splits_refuse_a_fraction_that_leaves_one_side_empty():
    with pytest.raises(ValueError, match="between 0 and 1"):
        assign_splits(np.zeros(4, int), 1.0, 0)


def test_the_first_tasks_are_selected_without_a_copy_and_others_with_one(path, tmp_path):
    dataset = OfflineDataset.open(path)
    first = dataset.select(TASKS[:2])
    assert (first.task_names, first.num_episodes) == (TASKS[:2], 8)
    assert set(first.columns["task_id"]) == {0, 1}
    assert np.shares_memory(first.columns["observation"], dataset.columns["observation"])
    first.verify()
    mixed = write_dataset(tmp_path / "mixed", make_columns(tasks=[2, 0, 1]), **SETTINGS)
    for name in TASKS[:2]:
        own = mixed.select([name])
        assert (own.task_names, set(own.columns["task_id"])) == ((name,), {0})
        rows = mixed.episodes(TASKS.index(name))
        np.testing.assert_array_equal(own.columns["observation"], mixed.columns["observation"][rows])


def test_episodes_of_a_task_and_split(path):
    dataset = OfflineDataset.open(path)
    rows = dataset.episodes(task=1, split=RETRIEVAL)
    assert len(rows) == dataset.manifest["tasks"]["touch blue"]["retrieval"] == 2
    assert np.all(dataset.columns["task_id"][rows] == 1)
    assert len(dataset.episodes()) == 12


def test_listing_and_finding(path, tmp_path):
    root = path.parent
    write_dataset(root / "nested" / "other", make_columns(), **SETTINGS)
    (root / "broken").mkdir()
    (root / "broken" / "manifest.json").write_text("{}")
    (root / ".small.partial-1-00000000").mkdir()
    (root / ".small.partial-1-00000000" / "manifest.json").write_text("{}")
    listed = {str(path.relative_to(root)): found for path, found in list_datasets(root).items()}
    assert list(listed) == ["broken", "nested/other", "small"]
    assert isinstance(listed["broken"], UserError)
    assert "does not describe" in str(listed["broken"])
    assert isinstance(listed["small"], OfflineDataset)
    assert find_dataset("small", root).path == path
    assert find_dataset("nested/other", root).name == "small"
    assert find_dataset(path, tmp_path / "nowhere").path == path
    with pytest.raises(UserError, match=r"no data set 'big'.*nested/other, small.*r2a collect ENVIRONMENT"):
        find_dataset("big", root)
    with pytest.raises(UserError, match=r"has none.*r2a collect ENVIRONMENT"):
        find_dataset("big", tmp_path / "nowhere")
    with pytest.raises(UserError, match="too long"):
        find_dataset("x" * 300, root)
    (root / "empty").mkdir()
    with pytest.raises(UserError, match=r"no manifest\.json"):
        find_dataset("empty", root)


def test_opening_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        OfflineDataset.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        OfflineDataset.open(tmp_path / "file")


def test_writing_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a part of the path is a file"):
        write_dataset(tmp_path / "file" / "set", make_columns(), **SETTINGS)


def test_a_file_that_may_not_grow_leaves_nothing(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    columns = make_columns(per_task=500, steps=20)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(UserError, match="too large"):
            write_dataset(tmp_path / "set", columns, **SETTINGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
