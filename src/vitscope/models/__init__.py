"""Models by name, and those that timm lacks (importing this registers them in timm)."""

from vitscope.core.interface import Interface, declare, declared, interface_of
from vitscope.models.checkpoints import Checkpoint, list_checkpoints
from vitscope.models.create import create_model, list_models
from vitscope.models.errors import BadWeights, UnknownArgument, UnknownModel, UntrustedCode
from vitscope.models.info import ModelInfo, describe
from vitscope.models.origin import Origin, name_of, origin, run_of
from vitscope.models.sources.run_folder import load_run_weights, read_config, save_model
from vitscope.models.zoo import OURS

__all__ = [
    "OURS",
    "BadWeights",
    "Checkpoint",
    "Interface",
    "ModelInfo",
    "Origin",
    "UnknownArgument",
    "UnknownModel",
    "UntrustedCode",
    "create_model",
    "declare",
    "declared",
    "describe",
    "interface_of",
    "list_checkpoints",
    "list_models",
    "load_run_weights",
    "name_of",
    "origin",
    "read_config",
    "run_of",
    "save_model",
]
