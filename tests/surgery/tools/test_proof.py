"""An operation proves that it acts, and is taken back whole if it does not."""

import copy
from collections.abc import Callable

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.surgery.checks import assert_equal, outputs
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.proof import Snapshot
from vitscope.surgery.tools.record import OPERATIONS, CannotOperate, Done, operation, record

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class Net(nn.Module):
    """Calls its inner convolution as `call` says."""

    def __init__(self, call: Callable[["Net", Tensor], Tensor] = lambda net, x: net.inner(x)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.inner = nn.Conv2d(3, 4, 4, stride=4), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head, self.call = nn.BatchNorm2d(4), nn.Linear(4, 5), call

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.call(self, self.stem(x))).mean((2, 3)))


def raw_weights(net: Net, x: Tensor) -> Tensor:
    return F.conv2d(x, net.inner.weight, net.inner.bias, padding=1)


def fused(net: Net, x: Tensor) -> Tensor:
    """On the weights alone where no gradient is wanted, as PyTorch's encoder layers do."""
    return net.inner(x) if torch.is_grad_enabled() else raw_weights(net, x)


def run_through(net: Net, x: Tensor) -> Tensor:
    x = net.inner(x)
    for module in net.inner.__dict__["_modules"].values():  # past all that hides a graft
        x = module(x)
    return x


@pytest.fixture
def double():
    """An operation that doubles what the inner convolution gives."""

    @operation
    def double_inner(model: nn.Module, how: str = "graft", example: object = (3, 32, 32)) -> Done:
        if how == "graft":
            return Done({}, ["inner"], [graft(model, "inner", Double(), "doubling", "output")])
        model.set_submodule("inner", nn.Sequential(model.inner, Double()))
        if how == "fails":
            raise CannotOperate("half of it is done")
        return Done({}, ["inner"])

    yield double_inner
    del OPERATIONS["double_inner"]


def assert_as_before(model: nn.Module, before: nn.Module) -> None:
    assert [type(m) for m in model.modules()] == [type(m) for m in before.modules()]
    assert list(model.state_dict()) == list(before.state_dict())
    for a, b in zip(model.state_dict().values(), before.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert_equal(outputs(model, IMAGES), outputs(before, IMAGES))
    assert record(model) == []
    assert not hasattr(model, "vitscope_surgery")


@pytest.mark.parametrize(
    ("call", "how_often"), [(raw_weights, "never"), (fused, "never"), (run_through, "twice")]
)
def test_what_does_not_act_once_is_refused(double, call, how_often: str) -> None:
    model = Net(call)
    before = copy.deepcopy(model)
    reason = f"without gradients 'inner.doubling' is called {how_often}, its place in the model once"
    with pytest.raises(CannotOperate, match=reason):
        double(model)
    assert_as_before(model, before)


def test_what_does_not_run_is_refused(double) -> None:
    model = Net(raw_weights)
    with pytest.raises(
        CannotOperate, match=r"does not run without gradients after it .*no attribute 'weight'"
    ):
        double(model, "replace")
    assert_as_before(model, Net(raw_weights))


def test_a_replaced_module_that_is_passed_by_is_refused(double) -> None:
    def keeps(net: Net, x: Tensor) -> Tensor:
        return kept(x) if not torch.is_grad_enabled() else net.inner(x)

    model = Net(keeps)
    kept = model.inner
    with pytest.raises(CannotOperate, match="in a pass without gradients 'inner' is called never"):
        double(model, "replace")
    assert model.inner is kept


def test_passes_that_disagree_are_refused(double) -> None:
    class Fickle(Double):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x if torch.is_grad_enabled() else x

    @operation
    def fickle(model: nn.Module, example: object = None) -> Done:
        return Done({}, ["inner"], [graft(model, "inner", Fickle(), "fickle", "output")])

    try:
        model = Net()
        with pytest.raises(CannotOperate, match="do not give the same output"):
            fickle(model, example=(3, 32, 32))
        assert_as_before(model, Net())
    finally:
        del OPERATIONS["fickle"]


def test_an_error_half_way_leaves_nothing(double) -> None:
    model = Net()
    with pytest.raises(CannotOperate, match="half of it is done"):
        double(model, "fails")
    assert_as_before(model, Net())


@pytest.mark.parametrize("how", ["graft", "replace"])
def test_what_acts_is_kept_and_the_rest_is_as_it_was(double, how: str) -> None:
    model, before = Net(), Net()
    model.stem.weight.requires_grad_(False)
    model.head.weight.grad = torch.ones(5, 4)
    model.norm.eval()
    modes = {name: module.training for name, module in model.named_modules()}
    state = torch.get_rng_state()
    assert double(model, how) is model
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: m.training for name, m in model.named_modules() if name in modes} == modes
    assert torch.equal(model.head.weight.grad, torch.ones(5, 4))
    assert [p.requires_grad for p in model.stem.parameters()] == [False, True]
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(model.norm, name), getattr(before.norm, name))
    assert len(record(model)) == 1
    assert not model.inner._forward_hooks


@pytest.mark.parametrize(
    "prepare",
    [
        lambda model: model.requires_grad_(False),
        lambda model: model.to("meta"),
        lambda model: model.half(),
        lambda model: model.double(),
    ],
    ids=["frozen", "meta", "half", "double"],
)
def test_models_of_every_kind_can_be_proved(double, prepare) -> None:
    double(prepare(Net()))
    model = prepare(Net(fused))
    with pytest.raises(CannotOperate, match="is called never"):
        double(model)


def test_randomness_of_the_model_is_no_reason_to_refuse(double) -> None:
    """Neither what a seed decides nor what it does not."""
    generator = torch.Generator()
    double(Net(lambda net, x: F.dropout(net.inner(x), 0.5)))
    double(Net(lambda net, x: net.inner(x) * torch.rand((), generator=generator)))


def test_a_model_that_never_ran_with_gradients(double) -> None:
    def only_without(net: Net, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("no gradients here")
        return net.inner(x)

    double(Net(only_without))


def test_everything_that_an_operation_can_do_is_taken_back() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=4).eval()
    handle = model.fc.register_forward_pre_hook(lambda module, args: None)
    said, keys = outputs(model, IMAGES), list(model.state_dict())
    weights = {name: id(parameter) for name, parameter in model.named_parameters()}
    classes = [type(module) for module in model.modules()]
    before = Snapshot(model)
    assert model.layer1 in before
    graft(model, "layer2", nn.Sigmoid(), "sigmoid", "input")
    graft(model, "", nn.Sigmoid(), "sigmoid", "output")
    model.set_submodule("layer1.0", nn.Identity())
    model.layer4.append(nn.ReLU())
    model.fc.weight = nn.Parameter(torch.zeros(4, 512))
    model.note = "something"
    model.pretrained_cfg["note"] = "something"
    model.fc.register_forward_hook(lambda module, args, output: output + 1)
    assert nn.Identity() not in before
    before.restore()
    assert [type(module) for module in model.modules()] == classes
    assert {name: id(parameter) for name, parameter in model.named_parameters()} == weights
    assert list(model.state_dict()) == keys
    assert not hasattr(model, "note")
    assert "note" not in model.pretrained_cfg
    assert_equal(outputs(model, IMAGES), said)
    handle.remove()
    assert not model.fc._forward_pre_hooks
    assert not model.fc._forward_hooks
