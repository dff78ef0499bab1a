"""Capture and intervention, on real models; the weights and values of an attention as they are met."""

import gc
import weakref

import pytest
import timm
import torch
from torch import nn

import vitscope as vs
from tests.cases import ATTENTION_DESIGNS, HAND_MADE, NORM_FIRST, Case
from tests.invariants import check_attention, relative_error
from tests.registry import randomise_zeros
from vitscope.anatomy import preserved
from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.capture import attention_factors
from vitscope.anatomy.taps.intervene import Call
from vitscope.anatomy.watch.one_forward import Site
from vitscope.core.errors import PathChanged, VitscopeError


@pytest.fixture(scope="module")
def vit():
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=3, num_classes=7).eval()


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=7).eval()
    randomise_zeros(model)  # timm starts the last scale of every branch at zero
    return model


@pytest.mark.parametrize("case", ATTENTION_DESIGNS, ids=lambda case: case.name)
def test_probabilities_times_values_is_the_modules_output(case: Case):
    model = case.model()
    with torch.no_grad():
        check_attention(model, vs.anatomy(model, case.size), case.images())


def test_fused_attention_equals_the_textbook(vit):
    images = torch.randn(2, 3, 32, 32)
    captured = {}
    hook = vit.blocks[1].attn.register_forward_pre_hook(lambda module, args: captured.update(x=args[0]))
    with torch.no_grad(), vs.Tap(vit, vs.anatomy(vit), units=["blocks.1.attn"], attention=True) as tap:
        vit(images)
    hook.remove()
    attention = vit.blocks[1].attn.double()
    q, k, _ = attention.qkv(captured["x"].double()).view(2, 17, 3, 3, 64).permute(2, 0, 3, 1, 4)
    wanted = (q @ k.transpose(-2, -1) / 8).softmax(-1)
    attention.float()
    assert relative_error(tap.attention["blocks.1.attn"][0].weights, wanted) < 1e-5


def test_windows_come_with_images_outermost():
    model = timm.create_model("swin_tiny_patch4_window7_224", img_size=32, patch_size=2, window_size=4).eval()
    parts = vs.anatomy(model, (3, 32, 32))
    images = torch.randn(3, 3, 32, 32)
    name = parts.of_kind("msa")[0].name
    with torch.no_grad(), vs.Tap(model, parts, units=[name], attention=True) as tap:
        model(images)
    together = tap.attention[name][0].weights.unflatten(0, (3, -1))
    for i in range(3):
        with torch.no_grad(), vs.Tap(model, parts, units=[name], attention=True) as tap:
            model(images[i : i + 1])
        assert torch.allclose(tap.attention[name][0].weights, together[i], atol=1e-6)


def test_features_are_the_stream_after_the_unit(vit, resnet):
    images = torch.randn(2, 3, 32, 32)
    outputs = {}
    hooks = [
        vit.blocks[0].register_forward_hook(lambda m, a, out: outputs.update(vit=out)),
        resnet.layer2[1].register_forward_hook(lambda m, a, out: outputs.update(resnet=out)),
    ]
    with torch.no_grad():
        with vs.Tap(vit, vs.anatomy(vit), features=True) as tap:
            vit(images)
        with vs.Tap(resnet, vs.anatomy(resnet, (3, 32, 32)), features=True) as other:
            resnet(images)
    for hook in hooks:
        hook.remove()
    assert torch.equal(tap.features["blocks.0.mlp"].flatten(2).transpose(1, 2), outputs["vit"][:, 1:])
    assert torch.equal(
        other.features["layer2.1"], outputs["resnet"]
    )  # after the ReLU that follows the addition


def test_callback_stores_nothing(vit):
    parts = vs.anatomy(vit)
    alive: list[weakref.ref] = []
    most = 0

    def on_feature(unit, feature):
        nonlocal most
        alive.append(weakref.ref(feature))
        most = max(most, sum(reference() is not None for reference in alive))

    with torch.no_grad(), vs.Tap(vit, parts, on_feature=on_feature) as tap:
        vit(torch.randn(2, 3, 32, 32))
    gc.collect()
    assert len(alive) == len(parts.mapped)
    assert most <= 2
    assert not tap.features
    assert not any(reference() is not None for reference in alive)


