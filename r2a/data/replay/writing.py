"""Compiled: rows enter a replay, sequences become ready to be drawn, and leave it again."""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numpy as np

from r2a.data.replay.compiled import compiled, copy_bytes, fill_bytes, finish_streams
from r2a.data.replay.store import Store
from r2a.data.replay.sum_tree import set_leaf


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
def set_chance(nodes, starts, totals, slot, chance):
    """Give the sequence that begins there its share of the draws; 0: it cannot be drawn."""
    if chance != nodes[slot]:
        totals[0].sequences += int(chance > 0.0) - int(nodes[slot] > 0.0)
        set_leaf(nodes, starts, slot, chance)


@compiled
@no_type_check
def begin_block(store, layout, lane):
    """Take the oldest block's slot, which is returned; the sequences that need its rows leave."""
    state = store.lanes[lane]
    number = state.next_block
    state.next_block += 1
    slot = slot_of(layout, lane, number)
    oldest = number - layout.lane_blocks
    set_chance(store.nodes, store.starts, store.totals, slot, 0.0)
    for later in range(1, layout.blocks_before + 1):
        other = slot_of(layout, lane, oldest + later)
        if store.blocks[other].number == oldest + later and store.blocks[other].place >= later:
            set_chance(store.nodes, store.starts, store.totals, other, 0.0)
    block = store.blocks[slot]
    block.number, block.place, block.episode = number, number - state.first_block, state.episode
    block.steps, block.frames, block.return_before = 0, 0, state.return_so_far
    return slot


@compiled
@no_type_check
def make_ready(store, layout, lane, place, steps, frames, chance, ready):
    """Let the sequence be drawn that begins with the lane's episode's block of that place."""
    number = store.lanes[lane].first_block + place
    slot = slot_of(layout, lane, number)
    store.blocks[slot].steps = min(steps, layout.trace)
    store.blocks[slot].frames = min(frames, layout.trace + 1)
    set_chance(store.nodes, store.starts, store.totals, slot, chance)
    ready.slots[ready.count[0]], ready.numbers[ready.count[0]] = slot, number
    ready.count[0] += 1


