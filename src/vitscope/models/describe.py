"""What `vitscope models` prints about a model, found without giving it weights."""

from dataclasses import dataclass

import torch

from vitscope.models.factory import OURS, create_model


@dataclass(frozen=True)
class ModelInfo:
    """Name, size and home of a model that can be created."""

    name: str
    parameters: int
    input_size: tuple[int, int, int]
    source: str


def describe(name: str) -> ModelInfo:
    """Build the model on the meta device (no memory, no arithmetic) and count."""
    with torch.device("meta"):
        model = create_model(name)
    return ModelInfo(
        name=name,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        input_size=tuple(model.pretrained_cfg["input_size"]),  # type: ignore[index]
        source=source_of(name),
    )


def source_of(name: str) -> str:
    """Who the model comes from."""
    if name in OURS:
        return "vitscope"
    return "torchvision" if name.startswith("tv:") else "timm"