def test_only_what_was_asked_for_is_stored(vit):
    with torch.no_grad(), vs.Tap(vit, vs.anatomy(vit), units=["blocks.1.attn"], features=True) as tap:
        vit(torch.randn(2, 3, 32, 32))
    assert list(tap.features) == ["blocks.1.attn"]
    assert not tap.attention


@pytest.mark.parametrize("in_place", [False, True])
def test_removing_a_unit_lets_the_stream_pass(vit, resnet, in_place):
    model, size, name = (resnet, (3, 32, 32), "layer3.1") if in_place else (vit, (3, 32, 32), "blocks.1.mlp")
    parts = vs.anatomy(model, size)
    images = torch.randn(2, *size)
    with torch.no_grad():
        with vs.Tap(model, parts, remove=[name], streams=True) as tap:
            lesioned = model(images)
        before, _, after = tap.streams[name]
        assert torch.equal(before, after)
        assert torch.equal(lesioned, _by_hand(model, images))
        assert not torch.equal(lesioned, model(images))


def _by_hand(model, images):
    """The same lesion, made by zeroing the branch's last scale."""
    block = model.blocks[1].mlp.fc2 if hasattr(model, "blocks") else model.layer3[1].bn2
    kept = {key: value.clone() for key, value in block.state_dict().items()}
    with torch.no_grad():
        block.weight.zero_()
        block.bias.zero_()
        output = model(images)
        block.load_state_dict(kept)
    return output


def test_what_cannot_be_removed_says_why(resnet):
    parts = vs.anatomy(resnet, (3, 32, 32))
    with pytest.raises(VitscopeError, match="everything passes through it"):
        vs.Tap(resnet, parts, remove=["conv1"])


def test_gradients_flow_through_a_tap(vit):
    images = torch.randn(2, 3, 32, 32, requires_grad=True)
    wanted = torch.autograd.grad(vit(images).sum(), images)[0]
    with vs.Tap(vit, vs.anatomy(vit), features=True, attention=True):
        found = torch.autograd.grad(vit(images).sum(), images)[0]
    assert torch.allclose(found, wanted, atol=1e-6)


