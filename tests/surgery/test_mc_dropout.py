import copy

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.cases import AT_32, HAND_MADE, HUGGING_FACE, TORCHVISION, one_in
from tests.registry import randomise_zeros
from tests.surgery.checks import assert_close, assert_equal, check_operated, outputs, short
from vitscope.core.errors import UnsupportedModel
from vitscope.surgery.mc_dropout import MCDropout, draw_number, dropouts, scramble

ALL = {case.name: case for case in (*AT_32, *TORCHVISION, *HUGGING_FACE, HAND_MADE)}
FAMILIES = [
    "resnet18", "pre-activation resnet", "vit_small/4", "pit_ti/4", "levit_128s", "mixer_s32_224",
    "pvt_v2_b1", "tv:convnext_tiny", "hf:vit-sdpa", "hf:swin-sdpa", "hand-made",
]  # fmt: skip


def draw(seed: int, sample: int = 0) -> torch.Tensor:
    return torch.tensor(draw_number(seed, sample))


def test_scramble_is_one_to_one_and_the_same_for_numbers_and_tensors() -> None:
    numbers = torch.arange(2**16) * 65521 % 2**32
    seen = scramble(numbers)
    assert seen.min() >= 0
    assert seen.max() < 2**32
    assert len(seen.unique()) == len(numbers)
    assert [scramble(int(n)) for n in numbers[:50]] == seen[:50].tolist()


def test_scramble_flips_half_of_the_bits() -> None:
    numbers = torch.arange(4096)
    for bit in (0, 7, 19, 31):
        changed = scramble(numbers) ^ scramble(numbers ^ (1 << bit))
        flipped = sum(int((changed >> b & 1).sum()) for b in range(32)) / (32 * len(numbers))
        assert abs(flipped - 0.5) < 0.02


@pytest.mark.parametrize("p", [0.1, 0.3, 0.8])
def test_masks_have_the_moments_of_a_bernoulli(p: float) -> None:
    n = 10_000
    kept = torch.stack(
        [MCDropout(p, place).kept(draw(s), (n,)) for place in range(4) for s in range(20)]
    ).double()
    assert abs(kept.mean() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5
    correlation = torch.corrcoef(kept)[~torch.eye(len(kept), dtype=torch.bool)]
    assert correlation.abs().max() < 6 / n**0.5  # between passes and between places
    shifted = [
        float(torch.corrcoef(torch.stack((row[:-lag], row[lag:])))[0, 1]) for row in kept for lag in (1, 64)
    ]
    assert max(map(abs, shifted)) < 6 / n**0.5  # and between elements


def test_one_mask_for_all_images_of_a_pass() -> None:
    dropout = MCDropout(0.4, place=3).eval()
    x = torch.randn(5, 6, 7, dtype=torch.float64)
    dropout.draw = draw(9)
    kept = dropout.kept(dropout.draw, (1, 6, 7))[0]
    assert torch.equal(dropout(x), torch.stack([image * kept / 0.6 for image in x]))
    dropout.draw = None
    assert dropout(x) is x


def test_windows_of_an_image_have_masks_of_their_own() -> None:
    windows = MCDropout(0.5, place=0, parts_per_image=4).eval()
    windows.draw = draw(1)
    zero = windows(torch.ones(3 * 4, 50, 8)) == 0
    by_image = zero.view(3, 4, 50, 8)
    assert torch.equal(by_image[0], by_image[2])
    assert not torch.equal(by_image[0, 0], by_image[0, 1])
    sequence_first = MCDropout(0.5, place=0, batch_axis=1).eval()
    sequence_first.draw = draw(1)
    zero = sequence_first(torch.ones(50, 3, 8)) == 0
    assert torch.equal(zero[:, 0], zero[:, 2])
    assert 0.4 < zero.double().mean() < 0.6


def test_training_is_dropout() -> None:
    dropout = MCDropout(0.3, place=0).train()
    x = torch.ones(64, 1000)
    torch.manual_seed(4)
    seen = dropout(x)
    torch.manual_seed(4)
    assert torch.equal(seen, nn.functional.dropout(x, 0.3))


def test_gradient_of_a_sampled_network() -> None:
    dropout = MCDropout(0.3, place=0).eval()
    dropout.draw = draw(0)
    x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(dropout, x)


@pytest.mark.parametrize("name", one_in(2, FAMILIES))
def test_families(name: str) -> None:
    case = ALL[name]
    model, images = case.model(), case.images(3)
    said = outputs(model, images)
    vs.surgery.mc_dropout(model, 0.3, kinds=("conv", "msa", "mlp"), example=case.size)
    units = [u for u in vs.anatomy(model, case.size) if u.residual and u.kind in ("conv", "msa", "mlp")]
    assert len(dropouts(model)) == len(units) > 0
    assert_equal(outputs(model, images), said)
    with vs.surgery.sampling(model, seed=3):
        first, second = outputs(model, images), outputs(model, images)
    with vs.surgery.sampling(model, seed=3):
        assert_equal(outputs(model, images), first)
        assert_close(
            [t[1:] for t in second], outputs(model, images[1:])
        )  # the images beside it do not matter
    with vs.surgery.sampling(model, seed=4):
        other = outputs(model, images)
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], other[0])
    assert_equal(outputs(model, images), said)
    vs.surgery.undo(model)
    assert not dropouts(model)


