"""AlterNet: sizes, where the MSAs are, what an MSA block computes, that training, export and anatomy take it."""

import pytest
import timm
import torch
import torch.nn.functional as F
from timm.optim import param_groups_weight_decay
from torch import nn

import vitscope as vs
from vitscope.anatomy import Tap
from vitscope.anatomy.flops import count_flops
from vitscope.models.errors import CannotBuild
from vitscope.models.zoo.alternet import AlterNet, MSABlock, msa_places

FEW, MANY, ONE_EACH = (0, 1, 1, 2), (0, 1, 3, 2), (0, 1, 1, 1)
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 4), 50: (3, 4, 6, 4), 101: (3, 4, 23, 4), 152: (3, 8, 36, 4)}


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def msa_minus_conv(channels: int, heads: int, window: int, bottleneck: bool) -> int:
    """How many parameters an MSA block has more than the Conv block whose place it takes."""
    width, inner = channels // 4 if bottleneck else channels, 64 * heads
    msa = (
        channels * width + 2 * width + 3 * width * inner + inner * channels + channels + (2 * window - 1) ** 2
    )
    conv = 2 * channels * width + 9 * width**2 + 4 * width if bottleneck else 2 * 9 * width**2 + 2 * width
    return msa - conv


def is_msa(model: nn.Module) -> list[list[bool]]:
    return [[isinstance(block, MSABlock) for block in stage.blocks] for stage in model.stages]


@pytest.mark.parametrize(("size", "classes", "millions"), [(32, 100, 33.01), (224, 1000, 35.92)])
def test_published_sizes(size: int, classes: int, millions: float) -> None:
    model = vs.create_model("alternet_50", img_size=size, num_classes=classes)
    assert round(count(model) / 1e6, 2) == millions


@pytest.mark.parametrize("depth", BLOCKS)
@pytest.mark.parametrize(("size", "window"), [(32, 4), (224, 7)])
def test_parameters_are_those_of_the_resnet_and_of_its_msas(depth: int, size: int, window: int) -> None:
    with torch.device("meta"):
        alternet = timm.create_model(f"alternet_{depth}", img_size=size)
        resnet = timm.create_model(f"preresnet{depth}", img_size=size, blocks=BLOCKS[depth])
    msa = ONE_EACH if depth == 18 else FEW if size == 32 else MANY
    channels = [(256 if depth >= 50 else 64) * 2**stage for stage in range(4)]
    more = sum(
        m * msa_minus_conv(c, h, window, depth >= 50)
        for m, c, h in zip(msa, channels, (3, 6, 12, 24), strict=True)
    )
    assert count(alternet) == count(resnet) + more
    assert [sum(stage) for stage in is_msa(alternet)] == list(msa)


def test_flops() -> None:
    arguments = {"img_size": 32, "num_classes": 100}
    alternet = timm.create_model("alternet_50", **arguments)
    resnet = timm.create_model("preresnet50", blocks=(3, 4, 6, 4), **arguments)
    assert round(count_flops(alternet, (3, 32, 32)) / 1e9, 2) == 3.02
    assert round(count_flops(resnet, (3, 32, 32)) / 1e9, 2) == 2.74


def test_msas_alternate_from_the_end_of_a_stage() -> None:
    """Conv x (n - 2m), then (Conv, MSA) x m."""
    for blocks in range(1, 9):
        for msa in range(blocks // 2 + 1):
            pattern = "C" * (blocks - 2 * msa) + "CM" * msa
            assert msa_places(blocks, msa) == [i for i, kind in enumerate(pattern) if kind == "M"]
    assert is_msa(timm.create_model("alternet_18", img_size=32))[1:] == [[False, True]] * 3


def test_without_msas_it_is_the_resnet() -> None:
    arguments = {"img_size": 32, "num_classes": 100}
    alternet = timm.create_model("alternet_50", msa=(0, 0, 0, 0), blocks=(3, 4, 6, 3), **arguments)
    resnet = timm.create_model("preresnet50", **arguments)
    trees = [[(n, type(m)) for n, m in model.named_modules()][1:] for model in (alternet, resnet)]
    assert trees[0] == trees[1]
    resnet.load_state_dict(alternet.state_dict())
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(alternet.eval()(images), resnet.eval()(images))


def test_arguments() -> None:
    model = timm.create_model(
        "alternet_18", img_size=[32, 32], msa=[1, 0, 0, 1], heads=[1, 2, 3, 5], window=2, drop_path_rate=0.7
    )
    first, last = model.stages[0].blocks[1], model.stages[3].blocks[1]
    assert is_msa(model) == [[False, True], [False, False], [False, False], [False, True]]
    assert (first.attn.heads, last.attn.heads, last.attn.window) == (1, 5, 2)
    assert (first.drop_path.drop_prob, last.drop_path.drop_prob) == pytest.approx((0.1, 0.7))


def test_block_computes_what_the_formula_says() -> None:
    torch.manual_seed(0)
    block = MSABlock(channels=12, heads=2, window=3, dim_head=4).double().train()
    x = torch.randn(3, 12, 6, 5, dtype=torch.float64)

    def normalised(y: torch.Tensor) -> torch.Tensor:
        mean, var = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), keepdim=True, correction=0)
        return (y - mean) / (var + 1e-5).sqrt()

    narrow = torch.einsum("oc,nchw->nohw", block.conv.weight[:, :, 0, 0], F.gelu(normalised(x)))
    assert narrow.shape[1] == 3
    expected = x + block.attn(normalised(narrow))
    torch.testing.assert_close(block(x), expected, rtol=1e-10, atol=1e-10)


