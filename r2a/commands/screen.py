"""What all commands share of the screen."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

CONSOLE = Console()


def progress_bar(*texts: str) -> Progress:
    """A bar with count, time left and the given fields of the task."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        *(TextColumn(text) for text in texts),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=CONSOLE,
    )
