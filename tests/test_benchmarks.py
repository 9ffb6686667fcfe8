"""The benchmarks run, name their figures, and count matrix products right."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks import bounds, dqn, environment, games, growth, online, replay, retrieval


def test_products_are_counted_as_often_as_they_run():
    def loop(a, b):
        def step(carry, _):
            return jnp.tanh(carry @ b), carry @ b[:, :3]

        return jax.lax.scan(step, a, None, length=7)

    compiled = jax.jit(loop).lower(jnp.ones((8, 16)), jnp.ones((16, 16))).compile()
    assert bounds.matmul_gflop(compiled.as_text()) == pytest.approx(7 * 2 * 8 * 16 * (16 + 3) / 1e9)


def test_environment():
    figures = environment.run(quick=True)
    assert set(figures) == {"steps_per_cpu_second", "pycolab_steps_per_cpu_second", "ratio_pycolab", "boards"}
    # Within one run, and far below what is measured: tests compile fast rather than well.
    assert figures["ratio_pycolab"] > 10


def test_games():
    figures = games.run(quick=True)
    names = {"frames_per_cpu_second", "ratio_vector", "ratio_shipped", "minatar_steps_per_cpu_second"}
    assert names <= set(figures)


def test_dqn():
    figures = dqn.run(quick=True)
    assert {"updates_per_second", "peers", "ratio_best_peer", "share_of_bound", "sizes"} <= set(figures)
    assert set(figures["sizes"]) == {"256", "64"}
    # Forward and backward of Q(s), forward of both Q(s'); the first layer's input needs no gradient.
    layers, batch = (11 * 256, 256 * 256, 256 * 7), 256
    products = 2 * batch * (5 * sum(layers) - layers[0])
    assert figures["sizes"]["256"]["gflop_per_update"] == pytest.approx(products / 1e9)


def test_replay():
    figures = replay.run(quick=True)
    assert {"peers", "best_peer", "ratio_best_peer", "sizes"} <= set(figures)
    assert set(figures["sizes"]) == {"vectors", "images"}
    assert all(size["microseconds"] > 0 for size in figures["sizes"].values())


def test_online():
    figures = online.run(quick=True)
    assert {"update_ms", "steps_per_cpu_second", "share_of_acting"} <= set(figures["ra_r2d2"])
    assert set(figures["steps_per_second"]) == {"one_process", "players_1"}


def test_retrieval():
    figures = retrieval.run(quick=True)
    assert {"updates_per_second", "ratio_plain", "share_of_bound"} <= set(figures)
    assert max(figures["td_loss_difference"], figures["kl_difference"]) < 1e-5


def test_growth():
    figures = growth.run(quick=True)
    assert figures["trajectories"] == [8, 32]
    assert figures["megabytes"][1] < 4 * figures["megabytes"][0]
    assert growth.growth((1, 2, 4), [1.0, 2.0, 4.0]) == 1.0
    assert growth.growth((1, 2, 4), [1.0, 4.0, 16.0]) == 2.0
