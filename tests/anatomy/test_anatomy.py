"""What models are made of, by eye and by invariant."""

from collections import Counter

import pytest
import timm
import torch
from torch import nn

import vitscope as vs
import vitscope.anatomy
from tests.cases import AT_32, HAND_MADE, HUGGING_FACE, TORCHVISION, Case
from tests.invariants import check_all
from tests.registry import build_on_meta
from vitscope.anatomy import kept_anatomies
from vitscope.core.errors import UnsupportedModel, VitscopeError

# what a reader of the papers or of the model's file counts: units by kind, grids by stage
BY_EYE = {
    "resnet50": ({"stem": 1, "conv": 16, "head": 1}, [56, 28, 14, 7]),
    "vit_tiny_patch16_224": ({"stem": 1, "msa": 12, "mlp": 12, "head": 1}, [14]),
    "swin_tiny_patch4_window7_224": (
        {"stem": 1, "msa": 12, "mlp": 12, "subsample": 3, "head": 1},
        [56, 28, 14, 7],
    ),
    "pit_ti_224": ({"stem": 1, "msa": 12, "mlp": 12, "subsample": 2, "head": 1}, [27, 14, 7]),
    "coat_lite_tiny": (
        {"stem": 1, "conv": 8, "msa": 8, "mlp": 8, "subsample": 3, "head": 1},
        [56, 28, 14, 7],
    ),
    "levit_128s": ({"stem": 1, "msa": 11, "mlp": 11, "head": 1}, [14, 7, 4]),
    "convit_tiny": ({"stem": 1, "msa": 12, "mlp": 12, "head": 1}, [14]),
    "twins_svt_small": (
        {"stem": 1, "msa": 18, "mlp": 18, "conv": 4, "subsample": 3, "head": 1},
        [56, 28, 14, 7],
    ),
    "mixer_s16_224": ({"stem": 1, "mixer": 8, "mlp": 8, "head": 1}, [14]),
    "pvt_v2_b1": ({"stem": 1, "msa": 8, "mlp": 8, "subsample": 3, "head": 1}, [56, 28, 14, 7]),
    "convnext_tiny": ({"stem": 1, "conv": 18, "subsample": 3, "head": 1}, [56, 28, 14, 7]),
    "poolformer_s12": ({"stem": 1, "mixer": 12, "mlp": 12, "subsample": 3, "head": 1}, [56, 28, 14, 7]),
    "vgg11": ({"stem": 1, "conv": 7, "subsample": 5, "head": 1}, [224, 112, 56, 28, 14, 7]),
    "densenet121": ({"stem": 1, "conv": 4, "subsample": 3, "head": 1}, [56, 28, 14, 7]),
}


@pytest.mark.parametrize("name", BY_EYE)
def test_units_are_those_a_reader_would_count(name):
    parts = vs.anatomy(build_on_meta(name))
    kinds, sides = BY_EYE[name]
    assert Counter(unit.kind for unit in parts) == kinds
    grids = list(dict.fromkeys(unit.map_shape[1:] for unit in parts.mapped))
    assert grids == [(side, side) for side in sides]
    assert parts[0].kind == "stem"
    assert parts[-1].kind == "head"
    assert [unit.depth for unit in parts] == sorted(unit.depth for unit in parts)
    assert (parts[0].depth, parts[-1].depth) == (0, 1)


@pytest.mark.parametrize("case", [*AT_32, *TORCHVISION, *HUGGING_FACE, HAND_MADE], ids=lambda case: case.name)
def test_invariants(case: Case):
    model = case.model()
    parts = vs.anatomy(model, case.size)
    assert all(unit.map_shape for unit in parts if unit.kind != "head"), (
        "every unit of these models has a map"
    )
    check_all(model, parts, case.images())


@pytest.mark.parametrize("case", HUGGING_FACE, ids=lambda case: case.name)
def test_a_stem_comes_first(case: Case):
    for _ in range(2):  # tables of positions may be cached from the first time on
        parts = vs.anatomy(case.model(), case.size)
        assert [unit.kind for unit in parts].index("stem") == 0
        assert {unit.kind for unit in parts[1:3]} <= {"msa", "mlp", "conv", "subsample"}


def test_a_hand_made_module():
    parts = vs.anatomy(HAND_MADE.model(), HAND_MADE.size)
    assert [(u.name, u.kind, u.map_shape, u.stage) for u in parts] == [
        ("stem", "stem", (12, 16, 24), 0),
        ("conv", "conv", (12, 16, 24), 0),
        ("down", "subsample", (12, 8, 12), 1),
        ("attention", "msa", (12, 8, 12), 1),
        ("feed_forward", "mlp", (12, 8, 12), 1),
        ("head", "head", None, 1),
    ]
    assert parts["attention"].heads == 3


