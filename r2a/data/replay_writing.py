"""Compiled: rows enter a replay, sequences become ready to be drawn, and leave it again."""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numpy as np

from r2a.data.compiled import STREAM_FROM, compiled, copy_bytes, finish_streams
from r2a.data.sum_tree import set_leaf


class Rows(NamedTuple):
    """A chunk of [lanes, n] rows; observation and action are bytes with one axis."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    is_first: np.ndarray
    is_last: np.ndarray
    present: np.ndarray
    state: np.ndarray


class Ready(NamedTuple):
    """Room for the sequences that become ready to be drawn, and how many they are."""

    slots: np.ndarray
    numbers: np.ndarray
    count: np.ndarray


@compiled
@no_type_check
def first_stray_row(store, rows):
    """The first row, as lane x n + place, that belongs to no episode; -1: none is."""
    lanes, n = rows.reward.shape
    for lane in range(lanes):
        is_open = store.lanes[lane].is_open != 0
        for i in range(n):
            if rows.present[lane, i]:
                if not is_open and not rows.is_first[lane, i]:
                    return lane * n + i
                is_open = not rows.is_last[lane, i]
    return -1


@compiled
@no_type_check
def slot_of(layout, lane, number):
    """Where the block of that number lies."""
    return lane * layout.lane_blocks + number % layout.lane_blocks


@compiled
@no_type_check
def set_chance(store, slot, chance):
    """Give the sequence that begins there its share of the draws; 0: it cannot be drawn."""
    store.totals[0].sequences += int(chance > 0.0) - int(store.nodes[slot] > 0.0)
    set_leaf(store.nodes, store.starts, slot, chance)


@compiled
@no_type_check
def begin_block(store, layout, lane, number, place):
    """Take the oldest block's slot; the sequences that need its rows leave."""
    slot = slot_of(layout, lane, number)
    block, state = store.blocks[slot], store.lanes[lane]
    oldest = number - layout.lane_blocks
    set_chance(store, slot, 0.0)
    for later in range(1, layout.blocks_before + 1):
        other = slot_of(layout, lane, oldest + later)
        if store.blocks[other].number == oldest + later and store.blocks[other].place >= later:
            set_chance(store, other, 0.0)
    block.number, block.place, block.episode = number, place, state.episode
    block.steps, block.frames, block.return_before = 0, 0, state.return_so_far
    state.next_block = number + 1


@compiled
@no_type_check
def make_ready(store, layout, lane, place, steps, frames, exponent, ready):
    """Let the sequence be drawn that begins with the lane's episode's block of that place."""
    number = store.lanes[lane].first_block + place
    slot = slot_of(layout, lane, number)
    store.blocks[slot].steps = min(steps, layout.trace)
    store.blocks[slot].frames = min(frames, layout.trace + 1)
    set_chance(store, slot, store.totals[0].highest_priority ** exponent)
    ready.slots[ready.count[0]], ready.numbers[ready.count[0]] = slot, number
    ready.count[0] += 1


