import copy
import math

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

import vitscope as vs
from tests.cases import AT_32, HUGGING_FACE, TORCHVISION, one_in
from tests.surgery.checks import assert_close, check_acts, check_operated, check_saved, outputs, short
from vitscope.anatomy.taps.map_view import MapView
from vitscope.core.errors import VitscopeError
from vitscope.surgery.smooth import SpatialSmoothing, blur, probable

ALL = {case.name: case for case in (*AT_32, *TORCHVISION, *HUGGING_FACE)}
# what enters a subsampling is the end of a stage, so that "stage_ends" is the wider of the two
PLACES = [
    *((name, "stage_ends") for name in (
        "resnet18", "pre-activation resnet", "pit_ti/4", "twins_svt_small", "levit_128s", "coat_lite_tiny",
        "pvt_v2_b1", "tv:convnext_tiny", "tv:swin_t", "tv:efficientnet_b0", "hf:swin-sdpa", "hf:convnext-None",
    )),
    ("pit_ti/4", "subsampling"), ("hf:swin-sdpa", "subsampling"), ("tv:regnet_y_400mf", "subsampling"),
]  # fmt: skip


def smoothed_by_hand(x: torch.Tensor, temperature: float) -> torch.Tensor:
    """Loops over every point of a (N, C, H, W) map."""
    images, channels, height, width = x.shape
    y = torch.empty_like(x)
    for n in range(images):
        for c in range(channels):
            for i in range(height):
                for j in range(width):
                    rows, columns = (i, min(i + 1, height - 1)), (j, min(j + 1, width - 1))
                    values = [float(x[n, c, a, b]) for a in rows for b in columns]
                    y[n, c, i, j] = sum(max(temperature * math.tanh(v / temperature), 0) for v in values) / 4
    return y


def test_formula() -> None:
    x = 12 * torch.randn(2, 3, 4, 5, dtype=torch.float64)
    seen = blur(probable(x, "tanh_relu", 10.0))
    assert (seen - smoothed_by_hand(x, 10.0)).abs().max() < 1e-14


@pytest.mark.parametrize(
    ("prob", "wanted"),
    [
        ("tanh", lambda v: 3 * math.tanh(v / 3)),
        ("relu", lambda v: min(max(v, 0.0), 3.0)),
        ("none", lambda v: v),
        ("tanh_relu", lambda v: max(3 * math.tanh(v / 3), 0.0)),
    ],
)
def test_probs(prob, wanted) -> None:
    values = torch.linspace(-7, 7, 29, dtype=torch.float64)
    seen = probable(values, prob, 3.0)
    assert torch.allclose(
        seen, torch.tensor([wanted(float(v)) for v in values], dtype=torch.float64), atol=1e-15
    )


def test_blur_is_average_pooling_inside_and_keeps_a_constant_map() -> None:
    x = torch.randn(2, 3, 6, 7, dtype=torch.float64)
    assert torch.allclose(blur(x)[..., :-1, :-1], F.avg_pool2d(x, 2, stride=1), atol=1e-15)
    padded = F.pad(x, (0, 1, 0, 1), mode="replicate")
    assert torch.allclose(blur(x), F.avg_pool2d(padded, 2, stride=1), atol=1e-15)
    constant = torch.full((1, 2, 5, 5), 0.3, dtype=torch.float64)
    assert torch.allclose(blur(constant), constant, atol=1e-15)
    one_point = torch.randn(1, 2, 1, 1)
    assert torch.equal(blur(one_point), one_point)


def test_growing_blur_surrounds_the_map_with_zeros() -> None:
    grown = blur(torch.ones(1, 1, 2, 2), grow=True)
    assert grown[0, 0].tolist() == [[0.25, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 0.25]]


def test_gradients() -> None:
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: blur(probable(x, "tanh_relu", 2.0)), x)
    assert torch.autograd.gradcheck(lambda x: blur(probable(x, "tanh", 2.0), grow=True), x)


def test_lowers_the_variance_of_noise_to_a_quarter() -> None:
    noise = torch.randn(8, 8, 64, 64, generator=torch.Generator().manual_seed(0))
    ratio = float(blur(noise)[..., :-1, :-1].var() / noise.var())
    assert abs(ratio - 0.25) < 0.01


