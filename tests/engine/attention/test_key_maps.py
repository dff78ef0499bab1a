import numpy as np
import torch

from tests.exams.attention_by_hand import images, swin, swin_attention, vit, vit_attention, window_points
from vitscope.anatomy import AttentionMap, Tap, Unit, anatomy
from vitscope.engine.attention.key_maps import has_class_token, key_map
from vitscope.engine.attention.token_places import geometry
from vitscope.findings.maps import normalised


@torch.no_grad()
def taken(model: torch.nn.Module, batch: torch.Tensor) -> list[tuple[Unit, AttentionMap]]:
    parts = anatomy(model, (3, 32, 32))
    with Tap(model, parts, attention=True) as tap:
        model(batch)
    return [(parts[name], seen[0]) for name, seen in tap.attention.items()]


def test_the_class_token_looks_at_the_map() -> None:
    batch, _ = images(3)
    expected = [a[:, :, 0, 1:].reshape(3, 3, 4, 4) for a, _ in vit_attention(vit().double(), batch.double())]
    for (unit, seen), by_hand in zip(taken(vit(), batch), expected, strict=True):
        places = geometry(unit, seen)
        assert has_class_token(places)
        np.testing.assert_allclose(key_map(seen.weights, seen, places, 3), by_hand, rtol=1e-3, atol=1e-6)


def test_without_a_class_token_the_mean_query_does_and_windows_find_their_place() -> None:
    batch, _ = images(2)
    expected = swin_attention(swin().double(), batch.double())[1].numpy()  # shifted windows
    unit, seen = taken(swin(), batch)[1]
    places = geometry(unit, seen)
    assert not has_class_token(places)
    found = key_map(seen.weights, seen, places, 2).numpy()
    by_hand = np.zeros((2, 2, 64))
    for w, points in enumerate(window_points(8, 8, 4, 2).tolist()):
        for key, point in enumerate(points):
            by_hand[:, :, point] += expected[:, w, :, :, key].sum(2) / 64
    np.testing.assert_allclose(found.reshape(2, 2, 64), by_hand, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(found.sum((2, 3)), 1, rtol=1e-5)


def test_each_map_is_normalised_by_itself() -> None:
    maps = np.array([[[1.0, 2.0], [3.0, 5.0]], [[10.0, 20.0], [30.0, 50.0]], [[7.0, 7.0], [7.0, 7.0]]])
    found = normalised(maps)
    np.testing.assert_allclose(found[0], [[0, 0.25], [0.5, 1]])
    np.testing.assert_allclose(found[1], found[0])
    assert (found[2] == 0).all()
    np.testing.assert_array_equal(normalised(maps[:1])[0], found[0])  # whatever is shown beside it
