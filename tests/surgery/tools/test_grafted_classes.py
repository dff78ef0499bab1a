"""Operations on modules whose classes torch has swapped, before or after: parametrised and sharded ones."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import vitscope as vs
from tests.cases import one_in
from tests.surgery.checks import assert_close, assert_equal, outputs, short
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.graft import Grafted, graft, ungraft, with_mixin, without_mixin

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
NORMS = {"weight_norm": parametrizations.weight_norm, "spectral_norm": parametrizations.spectral_norm}
OPERATIONS = {
    "vit_mini": (
        "mc_dropout",
        "lesion blocks.1.mlp",
        "broadcast_context",
        "localize 3",
        "uniform_heads C",
        "extend mlp",
    ),
    "resnet_mini": ("mc_dropout", "lesion layer2.1", "smooth"),
}
SHAPES = {"vit_mini": {"depth": 2}, "resnet_mini": {"layers": (1, 2, 1, 1)}}
CASES = [(name, said) for name, several in OPERATIONS.items() for said in several]


def parametrise(model: nn.Module, norm: str) -> None:
    torch.manual_seed(0)
    for module in list(model.modules()):
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.any():  # zeros have no direction
            NORMS[norm](module)
    outputs(model, IMAGES)


def classes(model: nn.Module) -> list[list[str]]:
    return [[cls.__name__ for cls in type(module).__mro__] for module in model.modules()]


@pytest.mark.parametrize("norm", one_in(2, NORMS))
@pytest.mark.parametrize(("name", "said"), CASES)
def test_parametrised_before(name: str, said: str, norm: str) -> None:
    model = short(name, **SHAPES[name])
    parametrise(model, norm)
    wanted, were, keys = outputs(model, IMAGES), classes(model), list(model.state_dict())
    vs.operate(model, said)
    changed = outputs(model, IMAGES)
    assert_equal(outputs(copy.deepcopy(model), IMAGES), changed)
    vs.surgery.undo(model)
    assert_equal(outputs(model, IMAGES), wanted)
    assert (classes(model), list(model.state_dict())) == (were, keys)
    vs.operate(model, said)
    for module in list(model.modules()):
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    if vs.surgery.record(model)[0]["operation"] not in ("extend", "uniform_heads"):  # which draw new weights
        assert_close(outputs(model, IMAGES), changed)
    vs.surgery.undo(model)
    assert not any("Parametrized" in cls or "Grafted" in cls for mro in classes(model) for cls in mro)
    assert_close(outputs(model, IMAGES), wanted)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("name", "said"), CASES)
def test_parametrised_after(name: str, said: str, norm: str) -> None:
    model = short(name, **SHAPES[name])
    plain = copy.deepcopy(model)
    vs.operate(model, said)
    parametrise(model, norm)
    vs.surgery.undo(model)
    assert not any("Grafted" in cls for mro in classes(model) for cls in mro)
    there = [
        parametrize.is_parametrized(module) for module in model.modules() if isinstance(module, nn.Conv2d)
    ]
    assert there
    assert all(there)
    parametrise(plain, norm)
    plain.load_state_dict(model.state_dict())
    assert_equal(outputs(model, IMAGES), outputs(plain, IMAGES))


def test_a_refused_operation_leaves_a_parametrised_model_as_it_was() -> None:
    model = short("vit_mini", depth=2)
    parametrise(model, "weight_norm")
    vs.surgery.mc_dropout(model)
    wanted, were = outputs(model, IMAGES), classes(model)
    with pytest.raises(VitscopeError, match="no unit"):
        vs.operate(model, "localize 3", "broadcast_context", "lesion nowhere")
    assert_equal(outputs(model, IMAGES), wanted)
    assert classes(model) == were


def test_the_class_is_made_once_and_goes_from_below_others() -> None:
    made = with_mixin(nn.Linear, Grafted)
    assert with_mixin(nn.Linear, Grafted) is made
    assert without_mixin(made, Grafted) is nn.Linear
    above = type("Above", (made,), {"note": 3})
    assert [cls.__name__ for cls in without_mixin(above, Grafted).__mro__[:2]] == ["Above", "Linear"]
    assert without_mixin(above, Grafted).note == 3
    model = nn.Sequential(nn.Linear(2, 2))
    graft(model, "0", nn.ReLU(), "relu", "output")
    parametrizations.weight_norm(model[0])
    graft(model, "0", nn.ReLU(), "relu", "input")
    assert isinstance(model[0], Grafted)
    ungraft(model, "0.relu")
    assert isinstance(model[0], Grafted)
    ungraft(model, "0.relu_2")
    assert type(model[0]).__mro__[1] is nn.Linear
    assert parametrize.is_parametrized(model[0], "weight")


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    for module in list(model.modules()):
        if isinstance(module, nn.Linear | nn.Conv2d):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@pytest.mark.parametrize(
    "said", ["mc_dropout", "lesion blocks.1.mlp", "squeeze_excite", "temporal", "localize 3"]
)
def test_sharded_models_are_refused_whole(one_process, said: str) -> None:
    model = sharded(short("vit_mini", depth=2))
    wanted, were, keys = outputs(model, IMAGES), classes(model), list(model.state_dict())
    name = said.split()[0]
    arguments = {"lesion": ["blocks.1.mlp"]}.get(name, [])
    with pytest.raises(vs.surgery.CannotOperate, match=r"sharded.*before fully_shard"):
        vs.surgery.OPERATIONS[name](model, *arguments)
    assert (classes(model), list(model.state_dict())) == (were, keys)
    assert_equal(outputs(model, IMAGES), wanted)


@pytest.mark.parametrize("said", ["mc_dropout", "squeeze_excite", "localize 3"])
def test_what_was_sharded_after_an_operation_runs_and_is_not_half_undone(one_process, said: str) -> None:
    model = vs.operate("vit_mini", said).model
    wanted = outputs(model, IMAGES)
    sharded(model)
    assert_close(outputs(model, IMAGES), wanted)
    were = classes(model)
    with pytest.raises(vs.surgery.CannotOperate, match=r"sharded.*before fully_shard"):
        vs.surgery.undo(model)
    assert classes(model) == were
    assert_close(outputs(model, IMAGES), wanted)
