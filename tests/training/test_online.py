"""Learning while acting, on a real game: what was done is what is learnt from, and nothing depends on luck."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.config import (
    ActingConfig,
    AgentConfig,
    AuxiliaryConfig,
    CoreConfig,
    EncoderConfig,
    FromReplay,
    HeadConfig,
    LearnerConfig,
    ReplayConfig,
    RetrievalConfig,
    RunConfig,
    override,
)
from r2a.environments.minatar import MinAtarSettings
from r2a.errors import UserError
from r2a.training.learning import draw, learning_batch, sequences_of
from r2a.training.online import GAMES, OnlineRun, epsilon_ladder

PERIOD, TRACE, ENVS = 5, 10, 4
RETRIEVAL = RetrievalConfig(
    slots=2,
    slot_size=8,
    key_size=8,
    trajectories=6,
    k_traj=3,
    k_states=4,
    ranking="attention",
    summariser="linear",
    summary_size=8,
    auxiliary=AuxiliaryConfig(bins=5, low=-2.0, high=2.0),
)
SMALL = RunConfig(
    environment="minatar",
    env=MinAtarSettings(game="breakout"),
    agent=AgentConfig(
        encoder=EncoderConfig(features="minatar", hidden=(8,)),
        core=CoreConfig(kind="gru", size=8),
        retrieval=RETRIEVAL,
        head=HeadConfig(attention_heads=2),
    ),
    learner=LearnerConfig(loss="squashed_q_lambda", target_period=2),
    experience=FromReplay(
        ReplayConfig(capacity=200, minimum=30, trace=TRACE, period=PERIOD),
        ActingConfig(num_envs=ENVS, steps_per_turn=10, samples_per_insert=1.0),
        batch_size=4,
    ),
    steps=400,
    evaluate_every=400,
    checkpoint_every=400,
)


def variant(name):
    return override(SMALL, {"agent.retrieval.variant": name})


def same(one, two):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


@pytest.mark.parametrize("name", ["none", "slots_only"])
def test_the_state_stored_with_a_sequence_is_the_one_its_frames_lead_to(name):
    """From one sequence's stored state, its frames lead to the state stored with the sequence one period later."""
    run = OnlineRun(variant(name))
    run.actors.play(run.learner.agent, None, 18, 0)  # environments are no longer at the starts of their episodes
    chunk = run.actors.play(run.learner.agent, None, 60, 1000)
    started = chunk.is_first.argmax(1)
    present = chunk.present & (np.arange(chunk.present.shape[1]) >= started[:, None])
    run.replay.add(*chunk._replace(present=present))
    sampled = run.replay.sample(400, np.random.default_rng(0))
    places = {key: i for i, key in enumerate(zip(sampled.episode.tolist(), sampled.step.tolist(), strict=True))}
    sequences, agent = sequences_of(sampled, 0, run.learner.stored_states), run.learner.agent
    unroll = jax.jit(lambda start, frames: agent.unroll(start, frames, None, None).state)
    compared = 0
    for (episode, step), i in places.items():
        later = places.get((episode, step + PERIOD))
        if later is None or step == 0:  # at an episode's start slots are drawn anew
            continue
        start, frames = jax.tree.map(lambda column, i=i: column[i], (sequences.initial_state, sequences.frames))
        reached = unroll(start, frames.at(slice(PERIOD)))
        stored = jax.tree.map(lambda column, later=later: column[later], sequences.initial_state)
        for one, two in zip(jax.tree.leaves(reached), jax.tree.leaves(stored), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)
        compared += 1
    assert compared > 5


def test_what_is_learnt_from_is_what_was_done():
    """Every sequence is a segment of one episode of its lane: frames, actions, rewards and where it ends."""
    run = OnlineRun(variant("none"))
    chunk = run.actors.play(run.learner.agent, None, 40, 0)
    run.replay.add(*chunk)
    sampled = run.replay.sample(50, np.random.default_rng(0))
    for i, (lane, step) in enumerate(zip(sampled.env.tolist(), sampled.step.tolist(), strict=True)):
        rows = np.flatnonzero(chunk.present[lane] & ~chunk.is_last[lane])
        episodes = np.split(rows, np.flatnonzero(chunk.is_first[lane][rows])[1:])
        count = int(sampled.valid[i].sum())
        segments = [episode[step : step + count] for episode in episodes]
        assert any(
            all(
                np.array_equal(done[lane, segment], seen[i, :count])
                for done, seen in (
                    (chunk.observation, sampled.observation),
                    (chunk.action, sampled.action),
                    (chunk.reward, sampled.reward),
                    (chunk.discount, sampled.discount),
                    (chunk.is_first, sampled.is_first),
                )
            )
            for segment in segments
        )
    frames = sequences_of(sampled, 0, run.learner.stored_states).frames
    np.testing.assert_array_equal(frames.previous_action[:, 1:], np.where(sampled.is_first[:, 1:], -1, sampled.action))
    assert np.all(np.asarray(frames.previous_action[:, 0])[sampled.is_first[:, 0]] == -1)