@compiled
@no_type_check
def end_episode(store, layout, lane, steps, exponent, ready):
    """The sequences that wait for the end are ready; `steps` are those whose outcome is known."""
    state = store.lanes[lane]
    state.is_open = 0
    complete = max(0, (state.frames - 1 - layout.trace) // layout.period + 1)
    for place in range(complete, -(-steps // layout.period)):
        before = place * layout.period
        make_ready(store, layout, lane, place, steps - before, state.frames - before, exponent, ready)


@compiled
@no_type_check
def begin_episode(store, lane):
    """The next row begins the lane's next block."""
    state = store.lanes[lane]
    state.is_open, state.frames, state.first_block, state.return_so_far = 1, 0, state.next_block, 0.0
    state.episode = store.totals[0].episodes
    store.totals[0].episodes += 1


@compiled
@no_type_check
def keep_state(store, layout, rows, lane, i, before, row):
    """Keep what the agent brought to the row: its memory, and what it did and got just before (in row i = `before`)."""
    slot, size = row // layout.period, layout.action_bytes
    store.state[slot] = rows.state[lane, i]
    n = rows.reward.shape[1]
    if store.lanes[lane].frames == 0:
        store.previous_action[slot * size : (slot + 1) * size] = 0
        store.previous_reward[slot] = 0.0
    elif before >= 0:
        copy_bytes(store.previous_action, slot * size, rows.action, (lane * n + before) * size, size, False)
        store.previous_reward[slot] = rows.reward[lane, before]
    else:
        last = last_row(store, layout, lane)
        copy_bytes(store.previous_action, slot * size, store.action, last * size, size, False)
        store.previous_reward[slot] = store.reward[last]


@compiled
@no_type_check
def last_row(store, layout, lane):
    """The row that the lane's episode wrote last."""
    state = store.lanes[lane]
    block, offset = divmod(state.frames - 1, layout.period)
    return slot_of(layout, lane, state.first_block + block) * layout.period + offset


@compiled
@no_type_check
def copy_run(store, layout, rows, lane, i, row, length, stream):
    """Copy rows that lie side by side here and there."""
    source = lane * rows.reward.shape[1] + i
    size = layout.observation_bytes
    copy_bytes(store.observation, row * size, rows.observation, source * size, length * size, stream)
    size = layout.action_bytes
    copy_bytes(store.action, row * size, rows.action, source * size, length * size, False)


@compiled
@no_type_check
def write_row(store, layout, rows, lane, i, before, exponent, ready):
    """Everything about a row but its frame and action; returns where it lies."""
    state = store.lanes[lane]
    place, offset = divmod(state.frames, layout.period)
    number = state.first_block + place
    if offset == 0:
        begin_block(store, layout, lane, number, place)
    row = slot_of(layout, lane, number) * layout.period + offset
    if offset == -layout.burn_in % layout.period:
        keep_state(store, layout, rows, lane, i, before, row)
    store.reward[row], store.discount[row] = rows.reward[lane, i], rows.discount[lane, i]
    state.return_so_far += rows.reward[lane, i]
    state.frames += 1
    # The frame after a sequence's last step makes it complete.
    since = state.frames - 1 - layout.trace
    if since >= 0 and since % layout.period == 0:
        make_ready(
            store, layout, lane, since // layout.period, layout.trace, layout.trace + 1, exponent, ready
        )
    return row


@compiled
@no_type_check
def add_rows(store, layout, rows, exponent, ready):
    """Write a chunk of rows, lane by lane."""
    lanes, n = rows.reward.shape
    stream = lanes * n * layout.observation_bytes >= STREAM_FROM
    for lane in range(lanes):
        state = store.lanes[lane]
        # A run of rows that can be copied at once: from where, to where, and how many.
        first, row, length = 0, 0, 0
        before = -1
        for i in range(n):
            if not rows.present[lane, i]:
                continue
            if rows.is_first[lane, i]:
                if state.is_open:
                    # Cut off without a last frame: that of the last step becomes it, its outcome is not known.
                    end_episode(store, layout, lane, state.frames - 1, exponent, ready)
                if rows.is_last[lane, i]:
                    continue
                begin_episode(store, lane)
            elif rows.is_last[lane, i] and store.discount[last_row(store, layout, lane)] == 0.0:
                # Terminated: nothing is bootstrapped from the last frame, which is not kept.
                end_episode(store, layout, lane, state.frames, exponent, ready)
                continue
            target = write_row(store, layout, rows, lane, i, before, exponent, ready)
            if i != first + length or target != row + length:
                copy_run(store, layout, rows, lane, first, row, length, stream)
                first, row, length = i, target, 0
            length += 1
            before = i
            if rows.is_last[lane, i]:
                end_episode(store, layout, lane, state.frames - 1, exponent, ready)
        copy_run(store, layout, rows, lane, first, row, length, stream)
    finish_streams()


@compiled
@no_type_check
def change_priorities(store, slots, numbers, priorities, exponent, floor):
    """Give sequences that are still there new priorities; returns the first that is no priority, or -1."""
    for i in range(slots.size):
        if not (0.0 <= priorities[i] < np.inf):
            return i
    for i in range(slots.size):
        slot = slots[i]
        if store.blocks[slot].number == numbers[i] and store.nodes[slot] > 0.0:
            priority = max(priorities[i], floor)
            store.totals[0].highest_priority = max(store.totals[0].highest_priority, priority)
            set_chance(store, slot, priority**exponent)
    return -1
