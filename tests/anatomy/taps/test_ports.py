"""Ports: where a step can be put into a model. What stands at a port is checked against the tensors a tap sees."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from tests.cases import AT_32, HAND_MADE, HUGGING_FACE, TORCHVISION, Case
from vitscope.anatomy import Tap, dissect
from vitscope.anatomy.structure.dissect import Dissection
from vitscope.anatomy.taps.ports import Port, block_call, branch_port, port_at, silencing_port
from vitscope.core.errors import UnsupportedModel

CASES = [case for case in (*AT_32, *TORCHVISION, *HUGGING_FACE, HAND_MADE) if case.size[-1] <= 64]


@dataclass(frozen=True)
class Dissected:
    """A model, its dissection and two images; no test changes any of them."""

    model: nn.Module
    body: Dissection
    images: Tensor


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def dissected(request: pytest.FixtureRequest) -> Dissected:
    case: Case = request.param
    model = case.model()
    return Dissected(model, dissect(model, case.size), case.images(2))


def tensors_at(model: nn.Module, port: Port, images: Tensor) -> list[Tensor]:
    """What passes a port in one pass."""
    seen: list[Tensor] = []
    module = model.get_submodule(port.module)
    if port.side == "input":
        handle = module.register_forward_pre_hook(
            lambda _, args, kwargs: seen.append(
                args[port.slots[0]] if isinstance(port.slots[0], int) else kwargs[port.slots[0]]
            ),
            with_kwargs=True,
        )
    else:
        handle = module.register_forward_hook(
            lambda *call: seen.append(call[-1] if isinstance(call[-1], Tensor) else call[-1][port.slots[0]])
        )
    with torch.no_grad():
        model(images)
    handle.remove()
    return seen


def test_what_stands_at_the_silencing_port_is_what_is_added(dissected: Dissected) -> None:
    """If zero stands there, the stream after the unit is the stream before it."""
    model, body = dissected.model, dissected.body
    units = [unit for unit in body.parts if unit.removable and "#" not in unit.name]
    for unit in {unit.kind: unit for unit in units}.values():
        try:
            port = silencing_port(body, unit)
        except UnsupportedModel as refusal:
            assert "nn.Module" in str(refusal) or "own copy" in str(refusal)  # noqa: PT017
            continue
        handle = model.get_submodule(port.module).register_forward_hook(
            lambda _module, _args, output: (
                output * 0 if isinstance(output, Tensor) else (output[0] * 0, *output[1:])
            )
        )
        with torch.no_grad(), Tap(model, body.parts, [unit], streams=True) as tap:
            model(dissected.images)
        handle.remove()
        before, branch, after = tap.streams[unit.name]
        assert not branch.any()
        assert torch.equal(before, after)


@pytest.mark.parametrize("place", ["front", "mid", "end"])
def test_ports_say_how_their_tensor_is_laid_out(dissected: Dissected, place: str) -> None:
    body = dissected.body
    found = 0
    for unit in {unit.kind: unit for unit in body.parts if unit.residual}.values():
        try:
            port = branch_port(body, unit, place)
        except UnsupportedModel:
            continue
        seen = tensors_at(dissected.model, port, dissected.images)
        assert [tuple(t.shape) for t in seen] == [port.shape]
        assert port.shape[port.batch_axis] == 2 * port.parts_per_image
        if place == "end" and unit.map_shape:
            assert port.channels == unit.map_shape[0]
        found += 1
    assert found


def test_the_end_of_an_mlp_is_the_output_of_the_mlp() -> None:
    body = dissect(next(case for case in AT_32 if case.name == "vit_tiny/2").model(), (3, 32, 32))
    mlp = body.parts["blocks.3.mlp"]
    places = {place: branch_port(body, mlp, place) for place in ("front", "mid", "end")}
    assert (places["front"].module, places["front"].side) == ("blocks.3.mlp", "input")
    assert (places["mid"].module, places["mid"].side, places["mid"].channels) == (
        "blocks.3.mlp.fc2",
        "input",
        768,
    )
    assert (places["end"].module, places["end"].side, places["end"].channels) == (
        "blocks.3.mlp",
        "output",
        192,
    )
    assert block_call(body, mlp).path == "blocks.3"


def test_an_image_in_windows_is_put_together_before_the_end() -> None:
    body = dissect(next(case for case in AT_32 if case.name == "swin_tiny/1").model(), (3, 32, 32))
    first = branch_port(body, body.parts["layers.0.blocks.0.attn"], "end")
    assert first.parts_per_image == 1
    assert first.view is not None
    assert first.view.shape[1:] == (32, 32)


def test_the_block_of_a_convolution_holds_its_addition() -> None:
    body = dissect(next(case for case in TORCHVISION if case.name == "tv:resnet18").model(), (3, 64, 64))
    for unit in body.parts.of_kind("conv"):
        call = block_call(body, unit)
        assert call.path == unit.module
        assert list(call.inputs) == [0]
    handed_on = port_at(body, block_call(body, body.parts["layer2.1"]).outputs[0])
    assert handed_on is not None
    assert (handed_on.module, handed_on.side) == ("layer2.1", "output")


def test_a_model_without_modules_there_is_refused_with_the_remedy() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8, 3, 3) / 8)
            self.stem = nn.Conv2d(3, 8, 1)
            self.head = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x)
            for _ in range(2):
                x = x + nn.functional.conv2d(x.relu(), self.weight, padding=1)
            return self.head(x.mean((2, 3)))

    body = dissect(Functional().eval(), (3, 8, 8))
    unit = body.parts.of_kind("conv")[0]
    for look in (lambda: branch_port(body, unit, "end"), lambda: silencing_port(body, unit)):
        with pytest.raises(UnsupportedModel, match=r"give that step of the model an nn\.Module"):
            look()
    with pytest.raises(UnsupportedModel, match="no residual branch"):
        branch_port(body, body.parts[0], "end")


class Pooled(nn.Module):
    """Gives its tokens and reads them itself."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.pooler = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(x)
        return x, self.pooler(x[:, 0])


class PooledModel(nn.Module):
    """A head on what a pooler made of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.head = nn.Conv2d(3, 6, 4, stride=4), Pooled(), nn.Linear(6, 2)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        return self.head(self.body(tokens)[1])


def test_a_module_that_reads_what_it_gives_is_no_port_for_it() -> None:
    """At its output a step would come too late for the pooler."""
    body = dissect(PooledModel(), (3, 16, 16))
    norm = next(call for call in body.graph.calls if call.path == "body.norm")
    port = port_at(body, norm.outputs[0])
    assert port is not None
    assert (port.module, port.side) == ("body.norm", "output")


def test_outputs_by_position_go_before_outputs_by_name() -> None:
    """A Hugging Face model gives a tuple in the place of names if it is asked to."""
    case = next(case for case in HUGGING_FACE if case.name == "hf:vit-sdpa")
    body = dissect(case.model(), case.size)
    norm = next(call for call in body.graph.calls if call.path == "vit.layernorm")
    port = port_at(body, norm.outputs[0])
    assert port is not None
    assert (port.module, port.slots) == ("vit.layernorm", (0,))
