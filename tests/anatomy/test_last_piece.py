"""The last step before the head is read as the steps before it are: after its norm and activation."""

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

import vitscope as vs

SIZE = (3, 32, 32)


def outputs_of(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """What every module puts out, by plain hooks."""
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        module.register_forward_hook(lambda m, a, out, path=path: found.__setitem__(path, out.clone()))
    model(images)
    return found


@torch.no_grad()
def features_of(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    parts = vs.anatomy(model, tuple(images.shape[1:]))
    with vs.Tap(model, parts, features=True) as tap:
        model(images)
    return tap.features


def layer(inputs: int, norm: bool, activation: bool, inplace: bool, stride: int = 1) -> list[nn.Module]:
    modules: list[nn.Module] = [nn.Conv2d(inputs, 8, 3, stride, 1)]
    modules += [nn.BatchNorm2d(8)] if norm else []
    return modules + ([nn.ReLU(inplace)] if activation else [])


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("norm", "activation"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("pooled", [True, False])
@torch.no_grad()
def test_a_plain_network(inplace: bool, norm: bool, activation: bool, pooled: bool):
    torch.manual_seed(0)
    layers = [layer(i, norm, activation, inplace, stride) for i, stride in ((3, 2), (8, 1), (8, 1))]
    head = [nn.AdaptiveAvgPool2d(1)] if pooled else []
    body = [module for modules in layers for module in modules]
    dense = nn.Linear(8 if pooled else 8 * 16 * 16, 5)
    model, images = nn.Sequential(*body, *head, nn.Flatten(), dense).eval(), torch.randn(2, *SIZE)
    features = list(features_of(model, images).values())
    assert len(features) == 3
    x = images
    for modules, feature in zip(layers, features, strict=True):
        for module in modules:
            x = module(x).clone()
        assert torch.equal(feature, x)


class Functional(nn.Module):
    """Convolutions beside each other in the model, activations as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(i, 8, 3, padding=1) for i in (3, 8, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        for conv in (self.a, self.b, self.c):
            x = torch.relu(conv(x))
        return self.head(x.mean((2, 3)))


@torch.no_grad()
def test_activations_without_a_module():
    torch.manual_seed(0)
    model, images = Functional().eval(), torch.randn(2, *SIZE)
    outputs, features = outputs_of(model, images), features_of(model, images)
    assert list(features) == ["a", "b", "c"]
    for name, feature in features.items():
        assert torch.equal(feature, outputs[name].relu())


@pytest.mark.parametrize(
    ("build", "unit", "module"),
    [
        (lambda: timm.create_model("repvgg_a0", num_classes=5), "stages.3.0", "stages.3.0"),
        (lambda: torchvision.models.vgg11(num_classes=5), "features.18", "features.19"),
        (lambda: torchvision.models.squeezenet1_1(num_classes=5), "classifier.1", "classifier.2"),
        (lambda: timm.create_model("efficientnet_lite0", num_classes=5), "conv_head", "bn2"),
    ],
)
@torch.no_grad()
def test_known_networks(build, unit: str, module: str):
    torch.manual_seed(0)
    model, images = build().eval(), torch.randn(2, 3, 64, 64)
    outputs, features = outputs_of(model, images), features_of(model, images)
    assert bool((features[unit] >= 0).all())
    assert torch.equal(features[unit], outputs[module])


class NormInHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
        self.head = nn.Sequential(nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(torch.relu(self.stem(x))))


@torch.no_grad()
def test_a_norm_in_the_heads_own_module_is_the_heads():
    torch.manual_seed(0)
    model, images = NormInHead().eval(), torch.randn(2, *SIZE)
    assert torch.equal(features_of(model, images)["conv"], outputs_of(model, images)["conv"])
