"""What holds for every environment, whatever its world.

Above all: an episode is a function of its task, its seed and its actions, to the bit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from r2a.environments import registry
from r2a.environments.adapters import FromGymnasium
from r2a.environments.api import Played, TimeStep, VectorEnv, pictures, play_again
from r2a.environments.atari import AtariSettings
from r2a.environments.babyai import BabyAISettings
from r2a.environments.causalworld import CausalWorldSettings
from r2a.environments.minatar import MinAtarSettings
from r2a.environments.registry import World, make, make_here, register, spec_of
from r2a.errors import UserError

gymnasium.register_envs(ale_py)


class Case(NamedTuple):
    """An environment, and another way to make the same: in this process, and able to draw."""

    make: Callable[[int], VectorEnv]
    also: Callable[[int], VectorEnv]
    tasks: tuple[str, str]
    longest: int
    """Steps of an episode."""
    rows: int = 3


def world(name, tasks, longest, settings=None, rows=3):
    return Case(partial(make, name, settings), partial(make_here, name, settings, True), tasks, longest, rows)


def registered(id, longest, **options):
    given = partial(FromGymnasium.registered, id, max_episode_steps=longest, **options)
    return Case(given, given, (id, id), longest)


CASES = {
    "gridroboman": world("gridroboman", ("lift red", "red close to blue"), 50),
    "babyai": world("babyai", ("GoToLocal", "BossLevel"), 40, BabyAISettings(max_steps=40)),
    "causalworld": world("causalworld", ("pushing", "stacked_blocks"), 4, CausalWorldSettings(max_steps=4), rows=2),
    "atari": world("atari", ("breakout", "breakout"), 25, AtariSettings(max_frames=100, sticky=0.25)),
    "minatar": world(
        "minatar", ("seaquest", "seaquest"), 60, MinAtarSettings(game="seaquest", sticky=0.5, max_steps=60)
    ),
    "CartPole-v1": registered("CartPole-v1", 30),
    "Pendulum-v1": registered("Pendulum-v1", 10),
    "ALE/Pong-v5": registered("ALE/Pong-v5", 15, obs_type="grayscale", frameskip=4),
}
SEEDS = (5, (7, 1, 2))


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def env(case):
    """One for all tests of a case: whatever they leave behind must not matter to the next."""
    made = case.make(case.rows)
    yield made
    made.close()


@pytest.fixture(scope="module")
def episodes(case, env):
    """Two episodes, with actions beyond their end."""
    generator = np.random.default_rng(0)
    return [
        Played(task, seed, [some_action(env, generator) for _ in range(case.longest + 2)])
        for task, seed in zip(case.tasks, SEEDS, strict=True)
    ]


@pytest.fixture(scope="module")
def alone(case, episodes):
    """What each of the two shows in an environment of its own that is drawn at every step, and those pictures."""
    recorded = []
    for episode in episodes:
        own, drawn = case.also(1), []
        shown = play(own, [episode], watch=lambda now, own=own, drawn=drawn: drawn.append(own.render(0)))
        recorded.append((of_row(shown, 0), drawn))
        own.close()
    return recorded


def some_action(env, generator):
    space = env.spec.action
    if isinstance(space, Discrete):
        return generator.integers(space.n)
    return generator.uniform(space.low, space.high).astype(space.dtype)


def beside(env, first, last):
    """Episodes for all rows: these two in the first and the last, others of the same tasks between them."""
    generator = np.random.default_rng(1)
    between = [
        Played(last.task, 11 + row, [some_action(env, generator) for _ in last.actions])
        for row in range(env.num_envs - 2)
    ]
    return [first, *between, last]


def play(env, episodes, watch=lambda now: None):
    """Whole episodes in all rows: what they show, time after time."""
    shown = [env.reset([episode.task for episode in episodes], [episode.seed for episode in episodes])]
    watch(shown[-1])
    for actions in zip(*(episode.actions for episode in episodes), strict=True):
        shown.append(env.step(np.stack(actions)))
        watch(shown[-1])
    return shown


def of_row(shown, row):
    """What a row shows, time first."""
    return TimeStep(*(np.stack([column[row] for column in columns]) for columns in zip(*shown, strict=True)))


def assert_same(ours, theirs, but=()):
    for name, one, other in zip(TimeStep._fields, ours, theirs, strict=True):
        if name not in but:
            np.testing.assert_array_equal(one, other, err_msg=name, strict=True)


def at(recorded, time):
    """One moment of what a row shows."""
    return TimeStep(*(column[time] for column in recorded))


def row_of(now, row):
    return TimeStep(*(column[row] for column in now))


def test_what_is_shown_is_as_the_spec_says(case, env, episodes):
    spec, count = env.spec, case.rows
    assert isinstance(env, VectorEnv)
    assert env.num_envs == count
    assert set(case.tasks) <= set(spec.tasks)
    assert len(set(spec.tasks)) == len(spec.tasks)
    assert spec.max_steps == case.longest
    assert len(spec.action_names) in (0, spec.action_size)
    assert spec.fps > 0
    for now in play(env, beside(env, *episodes))[:3]:
        assert (now.observation.shape, now.observation.dtype) == (
            (count, *spec.observation.shape),
            spec.observation.dtype,
        )
        assert all(spec.observation.contains(seen) for seen in now.observation)
        assert (now.instruction.shape, now.instruction.dtype) == ((count, spec.instruction_length), np.uint8)
        for column in (now.reward, now.discount):
            assert (column.shape, column.dtype) == ((count,), np.float32)
        for column in (now.terminated, now.truncated, now.ended):
            assert (column.shape, column.dtype) == ((count,), bool)
        assert (now.scores.shape, now.scores.dtype) == ((count, len(spec.scores)), np.float64)


def test_an_episode_is_a_function_of_its_task_seed_and_actions(env, episodes, alone):
    """In another object, in another row, beside other episodes, after other episodes, and whether drawn or not."""
    first, last = episodes
    shown = play(env, beside(env, first, last))
    assert_same(of_row(shown, 0), alone[0][0])
    assert_same(of_row(shown, -1), alone[1][0])
    shown = play(env, beside(env, last, first))
    assert_same(of_row(shown, -1), alone[0][0])
    assert_same(of_row(shown, 0), alone[1][0])


def test_another_seed_gives_another_episode(env, episodes):
    episode = episodes[0]
    seeds = [5, (5, 1), (5, 2)][: env.num_envs]
    shown = play(env, [episode._replace(seed=seed) for seed in seeds])
    whole = [of_row(shown, row).observation.tobytes() for row in range(env.num_envs)]
    assert len(set(whole)) == env.num_envs


def test_an_episode_ends_once_and_stays_as_it_is(case, alone):
    for shown, _ in alone:
        end = int(np.argmax(shown.ended))
        assert shown.ended.tolist() == [False] * end + [True] * (len(shown.ended) - end)
        assert 0 < end <= case.longest
        assert shown.terminated[end] != shown.truncated[end]
        assert shown.terminated[end] or end == case.longest
        assert shown.discount.tolist() == [1.0] * end + [0.0 if shown.terminated[end] else 1.0] * (
            len(shown.ended) - end
        )
        assert shown.reward[0] == 0
        assert not shown.reward[end + 1 :].any()
        for time in range(end + 1, len(shown.ended)):
            assert_same(at(shown, time), at(shown, end), but=("reward",))


def test_rows_are_reset_and_stepped_alone(env, episodes, alone):
    first, last = episodes
    everything = beside(env, first, last)
    now = env.reset([episode.task for episode in everything], [episode.seed for episode in everything])
    place = env.num_envs - 1
    for time, actions in enumerate(zip(*(episode.actions for episode in everything), strict=True), start=1):
        now = env.step(np.stack(actions), [place])
        assert_same(row_of(now, place), at(alone[1][0], time))
        assert_same(row_of(now, 0), at(alone[0][0], 0))
    assert now.ended.tolist() == [False] * place + [True]
    # The others begin; the one that ended stays as it is, even if it is asked for.
    now = env.step(np.stack([episode.actions[0] for episode in everything]), range(env.num_envs))
    assert_same(row_of(now, 0), at(alone[0][0], 1))
    assert_same(row_of(now, place), at(alone[1][0], -1))
    now = env.reset([first.task], [first.seed], np.array([place]))
    assert_same(row_of(now, place), at(alone[0][0], 0))
    assert_same(row_of(now, 0), at(alone[0][0], 1))
    now = env.step(
        np.stack([first.actions[1], *(episode.actions[0] for episode in everything[1:-1]), first.actions[0]])
    )
    assert_same(row_of(now, place), at(alone[0][0], 1))
    assert_same(row_of(now, 0), at(alone[0][0], 2))


def test_what_was_handed_out_is_nobody_elses(env, episodes, alone):
    kept = []

    def spoil(now):
        kept.append((now, TimeStep(*(column.copy() for column in now))))
        if len(kept) > 2:
            for column in kept.pop()[0]:
                column[:] = 1

    play(env, beside(env, *episodes), watch=spoil)
    for now, then in kept:
        assert_same(now, then)
    now = env.step(np.stack([episode.actions[-1] for episode in beside(env, *episodes)]))
    assert_same(row_of(now, 0), at(alone[0][0], -1))
    assert_same(row_of(now, -1), at(alone[1][0], -1))


def test_episodes_are_played_again_each_as_far_as_it_had_come(env, episodes, alone):
    first, last = episodes
    some, more = 1, 3
    everything = beside(env, first._replace(actions=first.actions[:some]), last._replace(actions=last.actions[:more]))
    now = play_again(env, everything)
    assert_same(row_of(now, 0), at(alone[0][0], some))
    assert_same(row_of(now, -1), at(alone[1][0], more))
    following = [first.actions[some], *(episode.actions[-1] for episode in everything[1:-1]), last.actions[more]]
    now = env.step(np.stack(following))
    assert_same(row_of(now, 0), at(alone[0][0], some + 1))
    assert_same(row_of(now, -1), at(alone[1][0], more + 1))
    now = play_again(env, [last._replace(actions=last.actions[:2])], [0])
    assert_same(row_of(now, 0), at(alone[1][0], 2))
    assert_same(row_of(now, -1), at(alone[1][0], more + 1), but=("reward",))


def test_pictures_show_an_episode_from_its_start(case, episodes, alone):
    episode = episodes[0]
    drawn = list(pictures(case.also, episode._replace(actions=episode.actions[:3])))
    assert len(drawn) == 4
    for picture, then in zip(drawn, alone[0][1], strict=False):
        assert picture.shape[2:] == (3,)
        assert picture.std() > 0
        np.testing.assert_array_equal(picture, then)


def test_actions_that_do_not_exist_are_refused_and_nothing_is_done(env, episodes, alone):
    everything = beside(env, *episodes)
    env.reset([episode.task for episode in everything], [episode.seed for episode in everything])
    actions = np.stack([episode.actions[0] for episode in everything])
    with pytest.raises(ValueError, match=f"{env.num_envs - 1} actions for {env.num_envs} environments"):
        env.step(actions[1:])
    if isinstance(env.spec.action, Discrete):
        for wrong in (env.spec.action.n, -1):
            with pytest.raises(ValueError, match=f"unknown action {wrong}.*from 0 to {env.spec.action.n - 1}"):
                env.step(np.array([*actions[:-1], wrong]))
    now = env.step(actions)
    assert_same(row_of(now, 0), at(alone[0][0], 1))
    assert_same(row_of(now, -1), at(alone[1][0], 1))


def test_unknown_tasks_are_refused_with_near_ones_and_nothing_is_begun(env, episodes, alone):
    everything = beside(env, *episodes)
    tasks, seeds = [episode.task for episode in everything], [episode.seed for episode in everything]
    env.reset(tasks, seeds)
    with pytest.raises(UserError, match=f"no .*'{tasks[0]}x'.*{tasks[0]}"):
        env.reset([f"{tasks[0]}x", *tasks[1:]], seeds[::-1])
    with pytest.raises(ValueError, match="not as many of each"):
        env.reset(tasks, seeds[1:])
    now = env.step(np.stack([episode.actions[0] for episode in everything]))
    assert_same(row_of(now, 0), at(alone[0][0], 1))
    assert_same(row_of(now, -1), at(alone[1][0], 1))


def test_before_the_first_reset_nothing_happens(case, episodes):
    env = case.also(2)
    now = env.step(np.stack([episode.actions[0] for episode in episodes]))
    assert now.ended.all()
    assert not now.reward.any()
    env.close()


def test_no_environments_are_refused(case):
    with pytest.raises(UserError, match="number of environments is 0"):
        case.make(0)


def test_the_worlds_by_name():
    assert set(registry.WORLDS) == {"gridroboman", "babyai", "causalworld", "atari", "minatar"}
    with pytest.raises(UserError, match="no environment 'pong'; choose one of gridroboman, babyai"):
        make("pong")
    assert spec_of("minatar") == make("minatar").spec
    assert spec_of("gridroboman") == make("gridroboman").spec


@pytest.mark.parametrize("in_processes", [False, True])
def test_a_world_of_ones_own(monkeypatch, in_processes):
    monkeypatch.setattr(registry, "WORLDS", dict(registry.WORLDS))
    register(World("walk", make="elsewhere:make_walks", in_processes=in_processes))
    env = make("walk", num_envs=2)
    assert not env.reset(["long", "short"], [1, 2]).ended.any()
    env.close()


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    ("name", "package", "sentence"),
    [
        ("babyai", "minigrid", "BabyAI needs minigrid: pip install 'r2a[babyai]'."),
        ("atari", "ale_py", "Atari needs ale-py: pip install 'r2a[atari]'."),
        ("minatar", "minatar", "MinAtar is missing: pip install 'r2a[minatar]'."),
        ("causalworld", "pybullet", "CausalWorld needs pybullet and causal_world: pip install pybullet==3.2.7, then "),
        ("causalworld", "causal_world", "CausalWorld needs pybullet and causal_world: pip install pybullet==3.2.7"),
    ],
    ids=["minigrid", "ale-py", "minatar", "pybullet", "causal_world"],
)
def test_without_what_a_world_needs_there_is_one_sentence(name, package, sentence):
    said, problems = run_python(
        f"""
