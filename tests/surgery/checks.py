"""What must hold for every model that was operated on."""

import copy
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import vitscope as vs
from tests.registry import randomise_zeros
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.one_forward import main_output
from vitscope.models import origin, save_model
from vitscope.models.origin import set_origin
from vitscope.surgery.tools.graft import grafts


def short(name: str, **arguments: Any) -> nn.Module:
    """One of the minis of fewer blocks, no parameter of which is all zeros: quick to export and to compile."""
    torch.manual_seed(0)
    model = vs.create_model(name, **arguments).eval()
    randomise_zeros(model)
    return model


def outputs(model: nn.Module, images: Tensor) -> list[Tensor]:
    """What the model says in evaluation mode."""
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            return [t.clone() for t in main_output(model(images))]
    finally:
        model.train(was)


def assert_equal(seen: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(seen) == len(wanted) > 0
    for a, b in zip(seen, wanted, strict=True):
        assert a.shape == b.shape
        assert torch.equal(a, b), f"differs by {(a - b).abs().max():.3g}"


def assert_close(seen: list[Tensor], wanted: list[Tensor], tolerance: float = 1e-5) -> None:
    assert len(seen) == len(wanted) > 0
    for a, b in zip(seen, wanted, strict=True):
        assert (a - b).abs().max() <= tolerance * b.abs().max().clamp(min=1.0)


def check_operated(model: nn.Module, images: Tensor, tmp_path: Path, *, graph: bool = True) -> None:
    """What was put in acts; backward, save and load, deep copy; with `graph` also export and compile.

    Args:
        model: Operated on, made by `vs.create_model` (else saving is checked up to the refusal to build it by name).
        images: A batch it takes.
        tmp_path: Where the run folder goes.
        graph: Export and compile it too (some seconds).
    """
    said = outputs(model, images)
    assert all(t.isfinite().all() for t in said)
    check_acts(model, images)
    check_backward(model, images)
    assert_equal(outputs(copy.deepcopy(model), images), said)
    check_saved(model, images, tmp_path)
    if graph:
        check_graph(model, images)


def check_acts(model: nn.Module, images: Tensor, tolerance: float = 1e-4) -> None:
    """In evaluation every graft is called as often as the module it is grafted to, and passes without gradients, in
    inference mode and with gradients say the same: no kernel passes it by, no loop over children runs it again."""
    was = model.training
    model.eval()
    # counted where the modules are called: hooks would keep fused kernels away
    seen: Counter[nn.Module] = Counter()
    watched = [module for path, child in grafts(model) for module in (child, _host(model, path))]
    for module in dict.fromkeys(watched):
        module.forward = _counting(module, seen)
    said, calls = [], []
    try:
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            seen.clear()
            with preserved(model), mode():
                said.append([t.detach().clone() for t in main_output(model(images.clone()))])
            calls.append({path: (seen[child], seen[_host(model, path)]) for path, child in grafts(model)})
    finally:
        for module in dict.fromkeys(watched):
            del module.forward
        model.train(was)
    for mode in calls:
        assert all(of_graft == of_host > 0 for of_graft, of_host in mode.values()), mode
    for other in said[1:]:
        assert_close(other, said[0], tolerance)


def _host(model: nn.Module, path: str) -> nn.Module:
    return model.get_submodule(path.rpartition(".")[0])


def _counting(module: nn.Module, seen: Counter[nn.Module]) -> Callable[..., Any]:
    run = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        seen[module] += 1
        return run(*args, **kwargs)

    return forward


def check_backward(model: nn.Module, images: Tensor) -> None:
    """Every parameter that surgery put in gets a finite gradient, in training mode."""
    training, state = model.training, copy.deepcopy(model.state_dict())
    model.train().zero_grad()
    loss = sum(t.float().pow(2).mean() + t.float().sum() for t in main_output(model(images)))
    loss.backward()
    new = [path for entry in vs.surgery.record(model) for path in entry["places"]]
    grown = {n: p for n, p in model.named_parameters() if any(n.startswith(f"{path}.") for path in new)}
    for name, parameter in grown.items():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())
    model.zero_grad()
    model.train(training).load_state_dict(state)  # batch norm has moved


def check_saved(model: nn.Module, images: Tensor, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    assert origin(model) is not None, "make the model with vs.create_model, or set_origin"
    said = outputs(model, images)
    save_model(model, folder, classes=[str(i) for i in range(said[0].shape[-1])])
    again = vs.create_model(folder, trust_code=True)
    assert_equal(outputs(again, images), said)
    assert vs.surgery.record(again) == vs.surgery.record(model)
    assert list(again.state_dict()) == list(model.state_dict())


def check_graph(model: nn.Module, images: Tensor) -> None:
    was = model.training
    model.eval()
    said = outputs(model, images)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, (images,))
            assert_close(main_output(program.module()(images)), said)
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            assert_close(main_output(compiled(images)), said)
    finally:
        torch._dynamo.reset()
        model.train(was)


__all__ = [
    "assert_close",
    "assert_equal",
    "check_acts",
    "check_backward",
    "check_graph",
    "check_operated",
    "check_saved",
    "outputs",
    "set_origin",
    "short",
]
