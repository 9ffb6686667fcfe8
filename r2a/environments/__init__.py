"""The worlds agents act in; importing this room registers them with Gymnasium."""

from r2a.environments import gridroboman
from r2a.environments.interface import Environment, EnvironmentSpec

__all__ = ["Environment", "EnvironmentSpec", "gridroboman"]
