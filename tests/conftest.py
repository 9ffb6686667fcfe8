"""Shapes and types are checked as the tests run, and compiled programs are kept on disk."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Before jax starts, and for every process that a test starts: the programs of tests are tiny and run a few times, so
# compiling them fast matters more than compiling them well (six times faster for a smoke-sized learner step).
os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_backend_optimization_level=0", "--xla_cpu_use_fusion_emitters=false"]
)

import jax
import pytest
from jaxtyping import install_import_hook

ROOT = Path(__file__).resolve().parent.parent
ROOMS_OF_ARRAYS = ("types", "networks", "retrieval", "agents", "data", "environments", "training")

# Before the package is imported: every annotated function and module of these rooms then checks what it is given
# and what it gives.
install_import_hook([f"r2a.{room}" for room in ROOMS_OF_ARRAYS], "beartype.beartype")

jax.config.update("jax_compilation_cache_dir", os.environ.get("R2A_CACHE", str(ROOT / ".cache" / "jax")))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

# Tracing makes millions of small objects that are no garbage: looking for some of it rarely saves a tenth of the time.
gc.set_threshold(100_000, 50, 100)


@pytest.fixture(autouse=True, scope="module")
def forget_programs() -> Iterator[None]:
    """No file of tests needs the programs of the one before."""
    yield
    jax.clear_caches()
    gc.collect()


LONGEST_FIRST = ("test_cluster.py", "test_resume.py", "test_train_online.py", "test_gridroboman_reference.py")
"""Files that take minutes: begun last, one core would wait for the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; the others keep their order."""
    items.sort(key=lambda item: LONGEST_FIRST.index(name) if (name := item.path.name) in LONGEST_FIRST else 99)
