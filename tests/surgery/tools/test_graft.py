"""Grafts: put in, called, copied, taken out, and past torch's fused encoder path."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

import vitscope as vs
from tests.cases import NORM_FIRST, NORM_LAST, EncoderViT
from tests.surgery.checks import assert_equal, check_acts, check_graph, check_operated, outputs, set_origin
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.graft import Grafted, graft, grafts, ungraft


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Twice(nn.Module):
    """Runs what it is around twice and adds up."""

    def forward(self, run, *args, **kwargs):
        return run(*args, **kwargs) + run(*args, **kwargs)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def test_each_place_does_what_it_says() -> None:
    model, x = net(), torch.randn(2, 4)
    first, last = copy.deepcopy(model[0]), copy.deepcopy(model[2])
    graft(model, "0", Scale(2.0), "scale", "input")
    graft(model, "2", Scale(3.0), "scale", "output")
    graft(model, "2", Twice(), "twice", "around")
    assert torch.equal(model(x), 3.0 * (2 * last(first(2.0 * x).relu())))
    assert set(model.state_dict()) - set(net().state_dict()) == {"0.scale.factor", "2.scale.factor"}


def test_a_graft_leaves_no_trace() -> None:
    model, x = net(), torch.randn(2, 4)
    said = model(x)
    classes = [type(m) for m in model.modules()]
    paths = [graft(model, "0", Scale(2.0), "scale", side) for side in ("input", "output")]
    assert paths == ["0.scale", "0.scale_2"]
    assert isinstance(model[0], nn.Linear)
    assert [path for path, _ in grafts(model)] == paths
    for path in paths:
        ungraft(model, path)
    assert torch.equal(model(x), said)
    assert [type(m) for m in model.modules()] == classes
    assert not hasattr(model[0], "vitscope_grafts")
    with pytest.raises(VitscopeError, match="no graft"):
        ungraft(model, "0.scale")


def test_keywords_tuples_and_shared_arguments() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    model = nn.ModuleDict({"attention": attention})
    x = torch.randn(2, 3, 4)
    wanted = attention(2 * x, 2 * x, 2 * x, need_weights=False)[0]
    graft(model, "attention", Scale(2.0), "scale", "input", (0, 1, "value"))
    graft(model, "attention", Scale(5.0), "grow", "output", (0,))
    seen, weights = model["attention"](x, x, value=x, need_weights=False)
    assert weights is None
    assert torch.allclose(seen, 5 * wanted, atol=1e-6)
    graft(model, "attention", Scale(1.0), "late", "input", ("bias",))
    with pytest.raises(VitscopeError, match="argument"):
        model["attention"](x, x, x)


class Loop(nn.Module):
    """Runs through its children, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way, self.first, self.second = way, nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        ways = {
            "children": lambda: list(self.children()),
            "named_children": lambda: [child for _, child in self.named_children()],
            "_modules": lambda: list(self._modules.values()),
            "modules": lambda: [module for module in self.modules() if module is not self],
        }
        for module in ways[self.way]():
            x = module(x).relu()
        return x


class Again(Loop):
    """Calls itself once more from inside."""

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "again":
            self.way = "children"
            x = self(x)
            self.way = "again"
        return super().forward(x) if self.way != "again" else x


@pytest.mark.parametrize("way", ["children", "named_children", "_modules", "modules", "Sequential"])
def test_a_loop_over_children_runs_no_graft(way: str) -> None:
    host = net() if way == "Sequential" else Loop(way)
    model, x = nn.ModuleDict({"host": host}).eval(), torch.randn(2, 4)
    wanted, keys = 3 * host(2 * x), [name for name, _ in model.named_parameters()]
    graft(model, "host", Scale(2.0), "before", "input")
    path = graft(model, "host", Scale(3.0), "after", "output")
    for twin in (model, copy.deepcopy(model)):
        assert torch.equal(twin["host"](x), wanted)
    # everywhere else the graft is a child like any other
    assert [name for name, _ in model.named_parameters()] == [
        *keys,
        "host.before.factor",
        "host.after.factor",
    ]
    assert list(model.state_dict()) == [*keys, "host.before.factor", "host.after.factor"]
    assert len(list(host.children())) == len(list(host.named_children())) == len(host._modules)
    assert model.double()["host"].after.factor.dtype is torch.float64
    assert model.train()["host"].after.training
    check_graph(nn.Sequential(model.float()["host"]), x)
    ungraft(model, path)
    assert torch.allclose(host(x), wanted / 3)


def test_grafts_are_children_again_after_an_error_and_inside_a_nested_call() -> None:
    host = Loop("children")
    graft(host, "", Scale(1.0), "scale", "input")
    with pytest.raises(RuntimeError):
        host(torch.randn(2, 5))
    assert len(list(host.children())) == 3
    nested = Again("again")
    wanted = nested(torch.ones(2, 4))
    graft(nested, "", Scale(1.0), "scale", "output")
    assert torch.equal(nested(torch.ones(2, 4)), wanted)
    assert len(list(nested.children())) == 3


def test_threads_do_not_show_each_other_their_grafts() -> None:
    host, x = Loop("children"), torch.randn(64, 4)
    wanted = 2 * host(x)
    graft(host, "", Scale(2.0), "scale", "output")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: host(x), range(64)):
            assert torch.equal(found, wanted)
    assert len(list(host.children())) == 3


def test_a_tensor_given_twice_is_worked_on_once() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x, x + 1, x

    class Draw(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    model = nn.ModuleDict({"pair": Pair()})
    graft(model, "pair", Draw(), "draw", "output", (0, 2))
    first, second, third = model["pair"](torch.zeros(3))
    assert torch.equal(first, third)
    assert torch.equal(second, torch.ones(3))


def test_precision_device_and_mode_follow_the_module() -> None:
    model = net().double().train()
    graft(model, "0", Scale(2.0), "scale", "output")
    child = model[0].get_submodule("scale")
    assert child.factor.dtype is torch.float64
    assert child.training


def test_a_grafted_model_copies_exports_and_compiles() -> None:
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2).eval()
    graft(model, "blocks.0.mlp", Scale(2.0), "scale", "output")
    graft(model, "blocks.1.attn", Twice(), "twice", "around")
    images = torch.randn(2, 3, 32, 32)
    said = outputs(model, images)
    twin = copy.deepcopy(model)
    assert isinstance(twin.blocks[0].mlp, Grafted)
    assert torch.equal(outputs(twin, images)[0], said[0])
    twin.blocks[0].mlp.get_submodule("scale").factor.data.fill_(0.0)
    assert torch.equal(outputs(model, images)[0], said[0])
    check_graph(model, images)


def test_anatomy_reads_a_grafted_model_as_before() -> None:
    model = vs.create_model("vit_mini")
    names = [unit.name for unit in vs.anatomy(model)]
    graft(model, "blocks.0.mlp", Scale(2.0), "scale", "output")
    assert [unit.name for unit in vs.anatomy(model)] == names


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
