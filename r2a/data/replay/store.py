"""Where a replay of sequences keeps what: its arrays, and the numbers that say how they are laid out.

Every lane (an environment) writes blocks of `period` rows into a ring of blocks; lane and place in the ring make a
block's *slot*. Rows of a block lie side by side, blocks of a lane too. A block's *number* counts the blocks of its
lane since the beginning: it tells whether a slot still holds what it held.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from r2a.config import ReplayConfig, require
from r2a.data.replay.sum_tree import SumTree
from r2a.errors import UserError
from r2a.storage import PathLike, storage_errors

BLOCK = np.dtype(
    [
        ("number", np.int64),
        ("episode", np.int64),  # counted over all lanes
        ("place", np.int64),  # among the blocks of its episode
        ("steps", np.int64),  # of the sequence that begins here; this and the next are set when it can be drawn
        ("frames", np.int64),
        ("return_before", np.float64),  # rewards of its episode before this block
        ("previous_reward", np.float32),  # got just before the step of `state_offset`
        ("written", np.int64),  # when a row of it was written last; see `writes`
    ]
)
LANE = np.dtype(
    [
        ("is_open", np.int64),  # whether an episode is going on
        ("terminated", np.int64),  # whether its last step had no discount
        ("episode", np.int64),
        ("first_block", np.int64),  # number of the episode's first block
        ("next_block", np.int64),  # number of the block that is begun next
        ("frames", np.int64),  # rows that the episode has so far
        ("offset", np.int64),  # of the last of them, in its block
        ("row", np.int64),  # where that lies
        ("return_so_far", np.float64),
    ]
)
TOTALS = np.dtype(
    [
        ("sequences", np.int64),  # that can be drawn
        ("episodes", np.int64),
        ("writes", np.int64),  # chunks that were added
        ("highest_priority", np.float64),
    ]
)


@dataclass(frozen=True)
class ReplaySpec:
    """The shapes and types of a step; the agent's memory is one vector."""

    observation_shape: tuple[int, ...]
    observation_dtype: DTypeLike = np.uint8
    action_shape: tuple[int, ...] = ()
    action_dtype: DTypeLike = np.int32
    state_size: int = 0

    @property
    def observation_bytes(self) -> int:
        """Bytes of one frame."""
        return int(np.prod(self.observation_shape)) * np.dtype(self.observation_dtype).itemsize

    @property
    def action_bytes(self) -> int:
        """Bytes of one action."""
        return int(np.prod(self.action_shape)) * np.dtype(self.action_dtype).itemsize


