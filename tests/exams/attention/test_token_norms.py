from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.attention_by_hand import (
    images,
    swin,
    swin_attention,
    vit,
    vit_attention,
    vit_maps,
    window_points,
)
from tests.exams.factories import tiny
from vitscope import plots
from vitscope.anatomy import Tap, anatomy
from vitscope.core.statistics import Estimate, mean_interval, ratio_interval
from vitscope.drawing.figures import new_panel
from vitscope.engine.token_outliers import FACTOR, norms_of, outliers_of, patch_contrast, received
from vitscope.exams.attention.token_norms import OUTLIERS, _bounded, token_norms
from vitscope.findings.token_norms import OTHERS, QUANTITIES, TokenNormsResult
from vitscope.results import Result
from vitscope.results.numbers import READINGS


class LongTokens(nn.Module):
    """An MLP after which one point of every image, and a second of some, is far longer than the rest."""

    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:
        y = self.mlp(x).clone()
        y[:, 1] += 40.0
        y[:, 7] += 40.0 * (x[:, 7, :1] > 0)
        return y


def with_long_tokens() -> nn.Module:
    model = vit(depth=3)
    model.blocks[1].mlp = LongTokens(model.blocks[1].mlp)
    return model


def outliers_by_hand(feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Norms and outliers of the points of one map (C, H, W)."""
    norm = np.linalg.norm(feature.reshape(len(feature), -1).astype(np.float64), axis=0)
    return norm, norm > FACTOR * np.median(norm[norm > 0])


def contrast_by_hand(image: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Of one image (C, H, W) whose sides the grid divides."""
    high, wide = image.shape[1] // rows, image.shape[2] // columns
    found = []
    for y in range(rows):
        for x in range(columns):
            patch = image[:, y * high : (y + 1) * high, x * wide : (x + 1) * wide].astype(np.float64)
            found.append(np.sqrt(patch.var(axis=(1, 2)).mean()))
    return np.array(found) / np.mean(found)


def sink(result: TokenNormsResult, unit: str, token: str) -> tuple[float, float]:
    table = result.table()
    chosen = table[(table["unit"] == unit) & (table["token"] == token)].set_index("quantity")["value"]
    return chosen["attention"], chosen["sink"]


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for unit, maps in vit_maps(model, images.double()).items():
        norm, marked = (np.array(part) for part in zip(*map(outliers_by_hand, maps.numpy()), strict=True))
        found["norm", unit] = norm.mean()
        found["peak", unit] = (norm.max(1) / np.median(norm, axis=1)).mean()
        found["outliers", unit], found["outlier_images", unit] = marked.mean(), marked.any(1).mean()
        assert not marked.any()  # so that all attention goes to the class token and to other points
    for i, (weights, _) in enumerate(vit_attention(model, images.double())):
        first = float(weights[:, :, 1:, 0].mean())  # over heads and the queries that are points
        found["attention", f"blocks.{i}.attn"] = [first, 0.0, 1 - first]
    return found


def test_a_vit_with_long_tokens_equals_itself_by_hand() -> None:
    model, (batch, labels) = with_long_tokens(), images(6)
    parts = anatomy(model, (3, 32, 32))
    with torch.no_grad(), Tap(model, parts, parts.mapped, features=True) as tap:
        model(batch)
    result = token_norms(model, (batch, labels), batch_size=4)
    contrast = np.array([contrast_by_hand(image, 4, 4) for image in batch.numpy()])
    edge = np.ones((4, 4), bool)
    edge[1:3, 1:3] = False
    marks = {}
    for i, unit in enumerate(result.units):
        found = [outliers_by_hand(one) for one in tap.features[unit.name].numpy()]
        norm, marked = (np.array(part) for part in zip(*found, strict=True))
        marks[unit.name] = marked
        value = dict(zip(QUANTITIES, result.value[i], strict=True))
        assert value["norm"] == pytest.approx(norm.mean(), rel=1e-5)
        assert value["peak"] == pytest.approx((norm.max(1) / np.median(norm, axis=1)).mean(), rel=1e-5)
        assert value["outliers"] == pytest.approx(marked.mean())
        assert value["outlier_images"] == pytest.approx(marked.any(1).mean())
        for share in (5, 50, 95):
            assert value[f"norm_p{share}"] == pytest.approx(np.percentile(norm, share), rel=0.1)
        np.testing.assert_allclose(result.place(i).ravel(), marked.mean(0))
        if marked.any():
            assert value["border"] == pytest.approx(edge.ravel()[None].repeat(6, 0)[marked].mean())
            assert value["contrast"] == pytest.approx(contrast[marked].mean(), rel=1e-4)
        else:
            assert np.isnan(value["border"])
    assert 0 < marks["blocks.1.mlp"].mean() < 0.2
    assert marks["blocks.1.mlp"][:, 0].all()
    reads = {"blocks.0.attn": "patch_embed", "blocks.1.attn": "blocks.0.mlp", "blocks.2.attn": "blocks.1.mlp"}
    weights = vit_attention(with_long_tokens().double(), batch.double())
    for (name, before), (a, _) in zip(reads.items(), weights, strict=True):
        given = a[:, :, 1:].mean((1, 2)).numpy()  # over heads and the queries that are points
        marked = marks[before]
        assert sink(result, name, "prefix 0") == pytest.approx(
            (given[:, 0].mean(), 17 * given[:, 0].mean()), rel=1e-4
        )
        assert sink(result, name, OUTLIERS)[0] == pytest.approx(
            (given[:, 1:] * marked).sum(1).mean(), rel=1e-4, abs=1e-9
        )
        assert sink(result, name, OTHERS)[0] == pytest.approx(
            (given[:, 1:] * ~marked).sum(1).mean(), rel=1e-4
        )
        if marked.any():
            assert sink(result, name, OUTLIERS)[1] == pytest.approx(
                17 * given[:, 1:][marked].mean(), rel=1e-4
            )


def test_windows_give_what_their_points_receive() -> None:
    model, (batch, labels) = swin(), images(3)
    result = token_norms(model, (batch, labels))
    assert not result.skipped
    assert not (result.of("outliers")[0] > 0).any()
    assert all(
        share == pytest.approx(1.0, abs=1e-5)
        for share in result.share.value[np.array(result.row_token) == OTHERS]
    )
    # marking one point of the map as an outlier gives what it receives in its window
    parts = anatomy(model, (3, 32, 32))
    shifted = [unit for unit in parts if unit.attention is not None][1]
    seen: list[Tensor] = []
    with (
        torch.no_grad(),
        Tap(model, parts, [shifted], on_attention=lambda u, s: seen.append(received(u, s, 3))),
    ):
        model(batch)
    a = swin_attention(swin().double(), batch.double())[1].mean(2)  # (N, windows, 16, 16), over heads
    expected = np.zeros((3, 64))
    for window, points in enumerate(window_points(8, 8, 4, 2).tolist()):
        for key, point in enumerate(points):
            expected[:, point] += a[:, window, :, key].sum(1).numpy() / 64
    np.testing.assert_allclose(seen[0][:, :-1].numpy(), expected, rtol=1e-4, atol=1e-7)


def test_a_convolutional_network_has_norms_and_no_attention() -> None:
    result = token_norms(tiny(), images(4))
    assert result.attending == ()
    assert np.isfinite(result.of("norm")[0]).all()
    assert "sink" not in set(result.table()["quantity"])


def test_closed_forms() -> None:
    feature = torch.zeros(1, 2, 2, 2)
    feature[0, :, 0, 0] = torch.tensor([3.0, 4.0])
    assert norms_of(feature)[0].tolist() == [5.0, 0.0, 0.0, 0.0]
    assert not outliers_of(norms_of(feature)).any()  # the only token that has a norm is no outlier among none
    assert not outliers_of(torch.zeros(2, 5)).any()
    norms = torch.tensor([[1.0, 1.0, 1.0, 4.0, 4.1]])
    assert outliers_of(norms).tolist() == [[0.0, 0.0, 0.0, 0.0, 1.0]]
    assert patch_contrast(torch.full((2, 3, 8, 8), 0.7), (2, 2)).tolist() == [[1.0] * 4] * 2
    assert patch_contrast(torch.rand(2, 3, 4, 4), (4, 4)).isnan().all()


def test_a_ratio_covers_its_truth() -> None:
    """Images with 0 to 3 things each, whose values depend on their image."""
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        x = generator.integers(0, 4, 60)
        y = np.array([generator.normal(1.0 + 0.5 * generator.normal(), 0.3, k).sum() for k in x])
        sums = [terms.sum() for terms in (y, x, y**2, x * y, x**2, x > 0)]
        value, low, high = ratio_interval(np.array(sums))
        assert value == pytest.approx(y.sum() / x.sum())
        inside += low <= 1.0 <= high
    assert 0.935 < inside / 2000 < 0.97


def test_no_thing_has_no_mean_and_one_image_no_interval() -> None:
    value, low, _ = ratio_interval(np.stack([np.zeros(6), np.ones(6)]))
    assert np.isnan(value[0])
    assert value[1] == 1.0
    assert np.isnan(low).all()


def test_table_and_disk(tmp_path: Path) -> None:
    result = token_norms(with_long_tokens(), images(4))
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, TokenNormsResult)
    assert back.table().equals(result.table())
    places = result.tables()["places"]
    assert places.groupby("unit").size().eq(16).all()
    long = places[(places["unit"] == "blocks.1.mlp") & (places["row"] == 0) & (places["column"] == 0)]
    assert long["share"].tolist() == [1.0]


