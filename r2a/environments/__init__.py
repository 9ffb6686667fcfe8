"""The worlds agents act in; importing this package registers them with Gymnasium, by name only."""

from typing import Any

import gymnasium

TITLES = {
    "gridroboman": "Gridroboman",
    "babyai": "BabyAI",
    "causalworld": "CausalWorld",
    "atari": "Atari",
    "minatar": "MinAtar",
}
"""The worlds by the names of their folders; Gymnasium knows them as r2a/TITLE-v0."""


def as_gymnasium(world: str, task: str = "", render_mode: str | None = None, **settings: Any) -> Any:
    """One environment of a world for Gymnasium; `settings` are the world's own."""
    from dataclasses import replace

    from r2a.environments.adapters import AsGymnasium
    from r2a.environments.registry import make_here, world_of

    env = make_here(world, replace(world_of(world).settings, **settings), render_mode is not None, 1)
    return AsGymnasium(env, task or env.spec.tasks[0], render_mode)


for _name, _title in TITLES.items():
    if (_id := f"r2a/{_title}-v0") not in gymnasium.registry:
        gymnasium.register(id=_id, entry_point="r2a.environments:as_gymnasium", kwargs={"world": _name})
