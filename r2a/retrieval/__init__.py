"""Sec. 2 of the paper: a retrieval batch is encoded, and read step by step."""

from r2a.retrieval.module import Retrieval

__all__ = ["Retrieval"]