@compiled
@no_type_check
def end_episode(store, layout, lane, steps, chance, ready):
    """The sequences that wait for the end are ready; `steps` are those whose outcome is known."""
    state = store.lanes[lane]
    state.is_open = 0
    complete = max(0, (state.frames - 1 - layout.trace) // layout.period + 1)
    for place in range(complete, -(-steps // layout.period)):
        before = place * layout.period
        make_ready(store, layout, lane, place, steps - before, state.frames - before, chance, ready)


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
def keep_state(store, layout, rows, lane, i, row, last):
    """Keep what the agent brought to a row: its memory, and what it did and got in the row before, `last`."""
    slot, size = row // layout.period, rows.state.shape[2] * 4
    source = (lane * rows.state.shape[1] + i) * size
    copy_bytes(store.state, slot * size, rows.state, source, size, False)
    size = layout.action_bytes
    if store.lanes[lane].frames == 0:
        fill_bytes(store.previous_action, slot * size, size, 0)
        store.blocks[slot].previous_reward = 0.0
    else:
        copy_bytes(store.previous_action, slot * size, store.action, last * size, size, False)
        store.blocks[slot].previous_reward = store.reward[last]


@compiled
@no_type_check
def plain_rows(layout, rows, lane, i, offset):
    """How many rows from row i on, which has this place in its block, can be written at once.

    All but the first are plain: inside an episode, inside a block, and neither keep a state nor complete a sequence.
    """
    limit = layout.period - offset
    if layout.state_offset > offset:
        limit = min(limit, layout.state_offset - offset)
    if layout.ready_offset > offset:
        limit = min(limit, layout.ready_offset - offset)
    limit = min(limit, rows.reward.shape[1] - i)
    present, is_first, is_last = rows.present, rows.is_first, rows.is_last
    for count in range(1, limit):
        if is_first[lane, i + count] or is_last[lane, i + count] or not present[lane, i + count]:
            return count
    return limit


@compiled
@no_type_check
def copy_rows(store, layout, rows, lane, i, row, count):
    """Copy rows that lie side by side here and there."""
    source = lane * rows.reward.shape[1] + i
    size = layout.observation_bytes
    # Past the caches: it will be a while until it is drawn.
    copy_bytes(store.observation, row * size, rows.observation, source * size, count * size, True)
    size = layout.action_bytes
    copy_bytes(store.action, row * size, rows.action, source * size, count * size, False)
    copy_bytes(store.reward, row * 4, rows.reward, source * 4, count * 4, False)
    copy_bytes(store.discount, row * 4, rows.discount, source * 4, count * 4, False)


@compiled
@no_type_check
def write_rows(store, layout, rows, lane, i, chance, ready):
    """Write row i, and the plain rows after it; returns how many they are."""
    state = store.lanes[lane]
    last, offset = state.row, state.offset + 1
    row = last + 1
    if state.frames == 0 or offset == layout.period:
        row = begin_block(store, layout, lane) * layout.period
        offset = 0
    if offset == layout.state_offset:
        keep_state(store, layout, rows, lane, i, row, last)
    count = 1 if rows.is_last[lane, i] else plain_rows(layout, rows, lane, i, offset)
    copy_rows(store, layout, rows, lane, i, row, count)
    reward, total = rows.reward, state.return_so_far
    for j in range(i, i + count):
        total += reward[lane, j]
    state.return_so_far = total
    if offset == layout.ready_offset and state.frames >= layout.trace:
        place = (state.frames - layout.trace) // layout.period
        make_ready(store, layout, lane, place, layout.trace, layout.trace + 1, chance, ready)
    store.blocks[row // layout.period].written = store.totals[0].writes
    state.frames += count
    state.row, state.offset = row + count - 1, offset + count - 1
    state.terminated = int(rows.discount[lane, i + count - 1] == 0.0)
    return count


@compiled
@no_type_check
def add_rows(store_arrays, rows_arrays, exponent, ready_arrays):
    """Write a chunk of rows, lane by lane; returns -1, or writes nothing and returns a row that has no episode."""
    # What compiled code is handed are plain tuples: it would look up the class of others every time.
    store, rows, ready = Store(*store_arrays), Rows(*rows_arrays), Ready(*ready_arrays)
    stray = first_stray_row(store, rows)
    if stray >= 0:
        return stray
    store.totals[0].writes += 1
    layout, chance = store.layout[0], store.totals[0].highest_priority ** exponent
    lanes, n = rows.reward.shape
    for lane in range(lanes):
        state = store.lanes[lane]
        i = 0
        while i < n:
            is_last = rows.is_last[lane, i]
            if not rows.present[lane, i]:
                i += 1
                continue
            terminated = state.terminated != 0
            if rows.is_first[lane, i]:
                if state.is_open:
                    # Truncated without a last frame: that of the last step becomes it, its outcome is not known.
                    steps = state.frames if terminated else state.frames - 1
                    end_episode(store, layout, lane, steps, chance, ready)
                if is_last:
                    i += 1
                    continue
                begin_episode(store, lane)
            elif is_last and terminated:
                # Nothing is bootstrapped from the last frame, which is not kept.
                end_episode(store, layout, lane, state.frames, chance, ready)
                i += 1
                continue
            i += write_rows(store, layout, rows, lane, i, chance, ready)
            if is_last:
                end_episode(store, layout, lane, state.frames - 1, chance, ready)
    finish_streams()
    return -1


@compiled
@no_type_check
def change_priorities(blocks, nodes, starts, totals, slots, numbers, priorities, exponent, floor):
    """Give sequences that are still there new priorities; returns the first that is no priority, or -1."""
    for i in range(slots.size):
        if not (0.0 <= priorities[i] < np.inf):
            return i
    for i in range(slots.size):
        if blocks[slots[i]].number == numbers[i] and nodes[slots[i]] > 0.0:
            priority = max(priorities[i], floor)
            totals[0].highest_priority = max(totals[0].highest_priority, priority)
            set_chance(nodes, starts, totals, slots[i], priority**exponent)
    return -1