def test_prefix_tokens_heads_and_windows():
    vit = vs.anatomy(build_on_meta("vit_base_patch14_reg4_dinov2"))
    assert {unit.prefix_tokens for unit in vit.mapped} == {5}  # class token and four registers
    deit = vs.anatomy(build_on_meta("deit_tiny_distilled_patch16_224"))
    assert {unit.prefix_tokens for unit in deit.mapped} == {2}
    swin = vs.anatomy(build_on_meta("swin_tiny_patch4_window7_224")).of_kind("msa")
    assert [unit.heads for unit in swin] == [3] * 2 + [6] * 2 + [12] * 6 + [24] * 2
    assert [unit.attention.pattern for unit in swin[:10]] == ["window"] * 10
    assert [unit.attention.shift for unit in swin[:4]] == [(0, 0), (3, 3)] * 2
    assert {unit.attention.window for unit in swin[:10]} == {(7, 7)}
    assert swin[0].attention.windows == 64
    maxvit = vs.anatomy(build_on_meta("maxvit_pico_rw_256")).of_kind("msa")
    assert [unit.attention.pattern for unit in maxvit[:4]] == ["window", "grid"] * 2
    cait = vs.anatomy(build_on_meta("cait_xxs24_224")).of_kind("msa")
    assert [unit.map_shape is None for unit in cait] == [False] * 24 + [
        True
    ] * 2  # class attention has no map
    hiera = vs.anatomy(build_on_meta("hiera_tiny_224")).of_kind("msa")
    assert (hiera[0].heads, hiera[0].attention.pattern, hiera[0].attention.window) == (1, "window", (8, 8))


def test_example_may_be_a_batch_a_shape_or_data():
    model = timm.create_model("resnet10t").eval()
    images = torch.randn(5, 3, 64, 96)
    dataset = torch.utils.data.TensorDataset(images, torch.zeros(5))
    wanted = vs.anatomy(model, (3, 64, 96)).mapped
    for example in (images, dataset, torch.utils.data.DataLoader(dataset, 2), (images, torch.zeros(5))):
        assert vs.anatomy(model, example).mapped == wanted
    assert vs.anatomy(model).input_shape == (3, 176, 176)  # the model's own


def test_non_square_maps():
    model = timm.create_model("vit_tiny_patch16_224", img_size=(32, 64), patch_size=8).eval()
    parts = vs.anatomy(model, (3, 32, 64))
    assert {unit.map_shape for unit in parts.mapped} == {(192, 4, 8)}
    with vs.Tap(model, parts, units=["patch_embed"], features=True) as tap, torch.no_grad():
        images = torch.randn(2, 3, 32, 64)
        model(images)
    embedded = model.patch_embed.proj(images) + model.pos_embed[:, 1:].transpose(1, 2).unflatten(2, (4, 8))
    assert torch.allclose(tap.features["patch_embed"], embedded, atol=1e-6)


def test_anatomy_leaves_the_model_alone():
    model = timm.create_model("resnet10t").train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    vs.anatomy(model, (3, 64, 64))
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


def test_inside_inference_mode():
    model = timm.create_model("resnet10t").eval()
    with torch.inference_mode():
        assert len(vs.anatomy(model, torch.randn(2, 3, 64, 64)).of_kind("conv")) == 4


def test_errors_say_what_to_do():
    vit = timm.create_model("vit_tiny_patch16_224").eval()
    with pytest.raises(UnsupportedModel, match=r"cannot be run on a 2x3x100x100 input.*--img-size"):
        vs.anatomy(vit, (3, 100, 100))
    with pytest.raises(UnsupportedModel, match=r"model\.module"):
        vs.anatomy(nn.DataParallel(vit))
    with pytest.raises(VitscopeError, match="channels, height, width"):
        vs.anatomy(vit, (224, 224))
    with pytest.raises(VitscopeError, match=r"has no unit 'blocks\.99'"):
        vs.anatomy(vit)["blocks.99"]

    class Nothing(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    with pytest.raises(UnsupportedModel, match="no unit was found"):
        vs.anatomy(Nothing(), (3, 8, 8))


def test_shared_modules_are_numbered():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 1)
            self.block = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            x = self.stem(x)
            x = x + self.block(x)
            return x + self.block(x)

    parts = vs.anatomy(Twice(), (3, 8, 8))
    assert [unit.name for unit in parts] == ["stem", "block", "block#2"]
    model = Twice()
    parts = vs.anatomy(model, (3, 8, 8))
    check_all(model, parts, torch.randn(2, 3, 8, 8))


def test_a_model_is_watched_once_for_each_size_where_anatomies_are_kept():
    model, other = (vs.create_model("vit_mini") for _ in range(2))
    with kept_anatomies():
        first = vs.anatomy(model)
        assert vs.anatomy(model, (3, 32, 32)) is first
        assert vs.anatomy(other) is not first
        assert vs.anatomy(model.double()) is not first
    assert vs.anatomy(model, (3, 32, 32)) is not first


@pytest.mark.parametrize("kept", [False, True])
def test_a_diagnosis_watches_its_model_once(kept, monkeypatch, tmp_path):
    watched = []
    plain = vitscope.anatomy.dissect
    monkeypatch.setattr(
        "vitscope.anatomy.dissect", lambda model, example: watched.append(model) or plain(model, example)
    )
    data = (torch.randn(4, 3, 32, 32), torch.zeros(4, dtype=torch.long))
    exams = ["fourier", "lesion", "covariance", "maps"]
    vs.diagnose(vs.create_model("vit_mini"), data, exams, batch_size=4, out=tmp_path if kept else None)
    assert len(watched) == 1
