"""The worlds agents act in; importing this package registers them with Gymnasium.

By name only: what an environment needs (jax, minigrid) is imported when somebody makes one. Processes that only step
BabyAI never load jax.
"""

import gymnasium

ENTRY_POINTS = {
    "r2a/Gridroboman-v0": "r2a.environments.gridroboman.gym:GridrobomanEnv",
    "r2a/BabyAI-v0": "r2a.environments.babyai.gym:BabyAIEnv",
    "r2a/CausalWorld-v0": "r2a.environments.causalworld.gym:CausalWorldEnv",
}
for _name, _entry_point in ENTRY_POINTS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(id=_name, entry_point=_entry_point)
