"""The one place that imports minigrid, or says that it is missing; importing it registers its levels with Gymnasium."""

from r2a.errors import UserError

try:
    import minigrid
    from minigrid.core import roomgrid, world_object
    from minigrid.envs.babyai.core import roomgrid_level, verifier
    from minigrid.utils import baby_ai_bot
except ModuleNotFoundError as error:
    raise UserError("BabyAI needs minigrid: pip install 'r2a[babyai]'.") from error

__all__ = ["baby_ai_bot", "minigrid", "roomgrid", "roomgrid_level", "verifier", "world_object"]
