"""Options that are about reading."""

from __future__ import annotations

from r2a.config import AgentConfig
from r2a.errors import UserError


def require_reading(agent: AgentConfig, option: str, asked: bool) -> None:
    """Refuse an option about reading, if it was asked for and the agent reads nothing."""
    if asked and not agent.retrieval.reads:
        raise UserError(f"This agent reads nothing: {option} makes no difference to it.")