@pytest.mark.parametrize("name", ["none", "full", "slots_only"])
def test_a_run_is_a_function_of_its_seed(name):
    def play(seed):
        run = OnlineRun(replace(variant(name), seed=seed))
        for _ in range(8):
            metrics = run.turn().metrics
        assert run.counts.updates > 0
        assert all(np.isfinite(value) for value in metrics.values())
        return run

    one, two, other = play(0), play(0), play(1)
    assert same(one.learner.agent, two.learner.agent)
    assert one.counts == two.counts
    assert not same(one.learner.agent, other.learner.agent)


def test_cheaper_and_richer_ways_to_retrieve_learn_online():
    """By return, from similar states, twice per step, on two time scales; after a burn-in; actors read what is old."""
    retrieval = replace(RETRIEVAL, ranking="return", num_neighbours=3, k_states=3)
    retrieval = replace(retrieval, retrievals_per_step=2, slot_periods=(1, 3))
    changes = {"replay.burn_in": 3, "replay.trace": 7, "acting.refresh_turns": 2}
    run = OnlineRun(override(SMALL, {"agent.retrieval": retrieval, **changes}))
    ages = [run.turn().metrics["retrieval/age"] for _ in range(8)]
    assert ages == [40.0, 80.0] * 4
    assert run.counts.updates > 2
    assert all(np.isfinite(value) for value in run.turn().metrics.values())


def test_samples_per_insert_is_held():
    run = OnlineRun(override(variant("none"), {"acting.samples_per_insert": 2.0}))
    for _ in range(20):
        run.turn()
        owed = (run.counts.sequences - SMALL.replay.minimum) * 2.0 / SMALL.from_replay.batch_size
        assert run.counts.updates == (max(int(owed), 0) if run.replay.ready else 0)
    assert run.counts.updates > 20


def test_actors_read_nothing_before_the_replay_is_ready_and_the_newest_parameters_after():
    run = OnlineRun(SMALL)
    assert run.encoded is not None
    assert not bool(jnp.any(run.encoded.valid))
    while not run.replay.ready:
        run.turn()
    assert bool(jnp.any(run.encoded.valid))
    batch = learning_batch(*draw(run.replay, SMALL, 0), 0, run.learner.stored_states)
    assert batch.sequences.action.shape == (1, 4, TRACE)
    assert batch.retrieval.trajectories.action.shape == (1, 6, TRACE)


def test_the_ladder_of_curiosity():
    ladder = epsilon_ladder(ActingConfig(num_envs=8))
    np.testing.assert_allclose(ladder[[0, -1]], [0.4, 0.4**8], rtol=1e-6)
    assert np.all(np.diff(ladder) < 0)
    np.testing.assert_allclose(epsilon_ladder(ActingConfig(num_envs=1)), [0.4], rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"steps": 41}, "steps"),
        ({"replay.minimum": 10}, "replay.minimum"),
    ],
)
def test_impossible_settings_are_refused_in_one_sentence(changes, option):
    with pytest.raises(UserError, match=f"^{option} is"):
        override(SMALL, changes)


@pytest.mark.parametrize("name", ["none", "full"])
def test_a_run_that_was_saved_goes_on_as_if_it_had_not_stopped(name, tmp_path):
    config = variant(name)
    whole, cut = OnlineRun(config), OnlineRun(config)
    for _ in range(9):
        whole.turn()
    for _ in range(5):
        cut.turn()
    first = cut.save(tmp_path, 1.0, None)
    cut.turn()
    second = cut.save(tmp_path, 2.0, first)
    resumed = OnlineRun(config)
    assert resumed.restore(second) == 2.0
    for _ in range(3):
        resumed.turn()
    assert resumed.counts == whole.counts
    assert same(resumed.learner.state._replace(key=0), whole.learner.state._replace(key=0))
    assert same(resumed.actors.standing, whole.actors.standing)
    drawn = [draw(run.replay, config, 100)[0].observation for run in (resumed, whole)]
    assert same(*drawn)


def test_damaged_games_are_noticed(tmp_path):
    run = OnlineRun(variant("none"))
    run.turn()
    checkpoint = run.save(tmp_path, 0.0, None)
    damaged = bytearray((checkpoint / GAMES).read_bytes())
    damaged[-1] ^= 1
    (checkpoint / GAMES).write_bytes(bytes(damaged))
    with pytest.raises(UserError, match=r"games.safetensors is damaged"):
        OnlineRun(variant("none")).restore(checkpoint)
