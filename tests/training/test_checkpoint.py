"""Checkpoints: bit-exact round trips, damage told in one sentence, nothing lost to a kill."""

import json
import random
import re
import resource
import subprocess
import sys
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError

from r2a.errors import UserError
from r2a.training import checkpoint
from r2a.training.checkpoint import (
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)


class State(NamedTuple):
    params: dict
    optional: jax.Array | None
    key: jax.Array
    step: jax.Array


def make_state(value=0.5):
    return State(
        params={
            "dense": [jnp.full((3, 4), value), jnp.full((4,), value, jnp.bfloat16)],
            "counts": jnp.array([1, -2, 3], jnp.int8),
            "mask": jnp.array([True, False]),
            "empty": jnp.zeros((0, 5)),
            "nan": jnp.array([jnp.nan, jnp.inf, -0.0]),
            "host": np.array([1e-300, value]),
            "updates": 2**70,
            "rate": 0.1,
            "done": False,
        },
        optional=None,
        key=jax.random.split(jax.random.key(7), 3),
        step=jnp.array(12, jnp.int32),
    )


def assert_identical(left, right):
    left_leaves, left_structure = jax.tree_util.tree_flatten(left)
    right_leaves, right_structure = jax.tree_util.tree_flatten(right)
    assert left_structure == right_structure
    for a, b in zip(left_leaves, right_leaves, strict=True):
        assert type(a) is type(b)
        if not hasattr(a, "dtype"):
            assert a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_round_trip_is_bit_exact(tmp_path):
    state = make_state()
    extra = {"epoch": 3, "nested": {"best": [1.5, None]}}
    folder = save_checkpoint(tmp_path, state, step=12, config={"preset": "laptop"}, extra=extra)
    assert folder == tmp_path / "checkpoints" / "step_00000012"
    restored, restored_extra = load_checkpoint(folder, make_state(9.0))
    assert_identical(state, restored)
    assert restored.params["host"].flags.writeable
    assert restored_extra == extra
    header = read_checkpoint(folder)
    assert (header.step, header.config) == (12, {"preset": "laptop"})
    np.testing.assert_array_equal(jax.random.normal(restored.key[1]), jax.random.normal(state.key[1]))


def test_shapes_alone_are_enough_to_load(tmp_path):
    state = {"linear": eqx.nn.Linear(3, 2, key=jax.random.key(0)), "key": jax.random.key(1, impl="rbg")}
    folder = save_checkpoint(tmp_path, state, step=1, config={})
    like = jax.eval_shape(lambda: state)
    assert_identical(state, load_checkpoint(folder, like)[0])


DTYPES = st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint32", "int64", "bool"])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_array_survives_bit_by_bit(tmp_path_factory, data):
    state = {}
    for name in data.draw(st.lists(st.text(max_size=5), unique=True, max_size=3)):
        dtype = jnp.dtype(data.draw(DTYPES))
        shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        integers = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, (*shape, dtype.itemsize))
        raw = (integers % 2 if dtype.kind == "b" else integers).astype(np.uint8)
        state[name] = raw.view(dtype).reshape(shape).T
    folder = save_checkpoint(tmp_path_factory.mktemp("run"), state, step=0, config={})
    assert_identical(state, load_checkpoint(folder, state)[0])


def test_leaves_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"\['activation'\].*neither array nor number"):
        save_checkpoint(tmp_path, {"activation": jax.nn.relu}, step=0, config={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"dense": jnp.zeros((3, 3))},
            r"\['dense'\] is array float32 \[2\] there and array float32 \[3, 3\] here",
        ),
        ({"dense": jnp.zeros(2, jnp.int32)}, r"\['dense'\] is array float32 \[2\] there and array int32"),
        ({"dense": 1.0}, r"\['dense'\] is python|\['dense'\] is array"),
        ({"other": jnp.zeros(2)}, r"it has no \['other'\]"),
        ({"dense": None}, r"it has \['dense'\], which is unknown here"),
        ({"key": jax.random.key(0, impl="rbg")}, r"\['key'\] is key key<fry>"),
    ],
)
def test_the_first_difference_is_named(tmp_path, change, words):
    state = {"dense": jnp.zeros(2), "key": jax.random.key(0)}
    folder = save_checkpoint(tmp_path, state, step=0, config={})
    with pytest.raises(UserError, match=words):
        load_checkpoint(folder, state | change)


