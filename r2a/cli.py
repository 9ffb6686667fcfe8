"""The command line: r2a demo | collect | train | evaluate | datasets | sweep | bench."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from r2a import __version__
from r2a.errors import UserError

COMMANDS = ("demo", "collect", "train", "evaluate", "datasets", "sweep", "bench")

OVERVIEW = """usage: r2a COMMAND [OPTIONS]

Retrieval-augmented reinforcement learning: agents that read a data set of trajectories while they act.

commands:
  demo       collect, train, swap the data set and write a report: retrieval at work in about ten minutes
  collect    make an offline data set              r2a collect gridroboman --episodes 4000
  train      learn from a data set, or by acting   r2a train gridroboman --agent ra_dqn --data.num-tasks 10
  evaluate   act, reading from any data set        r2a evaluate runs/NAME --retrieve-from DATASET
  datasets   list, show or verify data sets        r2a datasets list
  sweep      regenerate the results                r2a sweep gridroboman --scale laptop
  bench      speed, side by side with others       r2a bench environment --json

`r2a COMMAND --help` explains the options of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 2 a mistake that one sentence explains, 130 an interrupt."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(OVERVIEW, end="")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"r2a {__version__}")
        return 0
    try:
        if arguments[0] not in COMMANDS:
            raise UserError(f"There is no command {arguments[0]!r}; choose one of {', '.join(COMMANDS)}.")
        # Imported now, and not above, so that `r2a --help` answers at once.
        return importlib.import_module(f"r2a.commands.{arguments[0]}").main(arguments[1:])
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        print(f"r2a: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("r2a: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