import sys
sys.modules["{package}"] = None
import r2a.environments
from r2a.environments.registry import WORLDS, make, world_of
from r2a.errors import UserError
from r2a.training.collect import collect
for world in WORLDS:
    world_of(world)
for act in (lambda: make("{name}"), lambda: collect("{name}", world_of("{name}").collect, "never")):
    try:
        act()
    except UserError as error:
        print(error)
"""
    )
    assert len(said) == 2, problems
    assert said[0].startswith(sentence)
    assert said[1].startswith(sentence) or said[1] == f"{name} has no expert to collect from."


def test_looking_at_worlds_loads_nothing_they_need_and_stepping_them_no_jax():
    said, problems = run_python(
        """
import sys
import r2a.environments
from r2a.environments.registry import WORLDS, make_here, world_of
worlds = [world_of(name) for name in WORLDS]
print([name for name in ("jax", "minigrid", "pygame", "ale_py", "minatar", "pybullet") if name in sys.modules])
import r2a.training.collect, r2a.environments.workers
for world in worlds:
    if not world.pure:
        env = make_here(world.name, world.settings, False, 1)
        env.reset([env.spec.tasks[0]], [0])
        env.step(env.spec.action.sample()[None])
        if world.expert:
            world.load("expert")
print("jax" in sys.modules)
"""
    )
    assert said == ["[]", "False"], problems