def test_the_newest_two_are_kept(tmp_path, monkeypatch):
    for step in (5, 10, 200_000_000, 15):
        save_checkpoint(tmp_path, {"a": jnp.zeros(1)}, step=step, config={})
    assert [folder.name for folder in list_checkpoints(tmp_path)] == ["step_00000015", "step_200000000"]
    monkeypatch.setattr(checkpoint, "KEPT", 1)
    save_checkpoint(tmp_path, {"a": jnp.zeros(1)}, step=200_000_001, config={})
    assert [folder.name for folder in (tmp_path / "checkpoints").iterdir()] == ["step_200000001"]


def test_saving_a_step_again_replaces_it(tmp_path):
    for value in (1.0, 2.0):
        folder = save_checkpoint(tmp_path, {"a": jnp.full(2, value)}, step=3, config={})
    assert load_checkpoint(folder, {"a": jnp.zeros(2)})[0]["a"][0] == 2.0
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_no_checkpoint_yet(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "nowhere") is None


def flip_a_byte(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("damage", ["flip start", "flip end", "flip middle", "truncate", "empty", "delete"])
def test_damage_is_never_passed_over(tmp_path, name, damage):
    for step in (1, 2):
        save_checkpoint(tmp_path, make_state(), step=step, config={"a": "b"})
    file = tmp_path / "checkpoints" / "step_00000002" / name
    size = file.stat().st_size
    if damage.startswith("flip"):
        flip_a_byte(file, {"start": 0, "middle": size // 2, "end": size - 3}[damage.split()[1]])
    elif damage == "delete":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: size // 2 if damage == "truncate" else 0])
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        load_checkpoint(file.parent, make_state())
    with pytest.raises(UserError, match=r"delete the folder .*step_00000002 to go on from the older step_00000001"):
        latest_checkpoint(tmp_path)


def test_damage_without_an_older_checkpoint(tmp_path):
    folder = save_checkpoint(tmp_path, make_state(), step=1, config={})
    flip_a_byte(folder / "state.safetensors", -1)
    with pytest.raises(UserError, match="no older checkpoint"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": 2}, "newer r2a.*upgrade"),
        ({"format": "other"}, "does not describe an r2a checkpoint"),
        ({"step": 99}, "does not match its checksum"),
    ],
)
def test_foreign_future_and_edited_headers(tmp_path, changes, words):
    folder = save_checkpoint(tmp_path, make_state(), step=1, config={})
    header = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps(header | changes))
    with pytest.raises(UserError, match=words):
        latest_checkpoint(tmp_path)


def test_a_run_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a part of the path is a file"):
        save_checkpoint(tmp_path / "file" / "run", make_state(), step=1, config={})


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, make_state(), step=1, config={})

    def fail(_, file):
        file.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(UserError, match="the disk is full"):
        save_checkpoint(tmp_path, make_state(), step=2, config={})
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step_00000001"]
    assert latest_checkpoint(tmp_path) is not None


def test_a_file_that_may_not_grow_keeps_the_last_checkpoint(tmp_path):
    save_checkpoint(tmp_path, make_state(), step=1, config={})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(UserError, match="too large"):
            save_checkpoint(tmp_path, np.zeros(100_000), step=2, config={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step_00000001"]


# Two arrays that must always agree, so that a mixture of two saves would show; host arrays keep it quick.
SAVE_FOREVER = """
import sys
import numpy as np
from r2a.training.checkpoint import save_checkpoint
step = int(sys.argv[2])
while True:
    step += 1
    state = {"a": np.full(200_000, step), "b": np.full(3, step)}
    print(save_checkpoint(sys.argv[1], state, step=step, config={}, extra={"step": step}).name, flush=True)
"""


def test_kill_9_while_saving_leaves_a_readable_checkpoint(tmp_path):
    like = {"a": np.zeros(200_000, int), "b": np.zeros(3, int)}
    delays = random.Random(0)
    step = 0
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(tmp_path), str(step)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delays.uniform(0, 0.05))
        child.kill()
        announced = re.findall(r"step_(\d+)\n", child.stdout.read())
        child.wait()
        newest = latest_checkpoint(tmp_path)
        assert newest is not None
        state, extra = load_checkpoint(newest, like)
        assert extra["step"] >= max([step + 1, *map(int, announced)])
        step = extra["step"]
        assert newest.name == f"step_{step:08d}"
        assert set(state["a"]) == set(state["b"]) == {step}
    save_checkpoint(tmp_path, like, step=step + 1, config={})
    assert [entry for entry in (tmp_path / "checkpoints").iterdir() if entry.name.startswith(".")] == []
    assert len(list_checkpoints(tmp_path)) == 2
