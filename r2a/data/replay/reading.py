"""Compiled: sequences are drawn from a replay and put side by side."""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numpy as np

from r2a.data.replay.compiled import STREAM_FROM, compiled, copy_bytes, fetch_bytes, fill_bytes, finish_streams
from r2a.data.replay.store import Store
from r2a.data.replay.sum_tree import draw_leaves, find_leaf, set_leaf
from r2a.data.replay.writing import slot_of

# Columns of a window, which is what a batch has of a sequence: where its lane begins in the store, its first row in
# that lane's ring, its place in its episode and in the batch, and how many steps and frames it has.
LANE_ROW, ROW, STEP, FIRST, STEPS, FRAMES, WINDOW = range(7)
AHEAD, FETCHED = 8, 256
"""So many windows ahead, so many bytes are fetched; after these, a processor foresees by itself what follows."""


START = np.dtype(
    [
        ("lane", np.int64),
        ("episode", np.int64),
        ("step", np.int64),
        ("return_before", np.float64),
        ("previous_reward", np.float32),
    ]
)
"""What a batch says of a sequence's start."""
BYTES = 3
"""So many fields of a batch are bytes with one axis."""


class Batch(NamedTuple):
    """Room for sequences: W frames each, W - 1 steps."""

    observation: np.ndarray
    action: np.ndarray
    previous_action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    valid: np.ndarray
    is_first: np.ndarray
    state: np.ndarray
    starts: np.ndarray  # of START


@compiled
@no_type_check
def draw_sequences(blocks, nodes, starts, uniforms, exponent, slots, numbers, probability, weight):
    """Draw one sequence from each of as many equal parts of all priorities as there are uniform numbers."""
    draw_leaves(nodes, starts, uniforms, slots, probability)
    for i in range(slots.size):
        numbers[i] = blocks[slots[i]].number
    weigh(probability, exponent, weight)


@compiled
@no_type_check
def weigh(probability, exponent, weight):
    """What makes up for unequal chances, as far as `exponent` says; 1 for the least likely."""
    least = 1.0
    for i in range(probability.size):
        least = min(least, probability[i])
    for i in range(probability.size):
        weight[i] = (least / probability[i]) ** exponent


@compiled
@no_type_check
def draw_apart(store_arrays, uniforms, apart, exponent, slots, numbers, probability, weight):
    """Draw distinct sequences, those after the first `apart` without a frame that one of these has.

    What was drawn is given no chance for the time being, which draws exactly and needs no second try. Returns how many
    there were to draw.
    """
    store = Store(*store_arrays)
    layout = store.layout[0]
    reach = layout.blocks_before + layout.blocks_after - 1
    hidden = np.empty(uniforms.size + apart * 2 * reach, np.int64)
    chances = np.empty(hidden.size, np.float64)
    total = store.nodes[store.starts[-1]]
    drawn = hidden_count = 0
    for i in range(uniforms.size):
        if i == apart:
            for j in range(apart):
                hidden_count = hide_neighbours(store, layout, slots[j], reach, hidden, chances, hidden_count)
        rest = store.nodes[store.starts[-1]]
        if rest <= 0.0:
            break
        slot = find_leaf(store.nodes, store.starts, uniforms[i] * rest)
        slots[i], numbers[i], probability[i] = slot, store.blocks[slot].number, store.nodes[slot] / total
        hidden_count = hide(store, slot, hidden, chances, hidden_count)
        drawn += 1
    for j in range(hidden_count):
        set_leaf(store.nodes, store.starts, hidden[j], chances[j])
    if drawn == uniforms.size:
        weigh(probability[:apart], exponent, weight[:apart])
        weigh(probability[apart:], exponent, weight[apart:])
    return drawn


@compiled
@no_type_check
def hide(store, slot, hidden, chances, count):
    """Give a sequence no chance, and note the one it had."""
    hidden[count], chances[count] = slot, store.nodes[slot]
    set_leaf(store.nodes, store.starts, slot, 0.0)
    return count + 1


@compiled
@no_type_check
def hide_neighbours(store, layout, slot, reach, hidden, chances, count):
    """Hide the sequences that share a frame with that one."""
    block, lane = store.blocks[slot], slot // layout.lane_blocks
    for number in range(block.number - reach, block.number + reach + 1):
        other = slot_of(layout, lane, number)
        candidate = store.blocks[other]
        if candidate.number != number or candidate.episode != block.episode or store.nodes[other] == 0.0:
            continue
        earlier, later = (block, candidate) if block.place < candidate.place else (candidate, block)
        begins = max(0, later.place * layout.period - layout.burn_in - layout.stack + 1)
        if begins < earlier.place * layout.period + earlier.frames:
            count = hide(store, other, hidden, chances, count)
    return count


@compiled
@no_type_check
def gather_sequences(store_arrays, slots, numbers, batch_arrays):
    """Copy sequences into a batch; returns the first that is no longer there, or -1."""
    return fill_batch(Store(*store_arrays), slots, numbers, Batch(*batch_arrays))


