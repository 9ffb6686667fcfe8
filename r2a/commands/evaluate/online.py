"""r2a evaluate, for agents that learnt while acting."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
import tyro
from rich.table import Table

from r2a.commands.evaluate.reading import require_reading
from r2a.commands.options import parse
from r2a.commands.screen import CONSOLE
from r2a.config import FoundValues
from r2a.errors import UserError
from r2a.training.compilation import use_compilation_cache
from r2a.training.evaluate.sources import corrupt_values
from r2a.training.online.loop import OnlineRun
from r2a.training.online.playing import film, play_games
from r2a.training.online.train import load_run
from r2a.training.online.worlds import scores_of, world_of
from r2a.viewer.video import require_gif, write_gif

LONGEST_FILM = 600
"""Pictures: of a longer game, only some are shown."""


@dataclass(frozen=True)
class EvaluateOnline:
    """Play whole games with a trained agent; the replay it reads from can be another run's, nothing is trained.

    Examples:
      r2a evaluate runs/ra_r2d2-breakout-0 --episodes 100
      r2a evaluate runs/ra_r2d2-breakout-0 --film breakout.gif
      r2a evaluate runs/ra_r2d2-breakout-0 --retrieve-from runs/ra_r2d2-breakout-1
      r2a evaluate runs/ra_r2d2-breakout-0 --values shuffled
    """

    run: tyro.conf.Positional[Path]
    retrieve_from: Path | None = None
    """Run folder whose replay is read (default: the agent's own)."""
    values: FoundValues = "as_read"
    """What is found where the agent reads: what happened next there; what happened next at another state of the batch;
    or the mean of it all. An agent that does as well without the first has no use for what it reads."""
    episodes: int = 0
    """Games to play (default: as many as in the run's own evaluations)."""
    film: Path | None = None
    """Write the game with the median score as a GIF."""
    seed: int = 0
    """Decides the games, and which values are shuffled where."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main(argv: Sequence[str]) -> int:
    """Evaluate and print scores."""
    options = parse(EvaluateOnline, argv, "evaluate")
    use_compilation_cache()
    if options.film is not None:
        require_gif(options.film)
    run = load_run(options.run)
    if options.retrieve_from is not None:
        read_other(run, options.retrieve_from)
    require_reading(run.config.agent, "--values", options.values != "as_read")
    episodes = options.episodes or run.config.play.episodes
    play = replace(run.config.play, episodes=episodes)
    config = replace(run.config, play=play, seed=run.config.seed + options.seed)
    encoded = corrupt_values(run.encoded, options.values, jax.random.key(options.seed))
    played = play_games(run.agent, encoded, config)
    scores = played.scores
    figures = scores_of(config, float(scores.mean()))
    if options.film is not None:
        middle = int(np.argsort(scores)[(len(scores) - 1) // 2])
        every = math.ceil(played.episodes[middle].length / LONGEST_FILM)
        write_gif(film(played, middle, config), options.film, every=every)
    if options.json:
        lengths = [episode.length for episode in played.episodes]
        print(json.dumps({"game": world_of(config).game, **figures, "scores": scores.tolist(), "lengths": lengths}))
        return 0
    table = Table("game", "games", "score", "lowest", "highest", title=str(options.run))
    row = (world_of(config).game, str(episodes), *(f"{x:.1f}" for x in (scores.mean(), scores.min(), scores.max())))
    table.add_row(*row)
    CONSOLE.print(table)
    if "human_normalised" in figures:
        CONSOLE.print(f"{figures['human_normalised']:.1%} of a person's score, above random play")
    if options.film is not None:
        CONSOLE.print(f"The film: {options.film}")
    return 0


def read_other(run: OnlineRun, folder: Path) -> None:
    """Have a run's actors read from another run's replay."""
    require_reading(run.config.agent, "--retrieve-from", asked=True)
    other = load_run(folder)
    mine, theirs = run.actors.lanes.spec, other.actors.lanes.spec
    if (mine.observation_shape, mine.action_names) != (theirs.observation_shape, theirs.action_names):
        raise UserError(f"{folder} plays {theirs.game}, whose pictures or actions are not those of {mine.game}.")
    if run.config.replay != other.config.replay:
        raise UserError(f"{folder} keeps other sequences: its replay has other settings than this run's.")
    run.read_from(other.replay)
