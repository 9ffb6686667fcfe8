"""From the command line to a command's options."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro

from r2a.errors import UserError

Options = TypeVar("Options")


def parse(kind: type[Options], argv: Sequence[str], name: str, default: Any = None) -> Options:
    """The options of `r2a NAME`; the docstring of `kind`, examples included, is the command's help."""
    defaults = {} if default is None else {"default": default}
    return tyro.cli(kind, args=argv, prog=f"r2a {name}", description=inspect.cleandoc(kind.__doc__ or ""), **defaults)


@dataclass(frozen=True)
class About:
    """What a command is about: this decides which other options there are, and their defaults."""

    about: tyro.conf.Positional[tuple[str, ...]] = ()
    preset: str = "laptop"
    resume: Path | None = None


def parse_about(argv: Sequence[str]) -> tuple[str, About]:
    """The environment or run that comes first on the command line, if any does, and what else decides the options."""
    about, _ = tyro.cli(About, args=list(argv), return_unknown_args=True, add_help=False)
    return (about.about[0] if about.about else ""), about


def require_first(command: str, what: str, found: Any, first: Any) -> None:
    """Refuse a name that comes after options: these were looked up for another one."""
    if found != first:
        raise UserError(f"Name the {what} before its options: `r2a {command} {found} [OPTIONS]`.")