@compiled
@no_type_check
def fill_batch(store, slots, numbers, batch):
    """As `gather_sequences`."""
    layout, blocks, nodes, n = store.layout[0], store.blocks, store.nodes, slots.size
    for i in range(n):
        if blocks[slots[i]].number != numbers[i] or nodes[slots[i]] == 0.0:
            return i
    windows = np.empty((n, WINDOW), np.int64)
    is_first, valid, steps = batch.is_first, batch.valid, batch.valid.shape[1]
    starts = batch.starts
    fill_bytes(is_first, 0, is_first.size, 0)
    fill_bytes(valid, 0, valid.size, 0)
    lane_rows = layout.lane_blocks * layout.period
    for i in range(n):
        block, lane = blocks[slots[i]], slots[i] // layout.lane_blocks
        step = block.place * layout.period
        burn_in = min(layout.burn_in, step)
        first = layout.burn_in - burn_in
        windows[i, LANE_ROW] = lane * lane_rows
        windows[i, ROW] = (block.number * layout.period - burn_in) % lane_rows
        windows[i, STEP], windows[i, FIRST] = step - burn_in, first
        windows[i, STEPS], windows[i, FRAMES] = burn_in + block.steps, burn_in + block.frames
        fill_bytes(valid, i * steps + first, windows[i, STEPS], 1)
        if windows[i, STEP] == 0:
            is_first[i, first] = True
        starts[i].lane, starts[i].episode, starts[i].step = lane, block.episode, step
        starts[i].return_before = block.return_before
    gather_starts(store, layout, slots, batch)
    gather_columns(store, layout, windows, batch)
    return -1


@compiled
@no_type_check
def sample_sequences(store_arrays, uniforms, exponent, slots, numbers, probability, weight, batch_arrays):
    """Draw and gather, in one call."""
    store = Store(*store_arrays)
    draw_sequences(store.blocks, store.nodes, store.starts, uniforms, exponent, slots, numbers, probability, weight)
    fill_batch(store, slots, numbers, Batch(*batch_arrays))


@compiled
@no_type_check
def gather_starts(store, layout, slots, batch):
    """What the agent brought to the first frame of the batch; nothing, if the episode begins only later."""
    blocks, action_bytes, state_bytes = store.blocks, layout.action_bytes, store.state.shape[1] * 4
    state, action, starts = batch.state, batch.previous_action, batch.starts
    kept_state, kept_action = store.state, store.previous_action
    for i in range(slots.size):
        block, lane = blocks[slots[i]], slots[i] // layout.lane_blocks
        if block.place * layout.period >= layout.burn_in:
            slot = slot_of(layout, lane, block.number - -(-layout.burn_in // layout.period))
            copy_bytes(state, i * state_bytes, kept_state, slot * state_bytes, state_bytes, False)
            copy_bytes(action, i * action_bytes, kept_action, slot * action_bytes, action_bytes, False)
            starts[i].previous_reward = blocks[slot].previous_reward
        else:
            fill_bytes(state, i * state_bytes, state_bytes, 0)
            fill_bytes(action, i * action_bytes, action_bytes, 0)
            starts[i].previous_reward = 0.0


@compiled
@no_type_check
def gather_columns(store, layout, windows, batch):
    """The windows' frames, actions, rewards and discounts."""
    lane_rows, width = layout.lane_blocks * layout.period, batch.is_first.shape[1]
    stream = batch.observation.size >= STREAM_FROM
    copy_windows(batch.reward, width - 1, store.reward, windows, STEPS, lane_rows, 4, False)
    copy_windows(batch.discount, width - 1, store.discount, windows, STEPS, lane_rows, 4, False)
    copy_windows(batch.action, width - 1, store.action, windows, STEPS, lane_rows, layout.action_bytes, False)
    frames, source, size = batch.observation, store.observation, layout.observation_bytes
    if layout.stack == 1:
        copy_windows(frames, width, source, windows, FRAMES, lane_rows, size, stream)
    else:
        copy_stacks(frames, width, source, windows, lane_rows, size, layout.stack, stream)
    finish_streams()


@compiled
@no_type_check
def copy_windows(target, width, source, windows, length, lane_rows, size, stream):
    """Copy the windows' rows of `size` bytes into as many times `width` rows; zeros where a window has none."""
    for i in range(min(AHEAD, len(windows))):
        fetch_bytes(source, (windows[i, LANE_ROW] + windows[i, ROW]) * size, FETCHED)
    for i in range(len(windows)):
        if i + AHEAD < len(windows):
            fetch_bytes(source, (windows[i + AHEAD, LANE_ROW] + windows[i + AHEAD, ROW]) * size, FETCHED)
        first, count = windows[i, FIRST], windows[i, length]
        fill_bytes(target, i * width * size, first * size, 0)
        fill_bytes(target, (i * width + first + count) * size, (width - first - count) * size, 0)
        copy_ring(
            target, i * width + first, source, windows[i, LANE_ROW], lane_rows, windows[i, ROW], count, size, stream
        )


@compiled
@no_type_check
def copy_stacks(target, width, source, windows, lane_rows, size, stack, stream):
    """As `copy_windows`, but every frame with those before it; an episode's first stands for what would precede it."""
    for i in range(len(windows)):
        first, count, lane_row = windows[i, FIRST], windows[i, FRAMES], windows[i, LANE_ROW]
        fill_bytes(target, i * width * stack * size, first * stack * size, 0)
        fill_bytes(target, (i * width + first + count) * stack * size, (width - first - count) * stack * size, 0)
        for place in range(count):
            to = (i * width + first + place) * stack
            missing = max(0, stack - 1 - windows[i, STEP] - place)
            oldest = (windows[i, ROW] + place - (stack - 1 - missing)) % lane_rows
            for copy in range(missing):
                copy_ring(target, to + copy, source, lane_row, lane_rows, oldest, 1, size, stream)
            copy_ring(target, to + missing, source, lane_row, lane_rows, oldest, stack - missing, size, stream)


@compiled
@no_type_check
def copy_ring(target, place, source, lane_row, lane_rows, row, count, size, stream):
    """Copy `count` rows of a lane from `row` on, around the end of its ring."""
    until_end = min(count, lane_rows - row)
    copy_bytes(target, place * size, source, (lane_row + row) * size, until_end * size, stream)
    if until_end < count:
        copy_bytes(target, (place + until_end) * size, source, lane_row * size, (count - until_end) * size, stream)