@pytest.mark.parametrize(("name", "where"), one_in(2, PLACES))
def test_the_map_is_smoothed_and_nothing_else_is(name: str, where: str) -> None:
    """What each layer made of what it was given is the formula on the map, and prefix tokens are left alone."""
    case = ALL[name]
    model, images = case.model(), case.images(2)
    units = [(u.name, u.kind, u.stage) for u in vs.anatomy(model, case.size)]
    vs.surgery.smooth(model, where, example=case.size)
    layers = [module for module in model.modules() if isinstance(module, SpatialSmoothing)]
    stages = len({unit.stage for unit in vs.anatomy(model, case.size)})
    class_token = name in ("pit_ti/4", "coat_lite_tiny")  # that alone is read at the end
    assert len(layers) == (stages if where == "stage_ends" and not class_token else stages - 1)
    seen: list[tuple] = []
    for layer in layers:
        layer.register_forward_hook(lambda module, args, output: seen.append((module, args[0], output)))
    outputs(model, images)
    assert len(seen) == len(layers)
    for layer, before, after in seen:
        tokens, made = layer.layout.read(before), layer.layout.read(after)
        order = torch.arange(tokens.shape[1]) if layer.order is None else layer.order
        height, width = layer.grid
        others = [i for i in range(tokens.shape[1]) if i not in set(order.tolist())]
        assert torch.equal(tokens[:, others], made[:, others])
        grid = tokens[:, order].transpose(1, 2).reshape(2, -1, height, width).double()
        wanted = F.avg_pool2d(
            F.pad((10 * torch.tanh(grid / 10)).relu(), (0, 1, 0, 1), mode="replicate"), 2, stride=1
        )
        result = made[:, order].transpose(1, 2).reshape(wanted.shape)
        assert (result - wanted).abs().max() < 1e-5 * max(1, wanted.abs().max())
    assert [(u.name, u.kind, u.stage) for u in vs.anatomy(model, case.size)] == units


def test_where_in_a_resnet() -> None:
    model = vs.create_model("resnet18", num_classes=10, img_size=32)
    reference = vs.create_model("resnet18", num_classes=10, img_size=32)
    reference.load_state_dict(model.state_dict())
    vs.surgery.smooth(model, "stage_ends")
    assert vs.surgery.record(model)[0]["places"] == ["layer2.0", "layer3.0", "layer4.0", "layer4.1"]

    def published(x: torch.Tensor) -> torch.Tensor:
        smooth = nn.Sequential(nn.ReLU(), nn.ReplicationPad2d((0, 1, 0, 1)), nn.AvgPool2d(2, 1))
        x = reference.maxpool(reference.act1(reference.bn1(reference.conv1(x))))
        for stage in (reference.layer1, reference.layer2, reference.layer3, reference.layer4):
            x = smooth(10 * torch.tanh(stage(x) / 10))
        return reference.fc(reference.global_pool(x))

    images = torch.randn(2, 3, 32, 32)
    reference.eval()
    with torch.no_grad():
        assert_close(outputs(model, images), [published(images)])


def test_grows_as_published() -> None:
    model = vs.create_model("resnet18", num_classes=10, img_size=32)
    shapes: list[tuple[int, ...]] = []
    vs.surgery.smooth(model, "stage_ends", grow=True)
    for module in model.modules():
        if isinstance(module, SpatialSmoothing):
            module.register_forward_hook(lambda _, args, output: shapes.append(tuple(output.shape[2:])))
    outputs(model, torch.randn(1, 3, 32, 32))
    assert shapes == [(33, 33), (18, 18), (10, 10), (6, 6)]


