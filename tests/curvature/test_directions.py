import numpy as np
import pytest
import torch

from tests.curvature.networks import batch, conv_net, dense_hessian, largest, small_vit
from vitscope.core.errors import VitscopeError
from vitscope.curvature.directions import (
    coordinates,
    eigen_directions,
    flat,
    principal_directions,
    random_directions,
    shaped,
)
from vitscope.curvature.filter_parameters import Moved, moved_parameters
from vitscope.curvature.penalty import Penalty


@pytest.fixture(scope="module")
def moved() -> list[Moved]:
    return moved_parameters(conv_net(), (3, 8, 8))


def test_every_filter_has_the_norm_of_the_weights(moved: list[Moved]) -> None:
    for direction in random_directions(moved):
        for m, d in zip(moved, direction, strict=True):
            own, drawn = (t.detach().numpy().reshape(len(t), -1) for t in (m.parameter, d))
            np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), np.linalg.norm(own, axis=1), rtol=1e-12)
            aligned = (own * drawn).sum(1) / (own**2).sum(1)
            assert np.abs(aligned).max() < 0.9  # a direction of its own


def test_a_filter_of_zeros_is_not_moved() -> None:
    model = conv_net()
    with torch.no_grad():
        model[8].weight[1] = 0.0
    head = random_directions(moved_parameters(model, (3, 8, 8)))[0][-1]
    assert head[1].abs().max() == 0.0
    assert head[0].abs().min() > 0.0


def test_the_published_form_is_over_the_first_axis(moved: list[Moved]) -> None:
    plain = torch.Generator().manual_seed(5)
    for direction in random_directions(moved, seed=5, normalisation="dim0"):
        for m, d in zip(moved, direction, strict=True):
            w = m.parameter.detach().numpy()
            drawn = torch.randn(m.parameter.shape, generator=plain).double().numpy()
            ratio = np.sqrt((w**2).sum(0, keepdims=True)) / np.sqrt((drawn**2).sum(0, keepdims=True))
            np.testing.assert_allclose(d.numpy(), ratio * drawn, rtol=1e-9)
    with pytest.raises(VitscopeError, match="normalisation is 'none'; expected filter or dim0"):
        random_directions(moved, normalisation="none")  # type: ignore[arg-type]


def test_the_draw_depends_on_the_seed_alone(moved: list[Moved]) -> None:
    single = conv_net().float().to(memory_format=torch.channels_last)
    again = random_directions(moved_parameters(single, (3, 8, 8)), seed=3)
    for one, other in zip(random_directions(moved, seed=3), again, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a.float(), b, rtol=1e-5, atol=1e-6)
    assert again[0][0].is_contiguous(memory_format=torch.channels_last)
    assert not torch.equal(random_directions(moved, seed=4)[0][0], random_directions(moved, seed=3)[0][0])


def test_principal_directions_are_right_singular_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([3.0, 2.0, 1.0, 0.5]).double()[:, None]
    rows = scale * torch.randn(4, 50, generator=generator, dtype=torch.float64)
    like = [torch.zeros(4, 5).double(), torch.zeros(30).double()]
    found = principal_directions([shaped(row, like) for row in rows])
    _, singular, right = np.linalg.svd(rows.numpy(), full_matrices=False)
    for place, direction in enumerate(found.directions):
        vector = flat(direction).numpy()
        expected = right[place] * np.sign(right[place] @ rows[0].numpy())
        np.testing.assert_allclose(vector, expected, atol=1e-10)
        assert found.explained[place] == pytest.approx(singular[place] ** 2 / (singular**2).sum())


def test_the_plane_of_two_others_goes_through_both() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [[torch.randn(6, 4, generator=generator), torch.randn(5, generator=generator)] for _ in range(2)]
    plane = principal_directions(rows)
    assert sum(plane.explained) == pytest.approx(1.0)
    for row in rows:
        place, off = coordinates(row, plane.directions)
        assert off < 1e-5
        back = sum(c * flat(d) for c, d in zip(place, plane.directions, strict=True))
        torch.testing.assert_close(back, flat(row), rtol=1e-4, atol=1e-5)


def test_coordinates_along_oblique_directions_are_those_of_least_squares() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, other = torch.randn(3, 20, generator=generator, dtype=torch.float64)
    place, off = coordinates([other], [[a], [a + 0.3 * b]])
    basis = np.stack([a.numpy(), (a + 0.3 * b).numpy()], axis=1)
    expected, residual, *_ = np.linalg.lstsq(basis, other.numpy(), rcond=None)
    np.testing.assert_allclose(place, expected, rtol=1e-9)
    assert off == pytest.approx(float(np.sqrt(residual[0])) / float(other.norm()))
    assert coordinates([torch.zeros(20).double()], [[a], [b]]) == ((0.0, 0.0), 0.0)


def test_what_spans_no_plane_is_refused() -> None:
    one = [torch.ones(3)]
    with pytest.raises(VitscopeError, match="needs two other models beside the centre, there are 1"):
        principal_directions([one])
    with pytest.raises(VitscopeError, match="the 2 models lie on one line through the centre"):
        principal_directions([one, [2.0 * one[0]]])


def test_eigenvectors_are_those_of_the_dense_hessian_over_what_is_moved() -> None:
    model, (images, targets) = small_vit(), batch()
    moved = moved_parameters(model, (3, 8, 8))
    directions, found = eigen_directions(model, images, targets, moved, Penalty(0.1, decay_all=True))
    dense = dense_hessian(model, images, targets, {m.name: m.parameter for m in moved})
    dense += 0.1 * np.eye(len(dense))
    np.testing.assert_allclose(found.values, largest(dense, 2), rtol=1e-3)
    for value, direction in zip(found.values, directions, strict=True):
        v = flat(direction).numpy()
        assert np.linalg.norm(v) == pytest.approx(1.0)
        assert np.linalg.norm(dense @ v - value * v) <= 0.02 * abs(value)
