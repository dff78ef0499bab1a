from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.exams.landscape_cases import convolutional, images, linear, nudged, tiny_vit, write_run
from vitscope.core.errors import VitscopeError
from vitscope.exams.loss.landscape_line import landscape_line
from vitscope.findings.landscape_line import LandscapeLineResult
from vitscope.results import Result


def loss_of(model: nn.Module) -> float:
    pictures, labels = images()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(pictures), labels).item()


def other_one() -> nn.Module:
    """Other weights and other statistics of batch norms."""
    other = nudged(convolutional(), 0.3, 1).train()
    other(3.0 * images(32, seed=9)[0] - 1.0)
    return other.eval()


def between(t: float) -> nn.Module:
    model, first, second = convolutional(), convolutional().state_dict(), other_one().state_dict()
    model.load_state_dict(
        {k: (1 - t) * v + t * second[k] if v.is_floating_point() else v for k, v in first.items()}
    )
    return model


def test_the_ends_are_the_two_models_and_the_rest_lies_between_their_weights() -> None:
    found = landscape_line(convolutional(), other_one(), images(), points=5, recipe=None, weight_decay=0.1)
    assert found.nll.value[0] == pytest.approx(loss_of(convolutional()), rel=1e-10)
    assert found.nll.value[-1] == pytest.approx(loss_of(other_one()), rel=1e-10)
    for t, nll, l2 in zip(found.t, found.nll.value, found.l2, strict=True):
        model = between(float(t))
        assert nll == pytest.approx(loss_of(model), rel=1e-10)
        assert l2 == pytest.approx(0.05 * sum(p.square().sum().item() for p in model.parameters()), rel=1e-10)
    chord = np.linspace(found.nll.value[0], found.nll.value[-1], 5)
    np.testing.assert_allclose(found.excess.value, found.nll.value - chord, atol=1e-12)
    assert found.excess.value[[0, -1]] == pytest.approx([0.0, 0.0], abs=1e-12)
    steps = zip(convolutional().parameters(), other_one().parameters(), strict=True)
    distance = sum((a - b).square().sum().item() for a, b in steps) ** 0.5
    assert found.distance == pytest.approx(distance)


def test_the_barrier_is_the_largest_excess_with_its_interval(tmp_path: Path) -> None:
    found = landscape_line(convolutional(), other_one(), images(), points=5, recipe=None)
    summary = found.summary().set_index("quantity")
    top = int(np.argmax(found.excess.value))
    barrier = summary.loc["barrier", ["value", "low", "high", "t"]].tolist()
    assert barrier == [found.excess.value[top], found.excess.low[top], found.excess.high[top], found.t[top]]
    table = found.table()
    assert len(table) == len(summary) + 5 * 5
    found.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, LandscapeLineResult)
    assert loaded.table().equals(table)


def test_to_a_run_folder(tmp_path: Path) -> None:
    start, end = tiny_vit(), nudged(tiny_vit(), 0.2, 1)
    run = write_run(tmp_path / "second", {"init": (0.0, start), "last": (1.0, end)})
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(8, 3, 32, 32, generator=generator), torch.arange(8)
    found = landscape_line(start, run, data, points=2, recipe=None)
    assert found.other == "second"
    with torch.no_grad():
        expected = nn.functional.cross_entropy(end.eval()(data[0]), data[1]).item()
    assert found.nll.value[1] == pytest.approx(expected, rel=1e-5)


def test_another_structure_is_refused() -> None:
    with pytest.raises(VitscopeError, match=r"Sequential does not fit the model: '0\.weight' is missing"):
        landscape_line(convolutional(), linear(), images())
    with pytest.raises(VitscopeError, match="points is 1"):
        landscape_line(linear(), linear(), images(), points=1)
