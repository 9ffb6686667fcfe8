"""One BabyAI episode by the expert bot, with a share of random actions, bounded in steps and in time."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float32, UInt8

from r2a.environments.babyai.bot import ExpertBot, LostError
from r2a.environments.babyai.levels import ACTION_NAMES
from r2a.environments.babyai.missions import CannotDrawError, Mission
from r2a.environments.babyai.view import place, seen_places
from r2a.environments.babyai.vocabulary import Tokens
from r2a.environments.babyai.worlds import Worlds

MAX_STEPS = 128
LIMIT_SECONDS = 20.0


class Episode(NamedTuple):
    """T steps: what was seen (T + 1 times), done and paid; `terminated` is False where it was cut off."""

    observation: UInt8[np.ndarray, "T+1 148"]
    action: UInt8[np.ndarray, " T"]
    reward: Float32[np.ndarray, " T"]
    terminated: bool
    mission: Tokens

    @property
    def success(self) -> bool:
        """Whether the mission was accomplished: the last reward is the only one."""
        return bool(self.reward[-1] > 0)


class Failure(NamedTuple):
    """Why there is no episode for a seed."""

    reason: Literal["no mission", "bot lost", "out of time"]
    detail: str = ""


class Adviser(Protocol):
    """Something that knows what to do in a mission."""

    def see(self, places: np.ndarray) -> None: ...

    def advise(self, action_taken: int | None) -> int: ...


class OutOfTimeError(Exception):
    """An episode took longer than it may."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the block once it has used this much processor time, even inside an endless loop.

    It works by a signal, so only in a process's main thread. Processor time, since an episode must not be lost because
    the machine is busy with something else.
    """

    def interrupt(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def play_expert(
    level: int,
    seed: int,
    epsilon: float,
    max_steps: int = MAX_STEPS,
    limit_seconds: float = LIMIT_SECONDS,
    make_bot: Callable[[Mission], Adviser] = ExpertBot,
) -> Episode | Failure:
    """The episode of a level's seed: the bot acts, but with probability `epsilon` any useful action is taken instead.

    The bot plans on from wherever that leads. At most `max_steps` steps; at most `limit_seconds` of processor time.
    """
    try:
        with time_limit(limit_seconds):
            return _play(level, seed, epsilon, max_steps, make_bot)
    except CannotDrawError as error:
        return Failure("no mission", str(error))
    except LostError as error:
        return Failure("bot lost", str(error))
    except OutOfTimeError:
        return Failure("out of time", f"more than {limit_seconds:g} s")


def _play(
    level: int, seed: int, epsilon: float, max_steps: int, make_bot: Callable[[Mission], Adviser]
) -> Episode | Failure:
    generator = np.random.default_rng((seed, level))  # of the noise; the mission has its own
    world = Worlds([level])
    first, mission = world.reset([seed])
    # Nobody is asked where every action is random.
    bot = make_bot(world.missions[0]) if epsilon < 1 else None
    observations, actions, rewards = [first[0]], [], []
    action: int | None = None
    over = terminated = False
    while not over and len(actions) < max_steps:
        # `done`, which does nothing, is among them: the value of an action that the data never show cannot be learnt.
        noise, at_random = generator.random() < epsilon, int(generator.integers(len(ACTION_NAMES)))
        if bot is not None:
            bot.see(_in_sight(world))
            advice = bot.advise(action)
        action = at_random if noise or bot is None else advice
        observation, reward, ended, truncated = world.step([action])
        observations.append(observation[0])
        actions.append(action)
        rewards.append(reward[0])
        terminated, over = bool(ended[0]), bool(ended[0] or truncated[0])
    return Episode(
        np.stack(observations), np.array(actions, np.uint8), np.array(rewards, np.float32), terminated, mission[0]
    )


def _in_sight(world: Worlds) -> np.ndarray:
    agent = world.missions[0]
    return seen_places(place(*agent.agent_pos), agent.agent_dir, world.view.in_sight[0])
