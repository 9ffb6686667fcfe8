"""One module per command of the command line: its options, and what people see while it runs."""

from r2a.commands import bench, collect, datasets, demo, evaluate, sweep, train

__all__ = ["bench", "collect", "datasets", "demo", "evaluate", "sweep", "train"]
