"""Results of real exams of small models, for the numbers that claims are about."""

import functools
from collections.abc import Mapping

import torch
from torch import nn

import vitscope as vs
from vitscope.results import Result


def _examined(model: nn.Module, *exams: str, limit: int = 32, **options: dict) -> Mapping[str, Result]:
    data = vs.load_data("fashion", split="test")
    return vs.diagnose(model, data, exams, limit=limit, batch_size=16, options=options or None)


def _made(name: str, **arguments: object) -> nn.Module:
    torch.manual_seed(0)
    return vs.create_model(name, **arguments)


@functools.cache
def of_vit() -> Mapping[str, Result]:
    model = _made("vit_mini", embed_dim=16, depth=6, num_heads=2, patch_size=8, global_pool="token")
    landscape = {"points": 3, "recipe": None}
    return _examined(model, "fourier", "attention", "landscape", landscape=landscape)


@functools.cache
def of_cb_s() -> Mapping[str, Result]:
    model = _made("vit_mini", embed_dim=16, depth=5, num_heads=2, patch_size=8)
    vs.surgery.broadcast_context(model, kind="cb_s", layers="all")
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            parameter.data += torch.randn(parameter.shape, generator=generator)
    return _examined(model, "cb_scale")


@functools.cache
def of_cnn() -> Mapping[str, Result]:
    model = _made("resnet_mini", pretrained=True)
    return _examined(model, "variance", "lesion", "covariance", limit=20, covariance={"draws": 16})


@functools.cache
def of_pit() -> Mapping[str, Result]:
    model = _made("pit_mini", depth=(2, 2, 2), base_dims=(4, 4, 4), heads=(1, 2, 4))
    return _examined(model, "lesion")


@functools.cache
def of_dropout() -> Mapping[str, Result]:
    model = _made("resnet_mini", pretrained=True)
    vs.surgery.mc_dropout(model, p=0.3)
    few = {"uncertainty": {"passes": 2}, "passes": {"passes": [1, 2, 5]}}
    return _examined(model, "passes", "uncertainty", limit=20, **few)
