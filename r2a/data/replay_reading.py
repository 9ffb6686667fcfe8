"""Compiled: sequences are drawn from a replay and put side by side."""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numpy as np

from r2a.data.compiled import STREAM_FROM, clear_bytes, compiled, copy_bytes, finish_streams
from r2a.data.replay_writing import slot_of
from r2a.data.sum_tree import draw_leaves, find_leaf, set_leaf


class Batch(NamedTuple):
    """Room for sequences: W frames each, W - 1 steps; observation and action are bytes with one axis."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    valid: np.ndarray
    is_first: np.ndarray
    previous_action: np.ndarray
    previous_reward: np.ndarray
    state: np.ndarray
    lane: np.ndarray
    episode: np.ndarray
    step: np.ndarray
    return_before: np.ndarray


@compiled
@no_type_check
def draw_sequences(store, uniforms, slots, numbers, probability):
    """Draw one sequence from each of as many equal parts of all priorities as there are uniform numbers."""
    draw_leaves(store.nodes, store.starts, uniforms, slots, probability)
    for i in range(slots.size):
        numbers[i] = store.blocks[slots[i]].number


@compiled
@no_type_check
def draw_apart(store, layout, uniforms, apart, slots, numbers, probability):
    """Draw distinct sequences, those after the first `apart` without a frame that one of these has.

    What was drawn is given no chance for the time being, which draws exactly and needs no second try. Returns how many
    there were to draw.
    """
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
def gather_sequences(store, layout, slots, numbers, batch):
    """Copy sequences into a batch; returns the first that is no longer there, or -1."""
    for i in range(slots.size):
        if store.blocks[slots[i]].number != numbers[i] or store.nodes[slots[i]] == 0.0:
            return i
    stream = batch.observation.size >= STREAM_FROM
    for i in range(slots.size):
        block, lane = store.blocks[slots[i]], slots[i] // layout.lane_blocks
        begin = block.place * layout.period
        burn_in = min(layout.burn_in, begin)
        # Places in the batch: from the first frame of the episode that is asked for to the last that there is.
        first, steps, frames = layout.burn_in - burn_in, layout.burn_in + block.steps, layout.burn_in + block.frames
        lane_rows = layout.lane_blocks * layout.period
        row = (block.number * layout.period - burn_in) % lane_rows
        gather_steps(store, layout, batch, i, lane * lane_rows, row, first, steps)
        gather_frames(store, layout, batch, i, lane * lane_rows, row, first, frames, begin - burn_in, stream)
        for place in range(batch.is_first.shape[1]):
            batch.is_first[i, place] = begin - layout.burn_in + place == 0
        gather_start(store, layout, batch, i, lane, block.number, begin >= layout.burn_in)
        batch.lane[i], batch.episode[i] = lane, block.episode
        batch.step[i], batch.return_before[i] = begin, block.return_before
    finish_streams()
    return -1


@compiled
@no_type_check
def gather_steps(store, layout, batch, i, lane_row, row, first, end):
    """The actions and their outcomes, from place `first` of the batch up to `end`, elsewhere zeros."""
    lane_rows, steps, size = layout.lane_blocks * layout.period, batch.reward.shape[1], layout.action_bytes
    for place in range(steps):
        batch.valid[i, place] = first <= place < end
        if not first <= place < end:
            batch.reward[i, place] = batch.discount[i, place] = 0.0
    until_end = min(end - first, lane_rows - row)
    for place in range(first, first + until_end):
        batch.reward[i, place] = store.reward[lane_row + row - first + place]
        batch.discount[i, place] = store.discount[lane_row + row - first + place]
    for place in range(first + until_end, end):
        batch.reward[i, place] = store.reward[lane_row - first - until_end + place]
        batch.discount[i, place] = store.discount[lane_row - first - until_end + place]
    clear_bytes(batch.action, i * steps * size, first * size)
    copy_ring(batch.action, i * steps + first, store.action, lane_row, lane_rows, row, end - first, size, False)
    clear_bytes(batch.action, (i * steps + end) * size, (steps - end) * size)


@compiled
@no_type_check
def gather_frames(store, layout, batch, i, lane_row, row, first, end, step, stream):
    """The frames, or stacks of them, from place `first` of the batch up to `end`, elsewhere zeros.

    `row` is where the first of them lies in its lane, `step` its place in its episode.
    """
    lane_rows, size, stack = layout.lane_blocks * layout.period, layout.observation_bytes, layout.stack
    frames = batch.is_first.shape[1]
    clear_bytes(batch.observation, i * frames * stack * size, first * stack * size)
    clear_bytes(batch.observation, (i * frames + end) * stack * size, (frames - end) * stack * size)
    if stack == 1:
        target = i * frames + first
        copy_ring(
            batch.observation, target, store.observation, lane_row, lane_rows, row, end - first, size, stream
        )
        return
    for place in range(end - first):
        target = (i * frames + first + place) * stack
        # The first frame of an episode stands for those that would come before it.
        missing = max(0, stack - 1 - step - place)
        oldest = (row + place - (stack - 1 - missing)) % lane_rows
        for copy in range(missing):
            copy_ring(batch.observation, target + copy, store.observation, lane_row, lane_rows, oldest, 1, size, stream)
        target, count = target + missing, stack - missing
        copy_ring(batch.observation, target, store.observation, lane_row, lane_rows, oldest, count, size, stream)


@compiled
@no_type_check
def copy_ring(target, place, source, lane_row, lane_rows, row, count, size, stream):
    """Copy `count` rows of a lane from `row` on, around the end of its ring."""
    until_end = min(count, lane_rows - row)
    copy_bytes(target, place * size, source, (lane_row + row) * size, until_end * size, stream)
    if until_end < count:
        copy_bytes(target, (place + until_end) * size, source, lane_row * size, (count - until_end) * size, stream)


@compiled
@no_type_check
def gather_start(store, layout, batch, i, lane, number, is_inside):
    """What the agent brought to the first frame of the batch; nothing, if the episode begins only later."""
    size = layout.action_bytes
    if is_inside:
        slot = slot_of(layout, lane, number - -(-layout.burn_in // layout.period))
        batch.state[i] = store.state[slot]
        copy_bytes(batch.previous_action, i * size, store.previous_action, slot * size, size, False)
        batch.previous_reward[i] = store.previous_reward[slot]
    else:
        batch.state[i] = 0.0
        clear_bytes(batch.previous_action, i * size, size)
        batch.previous_reward[i] = 0.0
