"""Every way to choose and to read what was chosen learns: two tiny updates each."""

import numpy as np
import pytest
from small import LENGTH, TRAJECTORIES, agent_config, make_agent, make_learning_batch, named_arrays, run_updates

ABLATIONS = {
    "ranking by attention": {"ranking": "attention"},
    "A-6, one trajectory, one state": {"k_traj": 1, "k_states": 1},
    "A-6, everything": {"k_traj": TRAJECTORIES, "k_states": TRAJECTORIES * LENGTH, "ranking": "attention"},
    "without IB": {"bottleneck": "identity"},
    "similar states": {"num_neighbours": 6, "ranking": "attention", "update": "sum"},
    "several retrievals": {"retrievals_per_step": 2, "kl_reduction": "mean"},
    "time scales": {"slot_periods": (1, 2, 4)},
}


@pytest.mark.parametrize("changes", ABLATIONS.values(), ids=ABLATIONS.keys())
def test_two_updates(changes):
    agent = make_agent(agent_config(summariser="linear", **changes))
    states, metrics = run_updates(agent, [make_learning_batch(0), make_learning_batch(1)])
    for values in metrics:
        assert all(np.isfinite(value) for value in values.values()), values
        assert (values["retrieval/kl"] > 0) == (changes.get("bottleneck") != "identity")
        assert values["rl/loss"] > 0
    before, after = named_arrays(states[0].params), named_arrays(states[-1].params)
    for prefix in ("encoder", "retrieval.summariser", "retrieval.process.reader", "head"):
        assert any(np.any(before[name] != after[name]) for name in before if name.startswith(prefix)), prefix
