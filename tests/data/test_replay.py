"""The replay of sequences: by hand, and against lists of episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.replay import PlainReplay
from scipy.stats import chisquare

from r2a.config import ReplayConfig
from r2a.data.replay import Drawn, ReplaySpec, SequenceIds, SequenceReplay
from r2a.errors import UserError

SMALL = ReplayConfig(capacity=40, minimum=2, trace=4, period=2)
NUMBERS = ReplaySpec((), np.float32, state_size=1)


def add_numbers(replay, numbers, first=(), last=(), ends=(), num_envs=1):
    """Rows whose observation, action and reward are their numbers, and their state ten times that."""
    numbers = np.broadcast_to(np.asarray(numbers, np.float32), (num_envs, len(numbers)))
    return replay.add(
        numbers,
        numbers.astype(np.int32),
        numbers,
        1.0 - np.isin(numbers, ends).astype(np.float32),
        np.isin(numbers, first),
        np.isin(numbers, last),
        10 * numbers[..., None],
    )


class Given(np.random.Generator):
    """A generator that draws these numbers."""

    def __init__(self, *numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = np.array(numbers)

    def random(self, count):
        assert count == len(self.numbers)
        return self.numbers


def numbers_of(tree):
    """A copy of all leaves and sums."""
    return np.append(tree.values, tree.sums)


def everything(replay):
    """All sequences that can be drawn, as if drawn."""
    indices = np.flatnonzero(replay.tree.values > 0)
    ids = SequenceIds(indices, replay.blocks["number"][indices])
    return Drawn(ids, np.ones(len(indices)), np.ones(len(indices), np.float32))


def test_overlapping_sequences_of_a_truncated_episode_by_hand():
    replay = SequenceReplay(SMALL, NUMBERS, num_envs=1)
    assert len(add_numbers(replay, [1, 2, 3, 4], first=[1]).indices) == 0, "the frame after the fourth step is missing"
    assert add_numbers(replay, [5]).indices.tolist() == [0], "which completes the first sequence"
    assert add_numbers(replay, [6, 7, 8], last=[8]).indices.tolist() == [1, 2, 3]
    sampled = replay.gather(everything(replay))
    assert sampled.observation.tolist() == [[1, 2, 3, 4, 5], [3, 4, 5, 6, 7], [5, 6, 7, 8, 0], [7, 8, 0, 0, 0]]
    assert sampled.action.tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 0], [7, 0, 0, 0]]
    assert sampled.discount.tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]]
    assert sampled.valid.sum(axis=1).tolist() == [4, 4, 3, 1]
    assert sampled.is_first.tolist() == [[True] + [False] * 4] + [[False] * 5] * 3
    assert sampled.state[:, 0].tolist() == [10, 30, 50, 70]
    assert sampled.previous_action.tolist() == sampled.previous_reward.tolist() == [0, 2, 4, 6]
    assert sampled.step.tolist() == [0, 2, 4, 6]
    assert sampled.return_before.tolist() == [0, 3, 10, 21]


def test_a_terminated_episode_needs_no_last_frame():
    with_frame, without = (SequenceReplay(SMALL, NUMBERS, num_envs=1) for _ in range(2))
    add_numbers(with_frame, [1, 2, 3, 4, 5, 6, 7, 8], first=[1, 6], last=[5], ends=[4])
    add_numbers(without, [1, 2, 3, 4, 6, 7, 8], first=[1, 6], ends=[4])
    for replay in (with_frame, without):
        sampled = replay.gather(everything(replay))
        assert sampled.observation.tolist() == [[1, 2, 3, 4, 0], [3, 4, 0, 0, 0]]
        assert sampled.discount.tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
        assert sampled.valid.tolist() == [[True] * 4, [True, True, False, False]]


def test_an_episode_cut_off_without_a_last_frame_loses_its_last_step_only():
    replay = SequenceReplay(SMALL, NUMBERS, num_envs=1)
    add_numbers(replay, [1, 2, 3, 9, 10], first=[1, 9])
    sampled = replay.gather(everything(replay))
    assert sampled.observation.tolist() == [[1, 2, 3, 0, 0]], "its frame is what is bootstrapped from"
    assert sampled.action.tolist() == [[1, 2, 0, 0]]


def test_autoreset_a_row_after_the_end_must_begin_an_episode():
    replay = SequenceReplay(SMALL, NUMBERS, num_envs=2)
    with pytest.raises(ValueError, match="row 2 of environment 0"):
        add_numbers(replay, [1, 2, 3], first=[1], last=[2], num_envs=2)
    assert replay.episodes == 0, "nothing was written"
    with pytest.raises(ValueError, match="row 0 of environment 0"):
        add_numbers(replay, [5], num_envs=2)


def test_burn_in_and_stack_by_hand():
    config = replace(SMALL, burn_in=3, stack=3)
    replay = SequenceReplay(config, NUMBERS, num_envs=1)
    add_numbers(replay, range(1, 11), first=[1], last=[10])
    sampled = replay.gather(everything(replay))
    second, third = sampled.observation[1].astype(int).tolist(), sampled.observation[2].astype(int).tolist()
    assert second == [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert third == [[1, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 9]]
    assert sampled.is_first[1].tolist() == [False, True] + [False] * 6
    assert sampled.valid[1].tolist() == [False] + [True] * 6
    assert sampled.state[:3, 0].tolist() == [0, 0, 20], "the state at the first frame, if the episode has begun"
    assert sampled.previous_action[:3].tolist() == [0, 0, 1]


def test_overwritten_sequences_never_come_back():
    replay = SequenceReplay(replace(SMALL, capacity=6), NUMBERS, num_envs=1)
    old = add_numbers(replay, range(1, 10), first=[1])
    drawn = everything(replay)
    add_numbers(replay, range(10, 16))
    assert replay.gather(everything(replay)).observation[:, 0].tolist() == [5, 7, 9, 11][: len(replay)]
    before = numbers_of(replay.tree)
    replay.update_priorities(SequenceIds(old.indices[:2], old.numbers[:2]), np.array([1e6, 1e6]))
    assert np.array_equal(numbers_of(replay.tree), before), "a priority that comes too late changes nothing"
    assert replay.highest_priority == 1.0
    with pytest.raises(ValueError, match="overwritten"):
        replay.gather(drawn)


def test_new_sequences_have_the_highest_priority_or_what_they_are_given():
    replay = SequenceReplay(replace(SMALL, priority_exponent=0.5), NUMBERS, num_envs=1)
    first = add_numbers(replay, range(1, 6), first=[1])
    replay.update_priorities(first, np.array([16.0]))
    second = add_numbers(replay, [6, 7])
    assert replay.tree.values[:2].tolist() == [4.0, 4.0]
    replay.update_priorities(second, np.array([0.0]))
    assert replay.tree.values[1] == np.sqrt(SMALL.priority_floor), "never zero"
    drawn = replay.draw(2, Given(0.5, 0.5))
    assert drawn.probability[0] == pytest.approx(4.0 / replay.tree.total)


def test_priorities_and_weights_by_hand():
    replay = SequenceReplay(replace(SMALL, priority_exponent=1.0, importance_exponent=0.5), NUMBERS, num_envs=1)
    ids = add_numbers(replay, range(1, 10), first=[1])
    replay.update_priorities(ids, np.array([1.0, 4.0, 5.0]))
    drawn = replay.draw(2, Given(0.1, 0.9))
    assert drawn.ids.indices.tolist() == [0, 2]
    assert drawn.probability.tolist() == [0.1, 0.5]
    assert drawn.weight == pytest.approx([1.0, np.sqrt(0.2)])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_a_priority_that_is_none_is_refused_in_a_sentence(wrong):
    replay = SequenceReplay(SMALL, NUMBERS, num_envs=1)
    ids = add_numbers(replay, range(1, 8), first=[1])
    before = numbers_of(replay.tree)
    with pytest.raises(UserError, match="must be finite and not negative"):
        replay.update_priorities(ids, np.array([3.0, wrong]))
    assert np.array_equal(numbers_of(replay.tree), before)


def test_frequencies_match_priorities():
    for kind, exponent in (("prioritised", 0.9), ("uniform", 0.0)):
        replay = SequenceReplay(replace(SMALL, kind=kind), NUMBERS, num_envs=1)
        ids = add_numbers(replay, range(1, 60), first=[1])
        priorities = np.random.default_rng(0).random(len(ids.indices)) + 0.01
        replay.update_priorities(ids, priorities)
        rng = np.random.default_rng(1)
        # One draw at a time: those of one call are spread more evenly than chance would.
        indices = [int(replay.draw(1, rng).ids.indices[0]) for _ in range(8_000)]
        expected = priorities**exponent / np.sum(priorities**exponent) * len(indices)
        assert chisquare(np.bincount(indices, minlength=len(ids.indices)), expected).pvalue > 1e-3


def test_settings_that_make_no_sense_are_refused_in_a_sentence():
    for change, name in (
        ({"trace": 1}, "replay.trace"),
        ({"minimum": 100}, "replay.minimum"),
        ({"priority_exponent": 2.0}, "replay.priority-exponent"),
        ({"burn_in": -1}, "replay.burn-in"),
        ({"stack": 0}, "replay.stack"),
    ):
        with pytest.raises(UserError, match=name):
            replace(SMALL, **change)
    with pytest.raises(UserError, match=r"replay\.capacity is 40, but 20 environments need at least 80"):
        SequenceReplay(SMALL, NUMBERS, num_envs=20)
    with pytest.raises(UserError, match="Nothing can be drawn"):
        SequenceReplay(SMALL, NUMBERS, num_envs=1).sample(1, np.random.default_rng(0))


def test_memory_is_bounded(tmp_path):
    huge = replace(SMALL, capacity=10**12)
    assert not isinstance(SequenceReplay(SMALL, NUMBERS, 1, tmp_path / "unused").observation.base, np.memmap)
    assert not (tmp_path / "unused").exists(), "frames that fit into the memory need no file"
    in_file = SequenceReplay(replace(SMALL, memory_share=1e-12), NUMBERS, num_envs=1, folder=tmp_path)
    assert isinstance(in_file.observation.base, np.memmap)
    with pytest.raises(UserError, match="give it a folder"):
        SequenceReplay(huge, NUMBERS, num_envs=1)
    with pytest.raises(UserError, match="Cannot write"):
        SequenceReplay(replace(SMALL, capacity=10**16), NUMBERS, num_envs=1, folder=tmp_path)


# What follows compares with the oracle.


@st.composite
def worlds(draw):
    period = draw(st.integers(1, 4))
    config = ReplayConfig(
        capacity=draw(st.integers(1, 60)) + 1000,
        minimum=1,
        period=period,
        trace=period + draw(st.integers(0, 6)),
        burn_in=draw(st.integers(0, 5)),
        stack=draw(st.integers(1, 3)),
        priority_exponent=draw(st.sampled_from([0.0, 0.5, 1.0])),
    )
    num_envs = draw(st.integers(1, 3))
    before = -(-(config.burn_in + config.stack - 1) // period)
    least = num_envs * (before + config.trace // period + 2)
    return replace(config, capacity=least + draw(st.integers(0, 20))), num_envs


class Pair:
    """A replay and its oracle, fed alike."""

    def __init__(self, config, num_envs, rng, folder=None):
        self.spec = ReplaySpec((2,), np.int16, state_size=2)
        config = config if folder is None else replace(config, memory_share=1e-12)
        self.replay, self.plain = SequenceReplay(config, self.spec, num_envs, folder), PlainReplay(config, num_envs)
        self.rng, self.num_envs, self.is_open, self.next = rng, num_envs, [False] * num_envs, 1

    def row(self, env):
        rng, number = self.rng, self.next
        self.next += 1
        is_first = not self.is_open[env] or rng.random() < 0.05
        is_last = rng.random() < (0.15 if self.is_open[env] else 0.03)
        self.is_open[env] = not is_last
        return {
            "observation": np.array([number % 30_000, env], np.int16),
            "action": number,
            "reward": float(rng.integers(-3, 4)),
            "discount": float(rng.random() > 0.1),
            "is_first": is_first,
            "is_last": is_last,
            "state": np.array([number, -number], np.float32),
        }

    def add(self, n):
        """Random rows, some of them not present."""
        present = self.rng.random((self.num_envs, n)) < 0.9
        chunk = []
        for env in range(self.num_envs):
            chunk.append([])
            for i in range(n):
                row = self.row(env) if present[env, i] else chunk[0][0] if chunk[0] else self.no_row()
                chunk[-1].append(row)
                if present[env, i]:
                    self.plain.add(env, row)
        types = {"observation": np.int16, "action": np.int64, "reward": np.float32, "discount": np.float32}
        columns = {
            name: np.array([[row[name] for row in env] for env in chunk], types.get(name)) for name in chunk[0][0]
        }
        return self.replay.add(**columns, present=present)

    def no_row(self):
        is_open, row = list(self.is_open), self.row(0)
        self.is_open = is_open
        return row

    def check(self):
        """All sequences are those of the oracle, and all that is delivered of them is."""
        expected = self.plain.sequences()
        drawn = everything(self.replay)
        sampled = self.replay.gather(drawn)
        keys = zip(sampled.env.tolist(), drawn.ids.numbers.tolist(), strict=True)
        found = {key: place for place, key in enumerate(keys)}
        assert set(found) == set(expected)
        assert len(self.replay) == len(expected)
        for key, sequence in expected.items():
            for name, value in sequence.items():
                if name != "seen":
                    np.testing.assert_array_equal(getattr(sampled, name)[found[key]], value, err_msg=name)
        return expected


@settings(max_examples=120, deadline=None)
@given(worlds(), st.integers(0, 2**32 - 1))
def test_all_that_is_delivered_is_what_was_added(world, seed):
    rng = np.random.default_rng(seed)
    pair, priorities = Pair(*world, rng), {}
    old = []
    for _ in range(rng.integers(1, 9)):
        ids = pair.add(int(rng.choice([1, 1, 2, 7, 40])))
        expected = pair.check()
        replay, numbers = pair.replay, pair.replay.blocks["number"]
        highest = replay.highest_priority
        priorities |= dict.fromkeys(zip(ids.indices.tolist(), ids.numbers.tolist(), strict=True), highest)
        if not expected:
            continue
        drawn = replay.draw(5, rng)
        old.append(drawn.ids)
        late = old[rng.integers(len(old))]
        new = rng.random(5) * 3
        replay.update_priorities(late, new)
        for *key, priority in zip(late.indices.tolist(), late.numbers.tolist(), new, strict=True):
            if numbers[key[0]] == key[1]:
                priorities[tuple(key)] = max(priority, replay.config.priority_floor)
        for index in np.flatnonzero(replay.tree.values):
            assert replay.tree.values[index] == priorities[index, numbers[index]] ** replay.config.priority_exponent
        assert replay.tree.total > 0
        assert np.isclose(replay.tree.total, replay.tree.values.sum())


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 2**32 - 1))
def test_what_is_learnt_from_and_what_is_retrieved_from_share_no_frame(world, seed):
    rng = np.random.default_rng(seed)
    pair = Pair(*world, rng)
    pair.add(60)
    expected, replay = pair.plain.sequences(), pair.replay
    if not expected:
        return
    before, learning = numbers_of(replay.tree), int(rng.integers(1, 4))
    if learning > len(expected):
        return
    seen = {key: {(value["episode"], step) for step in value["seen"]} for key, value in expected.items()}

    def frames_and_keys(drawn):
        envs = drawn.ids.indices // replay.env_blocks
        keys = list(zip(envs.tolist(), drawn.ids.numbers.tolist(), strict=True))
        return set().union(*(seen[key] for key in keys)), keys

    # Whatever is asked for beyond what there is, is refused; what there is, is found.
    for retrieval in range(len(expected) + 1):
        try:
            first, second = replay.draw_apart(learning, retrieval, rng)
        except UserError:
            break
        (learnt, learnt_keys), (retrieved, retrieved_keys) = frames_and_keys(first), frames_and_keys(second)
        assert not learnt & retrieved
        assert len(set(learnt_keys + retrieved_keys)) == learning + retrieval
        apart = [key for key in seen if not seen[key] & learnt]
        assert retrieval <= len(apart)
        assert np.array_equal(numbers_of(replay.tree), before), "drawing changes nothing"
        assert first.weight.max() == 1.0
    assert retrieval > 0 or learning == len(expected)


def test_drawing_apart_is_in_proportion():
    replay = SequenceReplay(replace(SMALL, capacity=60, priority_exponent=1.0), NUMBERS, num_envs=1)
    for _ in range(6):
        add_numbers(replay, [1, 2, 3], first=[1], last=[3])
    priorities = np.arange(1.0, 7.0)
    replay.update_priorities(everything(replay).ids, priorities)
    rng, indices = np.random.default_rng(0), np.flatnonzero(replay.tree.values)
    counts, pairs = np.zeros(60), 6_000
    for _ in range(pairs):
        first, second = replay.draw_apart(1, 1, rng)
        counts[first.ids.indices] += 1
        assert first.ids.indices[0] != second.ids.indices[0]
    assert chisquare(counts[indices], priorities / priorities.sum() * pairs).pvalue > 1e-3


def test_the_same_randomness_gives_the_same_sequences_and_buffers_are_reused():
    pair = Pair(replace(SMALL, burn_in=1), 2, np.random.default_rng(3))
    pair.add(50)
    first = pair.replay.sample(6, np.random.default_rng(4))
    second = pair.replay.sample(6, np.random.default_rng(4))
    assert all(np.array_equal(a, b) for a, b in zip(first[1:], second[1:], strict=True))
    again = pair.replay.sample(6, np.random.default_rng(5), out=second)
    assert again.observation is second.observation
    fresh = pair.replay.sample(6, np.random.default_rng(5))
    assert all(np.array_equal(a, b) for a, b in zip(again[1:], fresh[1:], strict=True))


def test_arrays_that_may_not_be_written_to_are_as_good():
    replays = [SequenceReplay(SMALL, NUMBERS, num_envs=1) for _ in range(2)]
    for replay, is_writeable in zip(replays, (True, False), strict=True):
        columns = {name: np.arange(1, 8, dtype=np.float32)[None] for name in ("observation", "reward", "discount")}
        columns |= {"action": np.arange(7)[None], "is_first": np.arange(7)[None] == 0, "state": np.ones((1, 7, 1))}
        for column in columns.values():
            column.flags.writeable = is_writeable
        replay.update_priorities(replay.add(**columns), columns["reward"][0, :2])
    assert np.array_equal(*(replay.observation for replay in replays))


def test_pictures_arrive_whole():
    spec = ReplaySpec((84, 85), np.uint8)
    config = ReplayConfig(capacity=40, minimum=1, trace=20, period=10, stack=1)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (2, 63, 84, 85), np.uint8)
    zeros, is_first = np.zeros((2, 63), np.float32), np.arange(63)[None] * np.ones((2, 1)) == 0
    for stack in (1, 3):
        replay = SequenceReplay(replace(config, stack=stack), spec, num_envs=2)
        replay.add(frames, zeros.astype(np.int32), zeros, zeros + 1, is_first)
        sampled = replay.sample(40, rng)
        for i, (env, step) in enumerate(zip(sampled.env, sampled.step, strict=True)):
            newest = sampled.observation[i] if stack == 1 else sampled.observation[i, :, -1]
            assert np.array_equal(newest, frames[env, step : step + 21])