class Layout(NamedTuple):
    """The numbers that compiled code needs."""

    lanes: int
    lane_blocks: int
    period: int
    trace: int
    burn_in: int
    stack: int
    blocks_before: int
    """Blocks before a sequence's own that it may need, for the burn-in and for stacking."""
    blocks_after: int
    """Blocks from its own on that it may need."""
    ready_offset: int
    """Place in a block of the frame that completes an earlier sequence."""
    state_offset: int
    """Place in a block of the step from which a burn-in leads to the first step of a later one."""
    observation_bytes: int
    action_bytes: int

    @classmethod
    def of(cls, config: ReplayConfig, spec: ReplaySpec, lanes: int) -> Layout:
        """The layout of a replay with so many lanes."""
        require(lanes > 0, "lanes", lanes, "there must be at least one")
        blocks_before = -(-(config.burn_in + config.stack - 1) // config.period)
        blocks_after = config.trace // config.period + 1
        # One more than a sequence needs: when the oldest one leaves, another is there to be drawn.
        needed = lanes * (blocks_before + blocks_after + 1)
        require(config.capacity >= needed, "replay.capacity", config.capacity, f"{lanes} lanes need at least {needed}")
        lane_blocks = config.capacity // lanes
        # Those of short episodes lie closer together: of them there may be more.
        sequences = lanes * (lane_blocks - blocks_before - blocks_after)
        require(
            config.minimum <= sequences,
            "replay.minimum",
            config.minimum,
            f"with {lanes} lanes and replay.capacity = {config.capacity} there may never be more than {sequences} "
            f"whole sequences, and nothing would be learnt",
        )
        return cls(
            lanes=lanes,
            lane_blocks=lane_blocks,
            period=config.period,
            trace=config.trace,
            burn_in=config.burn_in,
            stack=config.stack,
            blocks_before=blocks_before,
            blocks_after=blocks_after,
            ready_offset=config.trace % config.period,
            state_offset=-config.burn_in % config.period,
            observation_bytes=spec.observation_bytes,
            action_bytes=spec.action_bytes,
        )

    @property
    def slots(self) -> int:
        """Blocks of all lanes."""
        return self.lanes * self.lane_blocks

    @property
    def frame_bytes(self) -> int:
        """Bytes of all frames."""
        return self.slots * self.period * self.observation_bytes


LAYOUT = np.dtype([(name, np.int64) for name in Layout._fields])
"""A layout as compiled code gets it: a tuple of so many numbers would be slow to hand over."""


class Store(NamedTuple):
    """All arrays of a replay; those of bytes have one axis."""

    layout: np.ndarray  # [1] of LAYOUT
    observation: np.ndarray  # bytes of [slots, period, ...]
    action: np.ndarray  # bytes of [slots, period, ...]
    reward: np.ndarray  # [slots x period]
    discount: np.ndarray  # [slots x period]
    # What the agent brought to one step of each block, that of `state_offset`, and did just before it.
    state: np.ndarray  # [slots, size]
    previous_action: np.ndarray  # bytes of [slots, ...]
    blocks: np.ndarray  # [slots] of BLOCK
    lanes: np.ndarray  # [lanes] of LANE
    totals: np.ndarray  # [1] of TOTALS
    # The sum tree of the priorities, raised to their exponent; 0: not to be drawn.
    nodes: np.ndarray
    starts: np.ndarray


def make_store(layout: Layout, state_size: int, tree: SumTree, frames: np.ndarray) -> Store:
    """An empty store."""
    rows = layout.slots * layout.period
    blocks = np.zeros(layout.slots, BLOCK)
    blocks["number"] = -1
    totals = np.zeros(1, TOTALS)
    totals["highest_priority"] = 1.0
    return Store(
        layout=np.array([layout], LAYOUT),
        observation=frames,
        action=np.zeros(rows * layout.action_bytes, np.uint8),
        reward=np.zeros(rows, np.float32),
        discount=np.zeros(rows, np.float32),
        state=np.zeros((layout.slots, state_size), np.float32),
        previous_action=np.zeros(layout.slots * layout.action_bytes, np.uint8),
        blocks=blocks,
        lanes=np.zeros(layout.lanes, LANE),
        totals=totals,
        nodes=tree.nodes,
        starts=tree.starts,
    )


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def needs_file(config: ReplayConfig, spec: ReplaySpec, lanes: int) -> bool:
    """Whether the frames are more than `memory_share` of the machine's memory."""
    return Layout.of(config, spec, lanes).frame_bytes > config.memory_share * machine_memory()


def frames_in_memory(layout: Layout, memory_share: float) -> np.ndarray:
    """Room for all frames, if the machine has it."""
    limit = memory_share * machine_memory()
    if layout.frame_bytes > limit:
        raise UserError(
            f"The replay's frames take {layout.frame_bytes / 1e9:.1f} GB, more than replay.memory-share allows "
            f"({limit / 1e9:.1f} GB); give it a folder to keep them in, or a lower replay.capacity."
        )
    return np.zeros(layout.frame_bytes, np.uint8)


def frames_in_file(layout: Layout, folder: PathLike) -> np.ndarray:
    """Room for all frames in a new file of that folder, without a name: it is gone when the process has ended."""
    with storage_errors("write", folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            # Reserved now: a disk that is full would otherwise end the process without a word.
            os.posix_fallocate(file.fileno(), 0, layout.frame_bytes)
            return np.asarray(np.memmap(file, np.uint8, "r+"))