class Embedded(nn.Module):
    """A convolution, a smaller map, and one number for each of its points."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.down = nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.position = nn.Parameter(torch.randn(1, 4, 4, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.conv(x)
        return self.head((self.down(x) + self.position).relu().mean((2, 3)))


def test_refuses_to_grow_a_fixed_grid() -> None:
    tokens = ALL["pit_ti/4"]
    for model, images, reason in (
        (tokens.model(), tokens.images(2), "sequence of 4x4 tokens"),
        (Embedded(), torch.randn(2, 3, 8, 8), "takes no larger map"),
    ):
        said = outputs(model, images)
        with pytest.raises(vs.surgery.CannotOperate, match=f"{reason}.*grow=False"):
            vs.surgery.smooth(model, grow=True, example=images)
        assert torch.equal(outputs(model, images)[0], said[0])
        assert vs.surgery.record(model) == []


def test_nothing_to_smooth() -> None:
    model = vs.create_model("vit_mini")
    with pytest.warns(vs.surgery.NoEffectWarning, match="stage_ends"):
        vs.surgery.smooth(model)
    assert vs.surgery.record(model) == []


def test_a_class_token_does_not_see_the_end_of_the_last_stage() -> None:
    case = ALL["vit_tiny/2"]
    model = case.model()
    with pytest.warns(vs.surgery.NoEffectWarning, match="pool_tokens"):
        vs.surgery.smooth(model, "stage_ends", example=case.size)


def test_another_image_size() -> None:
    model = vs.surgery.smooth(vs.create_model("resnet18", img_size=32))
    outputs(model, torch.randn(1, 3, 48, 40))
    pvt = vs.surgery.smooth(vs.create_model("pvt_v2_b0"), example=(3, 64, 64))  # its maps are token sequences
    outputs(pvt, torch.randn(1, 3, 64, 64))
    for size in ((96, 96), (32, 128)):  # other maps than 16x16, the second with as many points
        torch.manual_seed(0)
        x = torch.randn(1, 3, *size)
        fresh = vs.create_model("pvt_v2_b0")
        fresh.load_state_dict(pvt.state_dict())
        assert_close(outputs(pvt, x), outputs(vs.surgery.smooth(fresh, example=(3, *size)), x))


def test_points_in_another_order_are_of_one_size() -> None:
    """Windows of 2x2 points one after the other: how those of another map stand cannot be told."""
    order = torch.arange(16).view(2, 2, 2, 2).transpose(1, 2).flatten().argsort()
    step = SpatialSmoothing("none", 1.0, False, 3, MapView((5, 4, 4), 2, 0, 1, order, 0))
    feature_map = torch.randn(2, 5, 4, 4)
    tokens = feature_map.flatten(2).mT[:, order.argsort()]
    torch.testing.assert_close(step(tokens)[:, order].mT.unflatten(2, (4, 4)), blur(feature_map))
    for points in (64, 12):
        with pytest.raises(VitscopeError, match=f"4x4 map and is given {points} points of another one"):
            step(torch.randn(2, points, 5))


def test_operated_resnet(tmp_path) -> None:
    model = short("resnet_mini", layers=(1, 1, 1, 1))
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    said = outputs(model, images)
    vs.surgery.smooth(model, "stage_ends", "tanh", 5)
    assert not torch.equal(outputs(model, images)[0], said[0])
    check_operated(model, images, tmp_path)
    vs.surgery.undo(model)
    assert torch.equal(outputs(model, images)[0], said[0])


@pytest.mark.parametrize("graph", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_operated_pyramid_of_tokens(graph: bool, tmp_path) -> None:
    model = short("pit_mini", num_classes=5, depth=(1, 1, 1))
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    vs.surgery.smooth(model)
    check_operated(model, images, tmp_path, graph=graph)


def test_saved_with_an_example(tmp_path) -> None:
    model = vs.create_model("resnet18", num_classes=4, img_size=32, layers=(1, 1, 1, 1))
    vs.surgery.smooth(model, example=(3, 64, 64))
    check_saved(model, torch.randn(2, 3, 64, 64), tmp_path)


@pytest.mark.parametrize("name", ["regnety_002", "regnetx_002"])
def test_stages_that_run_through_their_children(name: str) -> None:
    """Each stage of a RegNet runs whatever it holds; smoothing stands before each, once."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=4).eval()
    by_hand, x = copy.deepcopy(model).double(), torch.randn(2, 3, 64, 64)
    vs.surgery.smooth(model, temperature=2.0, example=(3, 64, 64))
    assert vs.surgery.record(model)[0]["grafts"] == [f"s{i}.smoothing" for i in (1, 2, 3, 4)]
    with torch.no_grad():
        y = by_hand.stem(x.double())
        for stage in (by_hand.s1, by_hand.s2, by_hand.s3, by_hand.s4):
            y = stage(smoothed_by_slices(y, 2.0))
        wanted = by_hand.head(y)
    assert_close(outputs(model, x), [wanted.float()])
    check_acts(model, x)


def smoothed_by_slices(x: torch.Tensor, temperature: float) -> torch.Tensor:
    p = F.pad((temperature * torch.tanh(x / temperature)).relu(), (0, 1, 0, 1), mode="replicate")
    return (p[..., :-1, :-1] + p[..., 1:, :-1] + p[..., :-1, 1:] + p[..., 1:, 1:]) / 4


class Bottom(nn.Module):
    """A residual block whose last activation is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.c2(F.relu(self.c1(x))))


class Hybrid(nn.Module):
    """Convolutions, then a step to tokens that takes the map behind that function."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.down = nn.Conv2d(3, 8, 3, 2, 1), Bottom(), nn.Conv2d(8, 16, 2, 2)
        self.mixer, self.head = nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.down(self.block(F.relu(self.stem(x)))).flatten(2).transpose(1, 2)
        return self.head((tokens + self.mixer(tokens)).mean(1))


def test_an_activation_that_is_a_function_stands_before_the_subsampling() -> None:
    torch.manual_seed(0)
    model, images = Hybrid().eval(), torch.randn(2, 3, 32, 32)
    by_hand = copy.deepcopy(model)
    by_hand.down.register_forward_pre_hook(lambda _, x: (blur(probable(x[0], "tanh_relu", 10.0)),))
    vs.surgery.smooth(model, example=(3, 32, 32))
    with torch.no_grad():
        assert_close(model(images), by_hand(images))
