"""What the tables of all experiments share."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: its head first, then its rows."""
    head, *rows = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)) + "\n"
