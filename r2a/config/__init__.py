"""What a run is: nested frozen dataclasses, validated where they are made.

Each value that comes from the paper names its place; "ours" marks a choice the paper leaves open.
"""
# What is imported here is what others import from here.
# ruff: noqa: F401

from r2a.config.agent import AgentConfig, AuxiliaryConfig, CoreConfig, EncoderConfig, HeadConfig, RetrievalConfig
from r2a.config.collect import CollectConfig, ExpertSettings
from r2a.config.experience import ActingConfig, DataConfig, Experience, FromDataset, FromReplay, ReplayConfig
from r2a.config.rules import config_from_dict, override, require, require_positive
from r2a.config.run import EnvSettings, EvaluationConfig, LearnerConfig, LossWeights, RunConfig, Source, Values
