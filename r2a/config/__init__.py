"""What a run is: nested frozen dataclasses, validated where they are made.

Each value that comes from the paper names its place; "ours" marks a choice the paper leaves open.
"""

from r2a.config.agent import AgentConfig, AuxiliaryConfig, CoreConfig, EncoderConfig, HeadConfig, RetrievalConfig
from r2a.config.online import ActingConfig, OnlineConfig, PlayConfig
from r2a.config.replay import ReplayConfig
from r2a.config.rules import config_from_dict, require, require_positive
from r2a.config.run import DataConfig, EvaluationConfig, FoundValues, LearnerConfig, LossWeights, RunConfig
from r2a.config.worlds import AtariConfig, CausalWorldConfig, MinAtarConfig, require_cameras

__all__ = [
    "ActingConfig",
    "AgentConfig",
    "AtariConfig",
    "AuxiliaryConfig",
    "CausalWorldConfig",
    "CoreConfig",
    "DataConfig",
    "EncoderConfig",
    "EvaluationConfig",
    "FoundValues",
    "HeadConfig",
    "LearnerConfig",
    "LossWeights",
    "MinAtarConfig",
    "OnlineConfig",
    "PlayConfig",
    "ReplayConfig",
    "RetrievalConfig",
    "RunConfig",
    "config_from_dict",
    "require",
    "require_cameras",
    "require_positive",
]
