"""Every model of this package: it builds at its own size, and its units are those of its architecture."""

import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
import timm
import torch

import vitscope as vs
from tests.cases import one_in
from tests.invariants import check_all
from tests.registry import NoInitialisation, randomise_zeros
from vitscope.anatomy import Anatomy
from vitscope.models import OURS, create_model
from vitscope.models.zoo import fitting

MINIS = [name for name in OURS if name.endswith("_mini")]


def patterns(parts: Anatomy) -> list[str]:
    return [unit.attention.pattern for unit in parts if unit.attention]


@cache
def on_meta(name: str) -> Anatomy:
    """Of the model at its own size, without weights."""
    with torch.device("meta"), NoInitialisation():
        model = create_model(name)
    return vs.anatomy(model)


def test_ours_are_registered_here_and_nowhere_else() -> None:
    listed = [n for n in timm.list_models() if timm.model_entrypoint(n).__module__.startswith("vitscope.")]
    assert listed == list(OURS)
    assert {"vit_mini", "resnet50_32", "pvt_small", "localvit_tiny"} <= set(OURS)


def test_importing_the_models_is_enough_for_timm() -> None:
    script = (
        "import timm, vitscope.models; print(timm.create_model('pvt_mini', num_classes=7).head.out_features)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "7"


# deeper ones of a family have more of the same blocks
DEEP = ("alternet_101", "alternet_152", "preresnet101", "preresnet152")


@pytest.mark.parametrize(
    "name",
    [
        *one_in(2, [name for name in OURS if name not in DEEP]),
        *(pytest.param(name, marks=pytest.mark.slow) for name in DEEP),
    ],
)
def test_anatomy_at_its_own_size(name: str) -> None:
    parts = on_meta(name)
    kinds = Counter(unit.kind for unit in parts)
    assert kinds["stem"] == kinds["head"] == 1
    assert kinds["other"] == 0
    assert min(parts.mapped[-1].map_shape[1:]) >= 4
    assert len(parts.mapped) == len(parts) - 1


@pytest.mark.parametrize(
    ("name", "attention", "maps"),
    [
        ("swin_mini", ["window"] * 6 + ["global"] * 2, [32, 16, 8, 4]),  # the last map is one window
        ("twins_mini", ["window", "pooled"] * 3 + ["global"] * 2, [32, 16, 8, 4]),
        ("pvt_mini", ["pooled"] * 6 + ["global"] * 2, [32, 16, 8, 4]),
        ("pvt_small", ["pooled"] * 13 + ["global"] * 3, [56, 28, 14, 7]),
        ("pit_mini", ["global"] * 8, [16, 8, 4]),
        ("convit_mini", ["global"] * 6, [8]),
        ("localvit_mini", ["global"] * 6, [8]),
        ("localvit_tiny", ["global"] * 12, [14]),
        ("mixer_mini", [], [8]),
        ("resnext_mini", [], [32, 16, 8, 4]),
        ("swin_tiny_patch1_window4_32", ["window"] * 10 + ["global"] * 2, [32, 16, 8, 4]),
        ("twins_svt_small_32", ["window", "pooled"] * 7 + ["global"] * 4, [32, 16, 8, 4]),
        ("vit_small_patch8_32", ["global"] * 12, [4]),
    ],
)
def test_units(name: str, attention: list[str], maps: list[int]) -> None:
    parts = on_meta(name)
    assert patterns(parts) == attention
    assert list(dict.fromkeys(unit.map_shape[-1] for unit in parts.mapped)) == maps
    assert len(parts.of_kind("mlp")) == (8 if name == "mixer_mini" else len(attention))
    assert len(parts.of_kind("subsample")) == (0 if name == "resnext_mini" else len(maps) - 1)


def test_windows_keys_and_heads() -> None:
    swin, pvt = on_meta("swin_mini").of_kind("msa"), on_meta("pvt_mini").of_kind("msa")
    assert [unit.attention.window for unit in swin[:6]] == [(4, 4)] * 6
    assert [unit.attention.shift != (0, 0) for unit in swin[:6]] == [False, True] * 3
    assert [unit.heads for unit in swin] == [1, 1, 2, 2, 4, 4, 8, 8]
    assert [unit.attention.keys for unit in pvt] == [16] * 6 + [17] * 2  # 4x4 everywhere, and the class token
    assert [unit.prefix_tokens for unit in pvt] == [0] * 6 + [1] * 2
    assert {unit.prefix_tokens for unit in on_meta("localvit_mini").mapped} == {1}
    assert len(on_meta("mixer_mini").of_kind("mixer")) == 8
    assert len(on_meta("resnext_mini").of_kind("conv")) == 8


@pytest.mark.parametrize("name", MINIS)
def test_minis_keep_every_invariant(name: str) -> None:
    torch.manual_seed(0)
    model = create_model(name).eval()
    assert sum(p.numel() for p in model.parameters()) <= 1_000_000
    assert (model.pretrained_cfg["input_size"], model.num_classes) == ((3, 32, 32), 10)
    randomise_zeros(model)
    check_all(model, vs.anatomy(model), torch.randn(3, 3, 32, 32))


@pytest.mark.parametrize("name", one_in(3, MINIS))
def test_minis_learn(name: str) -> None:
    """A few steps on one batch lower its loss, and every parameter has a part in it."""
    torch.manual_seed(0)
    model = create_model(name).train()
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        unused = [path for path, p in model.named_parameters() if p.grad is None]
        optimiser.step()
        losses.append(loss.item())
    assert unused == []
    assert losses[-1] < 0.9 * losses[0]


def test_twin_by_name_and_size() -> None:
    assert fitting("resnet50", 32) == fitting("resnet50", (64, 48)) == "resnet50_32"
    assert fitting("resnext50_32x4d", 64) == "resnext50_32x4d_32"
    assert fitting("resnet50", (32, 65)) == fitting("resnet50", None) == "resnet50"
    assert fitting("resnet50.a1_in1k", 32) == "resnet50.a1_in1k"
    assert fitting("convmixer_768", 32) == "convmixer_768"  # timm's convmixer_768_32 is no twin
