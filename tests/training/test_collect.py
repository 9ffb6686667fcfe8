"""Both ways of collecting give data sets that verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from r2a.config import AgentConfig, EncoderConfig, RetrievalConfig
from r2a.errors import UserError
from r2a.training.collect.gridroboman import OnlineConfig, ScriptedConfig, collect

SMALL_AGENT = AgentConfig(EncoderConfig("positions", (16,)), retrieval=RetrievalConfig(variant="none"))


def test_scripted_collection_is_a_function_of_its_settings(tmp_path: Path):
    config = ScriptedConfig(episodes=20, num_tasks=2, ladder=(0.0, 1.0))
    first, second = (collect(config, tmp_path / name) for name in ("a", "b"))
    first.verify()
    assert first.fingerprint == second.fingerprint
    assert first.num_episodes == 40
    returns = first.columns["episode_return"]
    assert returns[0::2].mean() > 35 > 15 > returns[1::2].mean()  # the expert and the random rung of the ladder
    assert collect(ScriptedConfig(episodes=20, num_tasks=2, seed=1), tmp_path / "c").fingerprint != first.fingerprint


def test_online_collection_records_every_episode(tmp_path: Path):
    config = OnlineConfig(episodes=20, num_tasks=1, boards=8, updates_per_round=2, memory=16, agent=SMALL_AGENT)
    heard: list[int] = []
    dataset = collect(config, tmp_path / "online", watch=lambda task, episodes, mean: heard.append(episodes))
    dataset.verify()
    assert dataset.num_episodes == 20 == sum(heard)
    assert heard == [8, 8, 4]
    assert dataset.manifest["provenance"]["method"] == "online_dqn"
    # Play and record agree with the rules: an episode's next observation follows from its action.
    moved = dataset.columns["observation"][:, 1:] != dataset.columns["observation"][:, :-1]
    assert np.any(moved)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path):
    with pytest.raises(UserError, match="episodes"):
        ScriptedConfig(episodes=1)
    with pytest.raises(UserError, match="num-tasks"):
        ScriptedConfig(num_tasks=31)
    with pytest.raises(UserError, match="ladder"):
        ScriptedConfig(ladder=(2.0,))
    collect(ScriptedConfig(episodes=2, num_tasks=1), tmp_path / "here")
    with pytest.raises(UserError, match="exists"):
        collect(ScriptedConfig(episodes=2, num_tasks=1), tmp_path / "here")
