"""Networks of a few hundred parameters, and their whole Hessian by the obvious way."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

CLASSES = 3


def conv_net() -> nn.Module:
    """Convolutions, batch norm with statistics of its own, ReLU in place."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3, stride=2),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, CLASSES),
    ).double()
    model.train()
    model(torch.randn(32, 3, 8, 8, dtype=torch.float64))
    return model.eval()


def small_vit() -> nn.Module:
    """timm's ViT, fused attention and all."""
    torch.manual_seed(0)
    model = VisionTransformer(
        img_size=8, patch_size=4, embed_dim=4, depth=1, num_heads=2, mlp_ratio=1.0, num_classes=CLASSES
    ).double()
    for parameter in model.parameters():  # timm starts with small weights, at which attention hardly matters
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def batch(n: int = 6) -> tuple[Tensor, Tensor]:
    """Images and soft targets, as mixup and label smoothing leave them."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(n, 3, 8, 8, generator=generator, dtype=torch.float64)
    return images, torch.rand(n, CLASSES, generator=generator, dtype=torch.float64).softmax(1)


def dense_hessian(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    parameters: dict[str, nn.Parameter] | None = None,
    step: float = 1e-5,
) -> np.ndarray:
    """Of the NLL: central differences of the gradient in float64, one parameter entry after the other."""
    chosen = list((parameters or dict(model.named_parameters())).values())
    targets = targets if targets.ndim == 2 else F.one_hot(targets, CLASSES).double()

    def gradient() -> Tensor:
        loss = -(targets * model(images).log_softmax(1)).sum(1).mean()
        found = torch.autograd.grad(loss, chosen, allow_unused=True)
        return torch.cat(
            [
                torch.zeros(p.numel()) if g is None else g.reshape(-1)
                for g, p in zip(found, chosen, strict=True)
            ]
        )

    rows = []
    for parameter in chosen:
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            value = float(flat[i])
            flat[i] = value + step
            above = gradient()
            flat[i] = value - step
            rows.append((above - gradient()) / (2 * step))
            flat[i] = value
    dense = torch.stack(rows).numpy()
    return (dense + dense.T) / 2


@cache
def known_hessian(make: Callable[[], nn.Module], hard: bool = False) -> np.ndarray:
    """The dense Hessian of a network here on `batch()`, over all parameters, with hard or soft targets."""
    images, targets = batch()
    return dense_hessian(make(), images, targets.argmax(1) if hard else targets)


def largest(dense: np.ndarray, k: int) -> np.ndarray:
    values = np.linalg.eigvalsh(dense)
    return values[np.argsort(-np.abs(values))][:k]
