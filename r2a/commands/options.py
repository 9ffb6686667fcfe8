"""From the command line to a command's options."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

Options = TypeVar("Options")


def parse(kind: type[Options], argv: Sequence[str], name: str, default: Any = None) -> Options:
    """The options of `r2a NAME`; the docstring of `kind`, examples included, is the command's help."""
    defaults = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        args=argv,
        prog=f"r2a {name}",
        description=inspect.cleandoc(kind.__doc__ or ""),
        **defaults,
    )