@pytest.mark.parametrize("count", [2, 5, 16])
def test_intervals_of_percentiles_end_with_the_norms_that_were_seen(count: int) -> None:
    model, (batch, labels) = vit(), images(count)
    parts = anatomy(model, (3, 32, 32))
    with torch.no_grad(), Tap(model, parts, parts.mapped, features=True) as tap:
        model(batch)
    result = token_norms(model, (batch, labels))
    for i, unit in enumerate(result.units):
        seen = norms_of(tap.features[unit.name])
        for share in (5, 50, 95, 99):
            value, low, high = (ends[i] for ends in result.of(f"norm_p{share}"))
            assert 0.97 * float(seen.min()) <= low <= value <= high <= 1.03 * float(seen.max())


@pytest.mark.parametrize(("scale", "known"), [(1e8, True), (1e15, False), (0.0, True)])
def test_percentiles_of_norms_of_any_size(scale: float, known: bool) -> None:
    model, (batch, labels) = tiny(), images(3)
    model.bn1 = nn.Identity()
    model.conv1.weight.data.mul_(scale)
    result = token_norms(model, (batch, labels))
    median = result.of("norm_p50")[0][0]
    if known:
        parts = anatomy(model, (3, 32, 32))
        with torch.no_grad(), Tap(model, parts, [parts[0]], features=True) as tap:
            model.eval()(batch)
        assert median == pytest.approx(float(norms_of(tap.features[parts[0].name]).median()), rel=0.03)
    else:
        assert np.isnan(median)