def test_stands_before_the_last_convolution() -> None:
    """The published bottleneck: dropout between the second activation and the last 1x1 convolution."""
    model = vs.create_model("resnet50", num_classes=10, img_size=32).eval()
    randomise_zeros(model)
    vs.surgery.mc_dropout(model, 0.3)
    assert len(dropouts(model)) == 16
    block = model.layer1[1]
    dropout = block.conv3.mc_dropout
    x = torch.randn(2, 256, 8, 8).relu()
    dropout.draw = draw(0)
    kept = dropout.kept(dropout.draw, (1, 64, 8, 8))
    inner = block.act2(block.bn2(block.conv2(block.act1(block.bn1(block.conv1(x))))))
    weight = block.conv3.weight
    wanted = (block.bn3(nn.functional.conv2d(inner * kept / 0.7, weight)) + x).relu()
    assert torch.allclose(block(x), wanted, atol=1e-5)


def test_sampling_leaves_nothing_behind() -> None:
    model = vs.surgery.mc_dropout(vs.create_model("vit_mini"))
    own = vs.create_model("vit_mini", drop_rate=0.2, drop_path_rate=0.2)
    modes = [m.training for m in own.modules()]
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="dimensions"), vs.surgery.sampling(model):
        torch.cat([outputs(model, images)[0], images])
    with pytest.raises(RuntimeError, match="dimensions"), vs.surgery.sampling(own, own_dropout=True):
        torch.cat([outputs(own, images)[0], images])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(d.draw is None for d in dropouts(model))
    assert not model._forward_pre_hooks
    assert [m.training for m in own.modules()] == modes


def test_the_models_own_dropout() -> None:
    model = vs.create_model("vit_mini", pretrained=True, drop_rate=0.3, drop_path_rate=0.3).eval()
    images = torch.randn(4, *vs.anatomy(model).input_shape)
    with torch.no_grad():
        said = model(images)
        with vs.surgery.sampling(model, seed=1, own_dropout=True):
            first, second = model(images), model(images)
        with vs.surgery.sampling(model, seed=1, own_dropout=True):
            assert torch.equal(model(images), first)
        assert not torch.equal(first, second)
        assert torch.equal(model(images), said)
    with pytest.raises(vs.surgery.CannotOperate, match="mc_dropout"), vs.surgery.sampling(model):
        pass


def test_batch_norm_does_not_move_while_sampling() -> None:
    model = vs.surgery.mc_dropout(vs.create_model("resnet_mini")).eval()
    state = copy.deepcopy(model.state_dict())
    with vs.surgery.sampling(model, own_dropout=True):
        model(torch.randn(2, *vs.anatomy(model).input_shape))
    assert all(torch.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(), strict=True))


def test_choice_of_units() -> None:
    model = vs.create_model("vit_mini")
    vs.surgery.mc_dropout(model, 0.2, kinds="mlp", layers="upper", at="end")
    entry = vs.surgery.record(model)[0]
    parts = vs.anatomy(model)
    assert entry["places"] == [u.name for u in parts.of_kind("mlp")][len(parts.of_kind("mlp")) // 2 :]
    assert entry["options"]["layers"] == entry["places"]
    assert {d.p for d in dropouts(model)} == {0.2}


def test_no_place_for_it() -> None:
    case = ALL["coat_lite_tiny"]  # its convolutions are modules that two blocks share
    model = case.model()
    with pytest.warns(UserWarning, match="cpe1"):
        vs.surgery.mc_dropout(model, example=case.size)
    with pytest.raises(UnsupportedModel, match="cpe1"):
        vs.surgery.mc_dropout(case.model(), layers=["cpe1"], example=case.size)


def test_operated(tmp_path) -> None:
    model = short("vit_mini", depth=2)
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    vs.surgery.mc_dropout(model)
    check_operated(model, images, tmp_path)
    again = vs.create_model(tmp_path / "run")
    with vs.surgery.sampling(model, 5), vs.surgery.sampling(again, 5):
        assert_equal(outputs(again, images), outputs(model, images))


def test_compiled_model_is_sampled_without_compiling_every_pass() -> None:
    model = vs.surgery.mc_dropout(short("resnet_mini", layers=(1, 1, 1, 1))).eval()
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    with vs.surgery.sampling(model), torch.no_grad():
        wanted = [model(images) for _ in range(12)]
    assert len({float(said[0, 0]) for said in wanted}) == 12
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with vs.surgery.sampling(compiled), torch.no_grad():  # more passes than torch would recompile for
        seen = [compiled(images) for _ in range(12)]
    torch._dynamo.reset()
    assert_close(seen, wanted)
