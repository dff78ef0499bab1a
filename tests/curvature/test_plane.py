import pytest
import torch
from torch import nn

from vitscope.curvature.plane import Plane


def directions(tensors: list[torch.Tensor], count: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [[torch.randn(t.shape, generator=generator) for t in tensors] for _ in range(count)]


def test_places_are_sums_and_do_not_depend_on_the_way() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    tensors = list(model.parameters())
    own = [t.detach().clone() for t in tensors]
    a, b = directions(tensors, 2)
    with Plane(tensors, [a, b]) as plane:
        plane.move(0.25, -0.75)
        direct = [t.detach().clone() for t in tensors]
        for t, w, x, y in zip(direct, own, a, b, strict=True):
            expected = w.double() + 0.25 * x.double() - 0.75 * y.double()
            torch.testing.assert_close(t.double(), expected, rtol=0, atol=1e-6)
        for place in ((1e4, 3.0), (-7.0,), (0.25, -0.75)):
            plane.move(*place)
        assert all(torch.equal(t, d) for t, d in zip(tensors, direct, strict=True))
        plane.move()
        assert all(torch.equal(t, w) for t, w in zip(tensors, own, strict=True))


def test_the_model_gets_its_own_tensors_back_also_after_an_interruption() -> None:
    model = nn.Linear(3, 4)
    tensors = list(model.parameters())
    places, own = [t.data_ptr() for t in tensors], [t.detach().clone() for t in tensors]

    def interrupted() -> None:
        with Plane(tensors, directions(tensors, 1)) as plane:
            plane.move(3.0)
            assert not torch.equal(model.weight, own[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [t.data_ptr() for t in tensors] == places
    assert all(torch.equal(t, w) for t, w in zip(tensors, own, strict=True))
