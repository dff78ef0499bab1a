import numpy as np
import timm
import torch

from tests.exams.attention_by_hand import images, swin, swin_attention, vit, vit_attention, window_points
from vitscope.anatomy import AttentionMap, Tap, Unit, anatomy
from vitscope.engine.heads import geometry
from vitscope.engine.token_attention import has_class_token, key_map, rollout, rollout_run
from vitscope.findings.maps import LayerMaps, normalised


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


def test_a_map_is_known_to_half_a_step_of_its_range() -> None:
    maps = np.random.default_rng(0).gamma(0.3, size=(3, 2, 7, 5)).astype(np.float32)
    kept = LayerMaps.of(maps, "class token")
    spread = np.ptp(maps.reshape(3, 2, -1), axis=2)[..., None, None]
    assert np.abs(kept.attention - maps).max() > 0
    assert (np.abs(kept.attention - maps) <= spread / 510 * (1 + 1e-6)).all()
    np.testing.assert_array_equal(kept.highest, maps.max((2, 3)))
    np.testing.assert_array_equal(kept.attention.argmax(3), maps.argmax(3))
    assert kept.heads == 2


def test_what_is_marked_is_that_of_the_exact_map() -> None:
    maps = np.array([0.0, 0.4999, 0.5, 0.5001, 1.0, 0.25]).reshape(1, 1, 2, 3) * 0.5 + 0.25
    assert LayerMaps.of(maps, "").area[0, 0] == 3 / 6


def test_a_constant_map_marks_nothing() -> None:
    kept = LayerMaps.of(np.full((1, 1, 2, 2), 0.25), "")
    assert kept.area[0, 0] == 0
    assert (kept.attention == 0.25).all()


@torch.no_grad()
def rolled(model: torch.nn.Module, batch: torch.Tensor) -> tuple[list[str], np.ndarray]:
    parts = anatomy(model, tuple(batch.shape[1:]))
    run = rollout_run([u for u in parts if u.attention])
    with Tap(model.eval(), parts, run, attention=True) as tap:
        model(batch)
    return [u.name for u in run], rollout([(u, tap.attention[u.name]) for u in run], len(batch)).numpy()


def test_a_vit_by_hand() -> None:
    batch, _ = images(3)
    names, found = rolled(vit(), batch)
    assert names == ["blocks.0.attn", "blocks.1.attn"]
    total = np.broadcast_to(np.eye(17), (3, 17, 17))
    for weights, _ in vit_attention(vit().double(), batch.double()):
        total = (0.5 * weights.mean(1).numpy() + 0.5 * np.eye(17)) @ total
    np.testing.assert_allclose(found, total[:, 0, 1:].reshape(3, 4, 4), rtol=1e-3, atol=1e-6)


def test_windows_become_blocks_of_one_matrix_and_a_smaller_grid_begins_anew() -> None:
    batch, _ = images(2)
    units = [u for u in anatomy(swin(), (3, 32, 32)) if u.attention]
    assert [u.name for u in rollout_run(units)] == ["layers.1.blocks.0.attn"]
    run = rollout_run(units[:2])
    assert [u.name for u in run] == ["layers.0.blocks.0.attn", "layers.0.blocks.1.attn"]
    model = swin()
    with torch.no_grad(), Tap(model, anatomy(model, (3, 32, 32)), run, attention=True) as tap:
        model(batch)
    found = rollout([(u, tap.attention[u.name]) for u in run], 2).numpy()
    total = np.broadcast_to(np.eye(64), (2, 64, 64))
    for weights, shift in zip(swin_attention(swin().double(), batch.double())[:2], (0, 2), strict=True):
        whole = np.zeros((2, 64, 64))
        for w, points in enumerate(window_points(8, 8, 4, shift).tolist()):
            whole[:, np.array(points)[:, None], points] = weights[:, w].mean(1).numpy()
        total = (whole + np.eye(64)) / 2 @ total
    np.testing.assert_allclose(found, total.mean(1).reshape(2, 8, 8), rtol=1e-3, atol=1e-7)


def test_a_pooled_key_is_shared_out_over_what_it_pools() -> None:
    model = timm.create_model("pvt_v2_b0").eval()
    parts = anatomy(model, (3, 64, 64))
    unit = next(u for u in parts if u.attention)  # 16 x 16 queries, 2 x 2 keys
    with torch.no_grad(), Tap(model, parts, [unit], attention=True) as tap:
        model(torch.randn(2, 3, 64, 64))
    seen = tap.attention[unit.name]
    found = rollout([(unit, seen)], 2).numpy()
    received = seen[0].weights.mean(1).mean(1).double().numpy().reshape(2, 2, 2)  # by key
    by_hand = np.kron(received, np.ones((1, 8, 8))) / 64 / 2 + 1 / 256 / 2
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)


def test_points_keep_what_they_have_where_only_the_class_token_asks() -> None:
    model = timm.create_model("cait_xxs24_224", img_size=64, depth=1)
    names, found = rolled(model, torch.randn(2, 3, 64, 64))
    assert names == ["blocks.0.attn", "blocks_token_only.0.attn", "blocks_token_only.1.attn"]
    assert found.shape == (2, 4, 4)
    assert (found.sum((1, 2)) <= 1 + 1e-5).all()
    assert (found > 0).all()
