"""Small models, images and run folders that the tests of landscapes and trajectories share."""

import copy
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from vitscope.models import create_model, save_model
from vitscope.models.checkpoints import weight_bytes

CLASSES = 3
Images = tuple[Tensor, Tensor]


def images(n: int = 12, seed: int = 3) -> Images:
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randn(n, 3, 4, 4, generator=generator)  # single precision, as data is read
    return pictures.double(), torch.randint(CLASSES, (n,), generator=generator)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, CLASSES)).double().eval()


def convolutional() -> nn.Module:
    """Convolutions and batch norms whose statistics are not those of `images`."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(20, CLASSES),
    ).double()
    model(2.0 * torch.randn(64, 3, 4, 4, dtype=torch.float64) + 0.5)
    return model.eval()


def nudged(model: nn.Module, size: float, seed: int) -> nn.Module:
    """A copy with other weights."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(
                parameter
            )
    return other


def tiny_vit() -> nn.Module:
    torch.manual_seed(0)
    return create_model("vit_mini", depth=1, embed_dim=6, num_heads=2, patch_size=8)


def write_run(folder: Path, states: dict[str, tuple[float, nn.Module]]) -> Path:
    """A run folder with these checkpoints by name: epoch and model; the last one is the run's model."""
    *_, (_, final) = states.values()
    save_model(final, folder, [str(i) for i in range(10)])
    (folder / "checkpoints").mkdir()
    entries = []
    for name, (epoch, model) in states.items():
        file = f"checkpoints/{name}.safetensors"
        (folder / file).write_bytes(weight_bytes(model.state_dict()))
        entries.append({"name": name, "file": file, "epoch": epoch, "accuracy": None, "nll": None})
    (folder / "checkpoints.json").write_text(json.dumps({"schema": 1, "checkpoints": entries}))
    return folder
