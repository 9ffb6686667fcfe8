"""Who trains what (App. training losses): zero where a loss must not reach, not zero where it must."""

import equinox as eqx
import numpy as np
import pytest
from small import agent_config, gradient_sizes, make_agent, make_learning_batch, make_retrieval_batch

RANKINGS = ("return", "attention")
PROCESS = "retrieval.process."
TRAINED_BY_AUXILIARY = ("encoder.", "retrieval.summariser.", "retrieval.auxiliary.")


def sizes_of(ranking, weights, *, with_rl, **changes):
    """The largest entry of every parameter's gradient, by the parameter's name."""
    config = agent_config(ranking=ranking, summariser="linear", **changes)
    agent, target = make_agent(config), make_agent(config, seed=1)
    return gradient_sizes(agent, target, make_learning_batch(), weights, with_rl=with_rl)


def assert_only(sizes, *prefixes):
    """Everything under the prefixes has a gradient, nothing else has."""
    for name, size in sizes.items():
        assert np.isfinite(size)
        if not name.startswith(prefixes):
            assert size == 0, f"{name} has a gradient"
    for prefix in prefixes:
        assert max(size for name, size in sizes.items() if name.startswith(prefix)) > 1e-7, f"{prefix} has none"


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_kl_trains_the_retrieval_process_alone(ranking):
    sizes = sizes_of(ranking, {"kl": 1.0}, with_rl=False)
    assert_only(sizes, PROCESS)
    for name in (
        "reader.query",
        "reader.key",
        "reader.value",
        "slot_input",
        "bottleneck.posterior",
        "bottleneck.prior",
    ):
        assert max(size for path, size in sizes.items() if path.startswith(PROCESS + name)) > 1e-7, name


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_auxiliary_losses_train_encoder_summariser_and_their_heads_alone(ranking):
    sizes = sizes_of(ranking, {"action": 1.0, "value": 1.0, "reward": 1.0}, with_rl=False)
    assert_only(sizes, *TRAINED_BY_AUXILIARY)


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_rl_loss_trains_everything_that_acts(ranking):
    # A second retrieval within the step reads what step 5 of the first one left in the slots.
    sizes = sizes_of(ranking, {}, with_rl=True, retrievals_per_step=2)
    reached = (
        "encoder.",
        "retrieval.summariser.embed_past",
        "retrieval.summariser.embed_future",
        "retrieval.summariser.forward",
        "retrieval.summariser.backward",
        "retrieval.summariser.add_state",
        "retrieval.process.start.mean",
        "retrieval.process.slot_input",
        "retrieval.process.reader.query",
        "retrieval.process.reader.key",
        "retrieval.process.reader.value",
        "retrieval.process.bottleneck.posterior",
        "retrieval.process.slot_update",
        "retrieval.process.agent_update",
        "head.attend",
        "head.mlp",
    )
    for prefix in reached:
        assert max(size for name, size in sizes.items() if name.startswith(prefix)) > 1e-7, f"{prefix} has no gradient"
    for name, size in sizes.items():
        if name.startswith(("retrieval.auxiliary.", "retrieval.process.bottleneck.prior")):
            assert size == 0, f"{name} has a gradient"


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_control_with_auxiliary_losses_alone_is_taught_by_them_and_reads_nothing(ranking):
    changes = {"variant": "auxiliary_only"}
    auxiliary = {"action": 1.0, "value": 1.0, "reward": 1.0}
    assert_only(sizes_of(ranking, auxiliary, with_rl=False, **changes), *TRAINED_BY_AUXILIARY)
    assert_only(sizes_of(ranking, {}, with_rl=True, **changes), "encoder.", "head.")


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_controls_auxiliary_losses_are_those_of_the_agent_that_reads(ranking):
    full = make_agent(agent_config(ranking=ranking, summariser="linear"))
    control = make_agent(agent_config(ranking=ranking, summariser="linear", variant="auxiliary_only"))
    retrieval = eqx.tree_at(
        lambda r: (r.summariser, r.auxiliary), control.retrieval, (full.retrieval.summariser, full.retrieval.auxiliary)
    )
    control = eqx.tree_at(lambda a: (a.encoder, a.retrieval), control, (full.encoder, retrieval))
    batch = make_retrieval_batch()
    encoded, losses = control.encode(batch)
    assert encoded is None
    for name, value in full.encode(batch)[1].items():
        np.testing.assert_allclose(losses[name], value, rtol=1e-5)