def test_block_is_dropped_as_a_whole() -> None:
    torch.manual_seed(0)
    block, x = MSABlock(8, 1, 2, width=8, drop_path=0.5).train(), torch.randn(64, 8, 4, 4)
    with torch.no_grad():
        untouched = (block(x) == x).flatten(1).all(1)
    assert 0 < untouched.sum() < 64
    assert not (block.eval()(x) == x).flatten(1).all(1).any()


def test_anatomy_sees_the_msas_at_the_stage_ends() -> None:
    model = vs.create_model("alternet_50", img_size=32, num_classes=100)
    parts = vs.anatomy(model)
    kinds = [
        "".join(u.kind[0] for u in parts if u.stage == s and u.kind in ("conv", "msa")) for s in range(4)
    ]
    assert kinds == ["ccc", "cccm", "cccccm", "cmcm"]
    msas = parts.of_kind("msa")
    assert [unit.heads for unit in msas] == [6, 12, 24, 24]
    assert all(unit.residual and unit.removable for unit in msas)
    # the last stage is one window
    assert [unit.attention.pattern for unit in msas] == ["window", "window", "global", "global"]
    assert [unit.attention.window for unit in msas[:2]] == [(4, 4), (4, 4)]
    assert [unit.attention.windows for unit in msas] == [16, 4, 1, 1]


def test_attention_can_be_read_and_ignores_padding() -> None:
    model = timm.create_model("alternet_mini").double().eval()
    images = torch.randn(
        2, 3, 40, 40, dtype=torch.float64
    )  # maps of 20, 10 and 5: the window divides the first
    parts = vs.anatomy(model, images)
    with torch.no_grad(), Tap(model, parts, attention=True) as tap:
        model(images)
    maps = {unit.map_shape[1]: tap.attention[unit.name][0] for unit in parts.of_kind("msa")}
    assert [tuple(m.weights.shape) for m in maps.values()] == [
        (2 * windows, heads, 16, 16) for windows, heads in ((25, 2), (9, 4), (4, 8))
    ]
    for attention in maps.values():
        torch.testing.assert_close(attention.weights.sum(-1), torch.ones_like(attention.weights[..., 0]))
        torch.testing.assert_close(attention.weights @ attention.values, attention.output)
    assert (maps[20].weights > 0).all()
    corner = maps[5].weights[3]  # the fourth window of the first image holds one point of the map
    assert (corner[..., 0] == 1).all()
    assert (corner[..., 1:] == 0).all()


def test_learns() -> None:
    torch.manual_seed(0)
    model = timm.create_model("alternet_mini", drop_path_rate=0.1).train()
    images, labels = torch.randn(20, 3, 32, 32), torch.arange(20) % 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_memory_formats_agree() -> None:
    torch.manual_seed(0)
    model = timm.create_model("alternet_mini").double().eval()
    images = torch.randn(2, 3, 36, 36, dtype=torch.float64)
    with torch.no_grad():
        expected = model(images)
        found = model.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_export() -> None:
    model = timm.create_model("alternet_mini").eval()
    images = torch.randn(2, 3, 36, 36)
    program = torch.export.export(model, (images,))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(images), model(images))


def test_position_tables_do_not_decay() -> None:
    model = timm.create_model("alternet_mini")
    assert len(model.no_weight_decay()) == 3
    kept, _ = param_groups_weight_decay(model, 0.1, no_weight_decay_list=model.no_weight_decay())
    tables = {id(p) for n, p in model.named_parameters() if "table" in n}
    assert kept["weight_decay"] == 0
    assert tables <= {id(p) for p in kept["params"]}


def test_mini_is_as_large_as_its_siblings() -> None:
    sizes = [count(timm.create_model(name)) for name in ("alternet_mini", "preresnet_mini", "resnet_mini")]
    assert max(sizes) <= 1_000_000
    assert max(sizes) / min(sizes) < 1.1


@pytest.mark.parametrize(
    "arguments", [{"msa": (0, 1, 1, 3)}, {"msa": (0, -1, 1, 1)}, {"msa": (1, 1)}, {"heads": (3, 6)}]
)
def test_refuses_what_does_not_fit(arguments: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(CannotBuild, match="give"):
        AlterNet(img_size=32, **arguments)


def test_channels_that_timm_rounds_up_fit_the_msas() -> None:
    model = vs.create_model("alternet_mini", blocks=(1, 2, 2, 2), channels=(4, 4, 12, 12), msa=(0, 1, 1, 1))
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
