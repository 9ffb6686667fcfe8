"""Compiled programs are kept on disk."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def use_compilation_cache() -> None:
    """Keep compiled programs on disk, so that a second start takes seconds; R2A_CACHE says where."""
    folder = os.environ.get("R2A_CACHE", str(Path.home() / ".cache" / "r2a" / "jax"))
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
