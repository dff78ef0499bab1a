"""Operations on models of PyTorch's own encoder layers act in the passes that users make."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

import vitscope as vs
from tests.cases import NORM_FIRST, NORM_LAST, EncoderViT
from tests.surgery.checks import assert_equal, check_acts, check_operated, outputs, set_origin
from vitscope.surgery.tools.graft import graft, ungraft

SIZE = (3, 32, 32)
IMAGES = torch.randn(2, *SIZE, generator=torch.Generator().manual_seed(1))
OPERATIONS = {
    "broadcast_context": lambda m: vs.surgery.broadcast_context(m, example=SIZE),
    "localize": lambda m: vs.surgery.localize(m, kernel=3, example=SIZE),
    "uniform_heads": lambda m: vs.surgery.uniform_heads(m, variant="C", example=SIZE),
    "squeeze_excite": lambda m: vs.surgery.squeeze_excite(m, example=SIZE),
    "mc_dropout": lambda m: vs.surgery.mc_dropout(m, example=SIZE),
    "extend": lambda m: vs.surgery.extend(m, "mlp", example=SIZE),
    "ensemble": lambda m: vs.surgery.ensemble(vs.surgery.mc_dropout(m, example=SIZE), 2, example=SIZE),
}


def encoder_vit() -> EncoderViT:
    """For run folders, which build it by name."""
    torch.manual_seed(0)
    return EncoderViT(depth=1).eval()


def calls_of_linear(model: nn.Module) -> int:
    """In a plain pass; counted by a hook of no module, which would keep the fused kernel away."""
    seen = []
    handle = register_module_forward_pre_hook(lambda module, _: seen.append(module))
    try:
        outputs(model, IMAGES)
    finally:
        handle.remove()
    return sum(module in list(model.encoder.modules()) for module in seen if isinstance(module, nn.Linear))


def lesion_name(model: nn.Module) -> str:
    return [unit.name for unit in vs.anatomy(model, SIZE) if unit.kind == "mlp"][1]


@pytest.mark.parametrize("case", [NORM_FIRST, NORM_LAST], ids=lambda case: case.name)
@pytest.mark.parametrize("name", [*OPERATIONS, "lesion"])
def test_it_acts_and_undo_brings_the_kernel_back(name: str, case) -> None:
    model = case.model()
    was = outputs(model, IMAGES)
    assert calls_of_linear(model) == 0  # the fused kernel
    if name == "lesion":
        vs.surgery.lesion(model, lesion_name(model), example=SIZE)
    else:
        OPERATIONS[name](model)
    for path in vs.surgery.record(model)[-1]["grafts"]:
        for parameter in model.get_submodule(path).parameters():
            nn.init.normal_(parameter)
    check_acts(model, IMAGES)
    with torch.enable_grad():
        wanted = model(IMAGES).detach()
    if name != "mc_dropout":  # which is off in evaluation
        assert float((wanted - was[0]).abs().max()) > 1e-3
    for twin in (model, copy.deepcopy(model)):
        torch.testing.assert_close(outputs(twin, IMAGES)[0], wanted)
    check_acts(copy.deepcopy(model).bfloat16(), IMAGES.bfloat16(), tolerance=0.03)
    while vs.surgery.record(model):
        vs.surgery.undo(model)
    assert calls_of_linear(model) == 0
    assert_equal(outputs(model, IMAGES), was)


def test_context_broadcasting_against_a_hand_written_encoder() -> None:
    model = vs.surgery.broadcast_context(NORM_FIRST.model(), layers="all", example=SIZE)
    found, by_hand = outputs(model, IMAGES)[0], copy.deepcopy(model).double()
    x = F.conv2d(IMAGES.double(), by_hand.patches.weight, by_hand.patches.bias, 8).flatten(2).mT
    x = torch.cat((by_hand.class_token.expand(2, -1, -1), x), 1)
    for layer in by_hand.encoder.layers:
        x = x + _attend(layer.self_attn, layer.norm1(x))
        hidden = F.gelu(F.linear(layer.norm2(x), layer.linear1.weight, layer.linear1.bias))
        branch = F.linear(hidden, layer.linear2.weight, layer.linear2.bias)
        x = x + (branch + branch.mean(1, keepdim=True)) / 2
    wanted = F.linear(x[:, 0], by_hand.head.weight, by_hand.head.bias)
    torch.testing.assert_close(found, wanted.float())


def _attend(attention: nn.MultiheadAttention, x: Tensor) -> Tensor:
    query, key, value = (x @ attention.in_proj_weight.mT + attention.in_proj_bias).chunk(3, -1)
    heads = [t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (query, key, value)]
    weights = (heads[0] @ heads[1].mT / heads[0].shape[-1] ** 0.5).softmax(-1)
    mixed = (weights @ heads[2]).transpose(1, 2).flatten(2)
    return F.linear(mixed, attention.out_proj.weight, attention.out_proj.bias)


def test_saved_loaded_exported_and_compiled(tmp_path) -> None:
    model = encoder_vit()
    set_origin(model, f"{__name__}:encoder_vit", {})
    vs.surgery.localize(vs.surgery.broadcast_context(model, example=SIZE), kernel=3, example=SIZE)
    assert [len(entry["places"]) for entry in vs.surgery.record(model)] == [1, 1]
    check_operated(model, IMAGES, tmp_path)


def test_layers_without_a_graft_keep_the_kernel() -> None:
    model = NORM_FIRST.model()
    vs.surgery.broadcast_context(model, layers=[1], example=SIZE)
    assert calls_of_linear(model) == 2  # of one layer in three


def test_padded_tokens_do_not_come_as_nested_tensors() -> None:
    """A graft that takes the mean of all tokens, in an encoder that would nest those that are no padding."""

    class AddMean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x.mean(1, keepdim=True)

    encoder = NORM_LAST.model().encoder
    assert encoder.use_nested_tensor
    tokens, padding = torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    path = graft(encoder, "layers.1.linear2", AddMean(), "add_mean", "output")
    twin = copy.deepcopy(encoder)
    wanted = encoder(tokens, src_key_padding_mask=padding).detach()
    for one in (encoder, twin):
        with torch.no_grad():
            torch.testing.assert_close(one(tokens, src_key_padding_mask=padding), wanted)
    ungraft(encoder, path)
    assert encoder.use_nested_tensor
    assert not hasattr(encoder, "vitscope_used_nested_tensor")
