"""The replay of sequences as lists of episodes: every answer is worked out anew from all that was ever added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from r2a.config import ReplayConfig


@dataclass
class Episode:
    """One episode: a frame, a state, an action, a reward and a discount per row."""

    number: int
    first_block: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    is_open: bool = True
    steps: int = 0


@dataclass
class PlainReplay:
    """All episodes of all environments; `blocks` counts the blocks each of them has begun."""

    config: ReplayConfig
    num_envs: int
    episodes: list[list[Episode]] = field(init=False)
    blocks: list[int] = field(init=False)
    count: int = 0

    def __post_init__(self):
        self.episodes, self.blocks = [[] for _ in range(self.num_envs)], [0] * self.num_envs

    def add(self, env: int, row: dict[str, Any]) -> None:
        """One row of one environment."""
        current = self.episodes[env][-1] if self.episodes[env] else None
        if row["is_first"]:
            if current is not None and current.is_open:
                current.is_open = False
                current.steps -= current.rows[-1]["discount"] != 0
            if row["is_last"]:
                return
            current = Episode(self.count, self.blocks[env])
            self.count += 1
            self.episodes[env].append(current)
        assert current is not None
        assert current.is_open
        if row["is_last"] and current.rows[-1]["discount"] == 0:
            current.is_open = False
            return
        if len(current.rows) % self.config.period == 0:
            self.blocks[env] += 1
        current.rows.append(row)
        current.steps = len(current.rows) - int(row["is_last"])
        current.is_open = not row["is_last"]

    def sequences(self) -> dict[tuple[int, int], dict[str, Any]]:
        """Every sequence that can be drawn, by its environment and its block's number."""
        found = {}
        for env, episodes in enumerate(self.episodes):
            oldest = self.blocks[env] - self.config.capacity // self.num_envs
            for episode in episodes:
                for place in range(-(-episode.steps // self.config.period)):
                    begin = place * self.config.period
                    if episode.is_open and len(episode.rows) < begin + self.config.trace + 1:
                        continue
                    earliest = max(0, begin - self.config.burn_in - self.config.stack + 1)
                    if episode.first_block + earliest // self.config.period >= oldest:
                        found[env, episode.first_block + place] = self.sequence(env, episode, begin)
        return found

    def sequence(self, env: int, episode: Episode, begin: int) -> dict[str, Any]:
        """What a batch should have of the sequence that begins with that step."""
        config, rows = self.config, episode.rows
        window = range(begin - config.burn_in, begin + config.trace + 1)
        last = min(begin + config.trace, len(rows) - 1)
        nothing = np.zeros_like(rows[0]["observation"])
        observations = []
        for step in window:
            back = range(config.stack - 1, -1, -1)
            frames = [rows[max(0, step - b)]["observation"] if 0 <= step <= last else nothing for b in back]
            observations.append(np.stack(frames) if config.stack > 1 else frames[0])
        valid = [0 <= step < episode.steps for step in window[:-1]]

        def column(name: str) -> np.ndarray:
            return np.array([rows[s][name] if ok else 0 for s, ok in zip(window[:-1], valid, strict=True)])

        before = window[0] - 1
        return {
            "observation": np.stack(observations),
            "action": column("action"),
            "reward": column("reward"),
            "discount": column("discount"),
            "valid": np.array(valid),
            "is_first": np.array([step == 0 for step in window]),
            "previous_action": rows[before]["action"] if before >= 0 else 0,
            "previous_reward": rows[before]["reward"] if before >= 0 else 0,
            "state": rows[window[0]]["state"] if window[0] >= 0 else np.zeros_like(rows[0]["state"]),
            "env": env,
            "episode": episode.number,
            "step": begin,
            "return_before": sum(row["reward"] for row in rows[:begin]),
            # Not in a batch: the steps of the episode whose frames it has.
            "seen": set(range(max(0, window[0] - config.stack + 1), last + 1)),
        }
