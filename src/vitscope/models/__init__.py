"""Models by name, and the small ones that timm lacks (importing this registers them in timm)."""

from vitscope.models import small as _small  # noqa: F401  (registers)
from vitscope.models.describe import ModelInfo, describe
from vitscope.models.errors import BadWeights, UnknownArgument, UnknownModel
from vitscope.models.factory import OURS, create_model, list_models
from vitscope.models.origin import Origin, origin
from vitscope.models.run_folder import load_run_weights, read_config, save_model

__all__ = [
    "OURS",
    "BadWeights",
    "ModelInfo",
    "Origin",
    "UnknownArgument",
    "UnknownModel",
    "create_model",
    "describe",
    "list_models",
    "load_run_weights",
    "origin",
    "read_config",
    "save_model",
]
