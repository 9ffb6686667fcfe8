"""Gridroboman: a 7 x 7 board, a robot, three objects and thirty tasks (App. "Gridroboman environment").

dynamics   the board and its moves; tasks: the thirty tasks
env        both as a pure environment
expert     an optimal policy (its cost-to-go: plan), and what constant actions earn
features   one-hot positions for networks
render     a board as a picture, and in reports
"""

from r2a.config import AgentConfig, CollectConfig, EncoderConfig, RetrievalConfig
from r2a.config.collect import OnlineCollectConfig
from r2a.environments.registry import World

PLAIN = AgentConfig(EncoderConfig("positions", (256, 256)), retrieval=RetrievalConfig(variant="none"))

WORLD = World(
    name="gridroboman",
    make="r2a.environments.gridroboman.env:make",
    pure="r2a.environments.gridroboman.env:pure",
    expert="r2a.environments.gridroboman.expert:act",
    collect=CollectConfig(
        episodes=4_000,  # the paper: 100,000
        ladder=(0.0, 0.5, 0.75, 0.9, 1.0),
        online=OnlineCollectConfig(agent=PLAIN),  # App. gridroboman setup: a 3-layer MLP with 256 units
    ),
    dataset="gridroboman-scripted",
    features="r2a.environments.gridroboman.features",
    page="r2a.environments.gridroboman.render",
)
