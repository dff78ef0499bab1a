"""What must hold for every mapped model, whatever it is."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap
from vitscope.anatomy.watch.one_forward import main_output

TOLERANCE = 1e-5


def check_all(model: nn.Module, parts: Anatomy, images: Tensor) -> None:
    """Raise AssertionError, saying which unit breaks what, unless every invariant holds."""
    check_stages(parts)
    with torch.no_grad():
        plain = main_output(model(images))[0]
        check_streams(model, parts, images, plain)
        check_last_map(model, parts, images, plain)
        check_attention(model, parts, images)


def check_stages(parts: Anatomy) -> None:
    """Stages change exactly where the resolution does."""
    mapped = parts.mapped
    assert mapped, "no unit has a map"
    for before, after in pairwise(mapped):
        same_grid = before.map_shape[1:] == after.map_shape[1:]
        assert (before.stage == after.stage) == same_grid, f"stage at {after.name}: {before} {after}"


def check_streams(model: nn.Module, parts: Anatomy, images: Tensor, plain: Tensor) -> None:
    """After = before + branch; units are met in order; tapping changes nothing; maps have the promised shape."""
    met = []

    def on_feature(unit, feature):
        met.append(unit.name)
        assert tuple(feature.shape) == (len(images), *unit.map_shape), unit.name

    with Tap(model, parts, streams=True, on_feature=on_feature) as tap:
        tapped = main_output(model(images))[0]
    assert relative_error(tapped, plain) <= TOLERANCE, "tapping changed the output"
    assert met == [unit.name for unit in parts.mapped], "units are not in execution order"
    for unit in parts:
        if unit.residual:
            before, branch, after = tap.streams[unit.name]
            assert relative_error(before.double() + branch.double(), after) <= TOLERANCE, unit.name


def check_last_map(model: nn.Module, parts: Anatomy, images: Tensor, plain: Tensor) -> None:
    """The last map, written back into the stream as it was read, is what the head receives; another one is
    not."""
    last = parts.mapped[-1]
    with Tap(model, parts, units=[last], features=True) as tap:
        model(images)
    feature = tap.features[last.name]

    def rebuilt(stream: Tensor) -> Tensor:
        emptied = last.view.write(stream, torch.full_like(feature, float("nan")))
        return last.view.write(emptied, feature)

    with Tap(model, parts, units=[], edit={last.name: rebuilt}):
        again = main_output(model(images))[0]
    assert relative_error(again, plain) <= TOLERANCE, (
        f"the map after {last.name} is not what the head receives"
    )


def check_attention(model: nn.Module, parts: Anatomy, images: Tensor) -> None:
    """Weights x values is what every MSA put out, and through the module's own projection it gives the
    module's output."""
    attending = [unit for unit in parts if unit.attention is not None]
    if not attending:
        return
    own = module_outputs(model, attending, images)
    errors = {}

    def on_attention(unit, found):
        assert found.weights.dim() >= 4, f"{unit.name}: weights {tuple(found.weights.shape)}"
        assert found.weights.shape[-3] == unit.heads or len(unit.attention.sites) > 1, unit.name
        sums = found.probabilities.sum(-1)
        if unit.attention.pattern not in ("channel", "other"):
            assert torch.allclose(sums, torch.ones_like(sums), atol=1e-4), (
                f"{unit.name}: probabilities do not sum to one"
            )
        errors[unit.name] = relative_error(found.weights @ found.values, found.output)

    with Tap(model, parts, on_attention=on_attention, explicit_attention=True):
        explicit = module_outputs(model, attending, images)
    assert set(errors) == {unit.name for unit in attending}
    for name, error in errors.items():
        assert error <= TOLERANCE, f"{name}: weights x values is off by {error:.1e}"
    for path, output in own.items():
        error = relative_error(explicit[path], output)
        assert error <= TOLERANCE, f"{path}: explicit attention is off by {error:.1e}"


def module_outputs(model: nn.Module, units, images: Tensor) -> dict[str, Tensor]:
    """What the modules that own `units` put out, by ordinary hooks."""
    outputs: dict[str, Tensor] = {}
    paths = {unit.module for unit in units if unit.module}

    def keep(path):
        def hook(module, args, output):
            outputs[path] = main_output(output)[0].clone()

        return hook

    handles = [model.get_submodule(path).register_forward_hook(keep(path)) for path in paths]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """Largest difference, relative to the largest value."""
    difference = (found.detach().double() - wanted.detach().double()).abs().max()
    scale = wanted.detach().double().abs().max()
    return float(difference / scale) if scale > 0 else float(difference)
