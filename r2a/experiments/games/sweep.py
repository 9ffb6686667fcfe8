"""The runs behind the comparison of R2D2 and RA-R2D2: every arm on every game, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from r2a.agents.agent import parameter_count
from r2a.config import OnlineConfig, config_from_dict
from r2a.environments.atari.scores import GAMES as ATARI_GAMES
from r2a.errors import UserError
from r2a.experiments.games.presets import ARMS, PRESETS, arm
from r2a.experiments.sweep import Experiment
from r2a.training.metrics import CONFIG, read_metrics
from r2a.training.online.playing import play_games
from r2a.training.online.train import train
from r2a.training.online.worlds import scores_of, with_game

SEED_OF_FINAL_EVALUATION = 10_000
"""Added to a run's seed: its last games are none of those in its curve."""


@dataclass(frozen=True)
class SweepScale:
    """How much of the experiment is run."""

    games: tuple[str, ...]
    seeds: int
    final_episodes: int
    """Games that are played at a run's end."""
    arms: tuple[str, ...] = tuple(ARMS)


SCALES: dict[str, dict[str, SweepScale]] = {
    "minatar": {
        "smoke": SweepScale(("breakout",), 1, 4),
        "laptop": SweepScale(("breakout", "space_invaders", "freeway"), 5, 100),
    },
    "atari": {
        "smoke": SweepScale(("pong",), 1, 2),
        "laptop": SweepScale((PRESETS["atari"]["laptop"].atari.game,), 3, 20, arms=("ra_r2d2", "r2d2")),
        "paper": SweepScale(ATARI_GAMES, 3, 100),
    },
}


@dataclass(frozen=True)
class SweepRun:
    """One training run of the sweep."""

    world: str
    scale: str
    arm: str
    game: str
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results and among the runs."""
        return f"{self.arm}-{self.game}-{self.seed}"

    def config(self) -> OnlineConfig:
        """Its settings: the scale's preset with this run's arm, game and seed."""
        preset = with_game(PRESETS[self.world][self.scale], self.game)
        return arm(replace(preset, seed=self.seed), self.arm)


@dataclass(frozen=True)
class GamesExperiment(Experiment[SweepRun]):
    """R2D2, RA-R2D2 and its ablation A-2 on the games of a world."""

    name: str
    results: Path

    @property
    def scales(self) -> tuple[str, ...]:
        """How much of it can be run."""
        return tuple(SCALES[self.name])

    def all_runs(self, scale: str) -> Iterator[SweepRun]:
        """Every run: whole comparisons first, seed by seed."""
        settings = SCALES[self.name][scale]
        for seed in range(settings.seeds):
            for game in settings.games:
                for name in settings.arms:
                    yield SweepRun(self.name, scale, name, game, seed)

    def run_from(self, **fields: Any) -> SweepRun:
        """The run with the given fields."""
        return SweepRun(**fields)

    def have_source(self, scale: str, dataset: str, say: Callable[[str], None]) -> str:
        """Nothing: what is learnt from is made on the way."""
        if dataset:
            raise UserError(f"{self.name} is learnt while acting: --dataset makes no difference to it.")
        return ""

    def comes_from(self, result: dict[str, Any], run: SweepRun, source: str) -> bool:
        """Whether a result is of the run's settings."""
        return config_from_dict(OnlineConfig, result["config"]) == run.config()

    def do(self, run: SweepRun, source: str, folder: Path) -> dict[str, Any]:
        """Train (or go on training) one run in its folder, play more games at its end; its figures."""
        config = run.config()
        trained = train(config, folder, resume=(folder / CONFIG).is_file())
        play = replace(config.play, episodes=SCALES[run.world][run.scale].final_episodes)
        final = replace(config, play=play, seed=config.seed + SEED_OF_FINAL_EVALUATION)
        scores = play_games(trained.agent, trained.encoded, final).scores
        lines = read_metrics(folder)
        evaluations = [line for line in lines if "eval/score" in line]
        columns = {"step": "step", "seconds": "time/train_seconds", "score": "eval/score"}
        return {
            **asdict(run),
            "parameters": parameter_count(trained.agent),
            "env_steps": config.steps,
            "updates": lines[-1]["rl/updates"],
            "wall_seconds": lines[-1]["time/train_seconds"],
            "final": scores_of(config, float(scores.mean())),
            "final_scores": [round(float(score), 3) for score in scores],
            "curve": {name: [line[column] for line in evaluations] for name, column in columns.items()},
            "training": training_curve(lines),
            "config": asdict(config),
        }


def training_curve(lines: list[dict[str, Any]], points: int = 40) -> dict[str, list[float]]:
    """The scores of games that ended while learning, as means over equal parts of the run."""
    finished = [line for line in lines if "rl/score" in line]
    parts = [part for part in np.array_split(np.arange(len(finished)), points) if len(part)]
    weight = np.array([line["rl/episodes"] for line in finished])
    score = np.array([line["rl/score"] for line in finished])
    return {
        "step": [finished[part[-1]]["step"] for part in parts],
        "score": [round(float(np.average(score[part], weights=weight[part])), 4) for part in parts],
    }


MINATAR = GamesExperiment("minatar", Path("results/minatar"))
ATARI = GamesExperiment("atari", Path("results/atari"))
