"""The worlds agents act in; importing this package registers them with Gymnasium, by name only."""

from typing import Any

import gymnasium

IDS = {
    "r2a/Gridroboman-v0": "gridroboman",
    "r2a/BabyAI-v0": "babyai",
    "r2a/CausalWorld-v0": "causalworld",
    "r2a/Atari-v0": "atari",
    "r2a/MinAtar-v0": "minatar",
}


def as_gymnasium(world: str, task: str = "", render_mode: str | None = None, **settings: Any) -> Any:
    """One environment of a world for Gymnasium; `settings` are the world's own."""
    from dataclasses import replace

    from r2a.environments.adapters import AsGymnasium
    from r2a.environments.registry import make_here, world_of

    env = make_here(world, replace(world_of(world).settings, **settings), render_mode is not None, 1)
    return AsGymnasium(env, task or env.spec.tasks[0], render_mode)


for _id, _world in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(id=_id, entry_point="r2a.environments:as_gymnasium", kwargs={"world": _world})