def test_shows_percentiles_sinks_and_places() -> None:
    result = token_norms(with_long_tokens(), images(6))
    ax = plots.plot_token_norms(result, new_panel())
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.of("norm_p50")[0])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), result.of("norm_p99")[0])
    sinks = plots.plot_attention_sinks(result, new_panel())
    lines = {container.get_label(): container.lines[0] for container in sinks.containers}
    rows = np.array(result.row_token) == "prefix 0"
    np.testing.assert_array_equal(lines["prefix 0"].get_ydata(), result.sink.value[rows])
    assert OUTLIERS in lines
    panel = plots.plot_outlier_places(result, new_panel()).child_axes[0]
    most = result.units[int(np.flatnonzero(result.of("outliers")[0])[0])]
    assert panel.get_title().startswith(most.name)
    np.testing.assert_array_equal(
        panel.images[0].get_array(), result.place([unit.name for unit in result.units].index(most.name))
    )


def test_says_what_there_is_not() -> None:
    result = token_norms(tiny(), images(2))
    assert plots.plot_attention_sinks(result, new_panel()).texts


def test_attention_that_sums_to_one_but_for_rounding_is_all_of_it() -> None:
    share = _bounded(mean_interval(np.array([41 * (1 + 1.4577e-9)]), np.array([41 * (1 + 2.9154e-9)]), 41))
    assert share.low <= share.value <= share.high == 1.0


def test_a_sink_is_read_only_where_its_interval_is_above_an_even_share() -> None:
    found = token_norms(vs.create_model("vit_mini"), vs.load_data("fashion"), limit=8)
    rows = np.array(found.row_token) == OTHERS

    def reading(*sinks: tuple[float, float, float]) -> str:
        """Of a model with outliers in as many units, which receive so much."""
        chosen = np.flatnonzero(rows)[: len(sinks)]
        tokens, ends = list(found.row_token), [np.full(len(rows), np.nan) for _ in range(3)]
        for row, sink in zip(chosen, sinks, strict=True):
            tokens[row] = OUTLIERS
            for end, number in zip(ends, sink, strict=True):
                end[row] = number
        return READINGS["token_norms"](replace(found, row_token=tuple(tokens), sink=Estimate(*ends)))

    none = reading((0.864, 0.636, 1.09))
    assert "No token is clearly a sink" in none
    assert "0.864 [0.636, 1.09] times an even share" in none
    assert "strongest" not in none
    assert "The strongest sink is outliers in blocks.0.attn: 3 [2, 4] times" in reading((3, 2, 4))
    both = reading((3, 2, 4), (5, 0.5, 9.5))  # of the second nobody knows whether it is one
    assert "The strongest sink is outliers in blocks.0.attn: 3 [2, 4] times" in both