def everything_about(model: nn.Module) -> dict:
    hooks = [
        (
            len(m._forward_hooks),
            len(m._forward_pre_hooks),
            len(m._backward_hooks),
            len(m._forward_hooks_always_called),
        )
        for m in model.modules()
    ]
    return {
        "hooks": hooks,
        "modes": [m.training for m in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grads": [p.grad is None for p in model.parameters()],
        "weights": [t.double().sum().item() for t in model.state_dict().values()],
        "versions": [t._version for t in (*model.parameters(), *model.buffers())],
        "rng": torch.get_rng_state().tolist(),
        "backends": (
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.math_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
        ),
        "grad mode": torch.is_grad_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
        "attributes": sorted(model.__dict__),
    }


@pytest.mark.parametrize("fail", [False, True])
def test_nothing_is_left_behind(fail):
    model = HAND_MADE.model().train()
    model.conv.eval()
    model.head.weight.requires_grad_(False)
    parts = vs.anatomy(model, HAND_MADE.size)
    before = everything_about(model)

    def on_feature(unit, feature):
        torch.rand(3)
        if fail and unit.kind == "msa":
            raise RuntimeError("in the middle")

    def examine():
        with preserved(model), torch.no_grad(), vs.Tap(model, parts, on_feature=on_feature, attention=True):
            torch.backends.cuda.enable_flash_sdp(False)
            model.requires_grad_(False)
            model(HAND_MADE.images())

    if fail:
        with pytest.raises(RuntimeError, match="in the middle"):
            examine()
    else:
        examine()
    assert everything_about(model) == before


class Fickle(nn.Module):
    """Takes another path where the image is dark."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.stem = nn.Conv2d(3, 4, 1)
        self.a = nn.Conv2d(4, 4, 3, padding=1)
        self.b = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        bright = bool(x.mean() > 0)
        x = self.stem(x)
        if bright:
            return x + self.a(x)
        if self.how == "skips":
            return x * 2
        if self.how == "pools":
            x = x[:, :, ::2, ::2]
            return x + self.a(x)
        return x + self.b(x)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("skips", "unit 'a' was not reached"),
        ("pools", "another path"),
        ("other module", "'a' was not called"),
    ],
)
def test_a_changed_path_is_noticed(how, message):
    model = Fickle(how)
    parts = vs.anatomy(model, torch.ones(2, 3, 8, 8))
    with vs.Tap(model, parts, features=True) as tap:
        model(torch.ones(2, 3, 8, 8))
        assert tap.features["a"].shape == (2, 4, 8, 8)
        with pytest.raises(PathChanged, match=message):
            model(-torch.ones(2, 3, 8, 8))


def test_another_input_size_is_refused(resnet):
    with (
        vs.Tap(resnet, vs.anatomy(resnet, (3, 32, 32)), features=True),
        pytest.raises(PathChanged, match=r"given 3x64x64 images.*taken at 3x32x32"),
    ):
        resnet(torch.randn(2, 3, 64, 64))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_layers_with_a_fused_kernel(mode):
    """In plain passes without gradients PyTorch's encoder layers call none of their modules; tapped ones do."""
    model, images = NORM_FIRST.model(), NORM_FIRST.images(2)
    parts = vs.anatomy(model, images)
    by_hand, streams = model.double(), []
    with torch.no_grad():
        x = by_hand.patches(images.double()).flatten(2).mT
        x = torch.cat((by_hand.class_token.expand(2, -1, -1), x), 1)
        for number, layer in enumerate(by_hand.encoder.layers):
            if number != 1:  # the branch that is removed
                x = x + layer._sa_block(layer.norm1(x), None, None)
            x = x + layer._ff_block(layer.norm2(x))
            x = x + 1.0 if number == 2 else x  # what is edited
            streams.append(x)
        wanted = by_hand.head(x[:, 0]).float()
    model.float()
    msa, mlp = parts.of_kind("msa"), parts.of_kind("mlp")
    tap = vs.Tap(
        model, parts, units=mlp, features=True, remove=[msa[1]], edit={mlp[2].name: lambda x: x + 1.0}
    )
    with mode(), tap:
        torch.testing.assert_close(model(images), wanted)
    for unit, stream in zip(mlp, streams, strict=True):
        maps = stream[:, 1:].mT.unflatten(2, (4, 4)).float()
        torch.testing.assert_close(tap.features[unit.name], maps)


PRODUCT = Site("", 0, "matmul", 0)


def test_weights_that_stand_on_the_right_are_turned():
    site = AttentionSite(PRODUCT, False, 1, weights_transposed=True, softmax=Site("", 0, "softmax", 0))
    # keys x queries, channels x keys
    weights, values = torch.rand(2, 3, 5, 4).softmax(-2), torch.randn(2, 3, 6, 5)
    seen = attention_factors(site, Call(torch.matmul, (values, weights), {}, 2))
    output = values @ weights
    assert seen.weights.shape == (2, 3, 4, 5)
    assert torch.allclose(seen.weights @ seen.values, site.oriented(output, "result"), atol=1e-6)
    assert torch.allclose(site.as_given(seen.weights @ seen.values), output, atol=1e-6)
    assert seen.probabilities is seen.weights


def test_rows_of_exponentials_are_normalised():
    site = AttentionSite(PRODUCT, False)
    weights, values = torch.randn(2, 3, 4, 5).exp(), torch.randn(2, 3, 5, 6)
    seen = attention_factors(site, Call(torch.matmul, (weights, values), {}, 2))
    assert torch.equal(seen.weights, weights)
    assert torch.allclose(seen.probabilities, weights.log().softmax(-1), atol=1e-6)


def test_heads_come_after_images_and_windows():
    tensor = torch.randn(2, 7, 3, 4, 5)  # images, windows, heads, queries, keys
    assert torch.equal(AttentionSite(PRODUCT, False, head_axis=2).by_head(tensor), tensor.flatten(0, 1))
    folded = torch.randn(6, 4, 5)
    assert torch.equal(AttentionSite(PRODUCT, False, heads=3).by_head(folded), folded.view(2, 3, 4, 5))
