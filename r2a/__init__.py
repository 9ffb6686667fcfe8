"""Retrieval-augmented reinforcement learning (Goyal et al., ICML 2022)."""

__version__ = "0.1.0"
