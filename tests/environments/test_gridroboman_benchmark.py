"""The benchmark runs and names its figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_quick_benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "environment.py"
    spec = importlib.util.spec_from_file_location("environment_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figures = module.run(quick=True)
    assert set(figures) == {"steps_per_cpu_second", "pycolab_steps_per_cpu_second", "ratio_pycolab", "boards"}
    # Within one run, and far below what is measured: tests compile fast rather than well.
    assert figures["ratio_pycolab"] > 10
