import numpy as np
import pytest
import torch

from vitscope.engine.exam import Batch, Subject
from vitscope.engine.moments import FeatureMoments, centred_once, centred_points
from vitscope.results import UnitRow

EMPTY = torch.zeros(0)
SUBJECT = Subject("m", "d", tuple(UnitRow(f"u{i}", "mlp", 0, i / 2, (1, 2, 2)) for i in range(3)))


def filled(values: list[torch.Tensor]) -> FeatureMoments:
    moments = FeatureMoments(SUBJECT, tuple(v.shape[1] for v in values))
    moments.update(Batch(EMPTY, EMPTY, torch.arange(len(values[0])), tuple(values)))
    return moments


def test_levels_are_means_of_ragged_columns() -> None:
    values = [torch.rand(9, width) for width in (2, 1, 3)]
    levels = filled(values).levels()
    np.testing.assert_allclose(levels.value, torch.cat(values, 1).double().mean(0), rtol=1e-12)


def test_change_is_paired_between_last_columns() -> None:
    noise = 100 * torch.rand(20, 1)
    moments = filled([noise, torch.cat([torch.zeros(20, 1), noise + 1.0], 1), noise - 1.0])
    change = moments.changes()
    assert np.isnan(change.value[0])
    np.testing.assert_allclose(change.value[1:], [1.0, -2.0], rtol=1e-5)
    np.testing.assert_allclose(change.high[1:] - change.low[1:], 0.0, atol=1e-4)
    levels = moments.levels()
    assert levels.high[0] - levels.low[0] > 10


def test_a_small_spread_around_a_large_mean_survives() -> None:
    values = 1e6 + torch.randn(1000, 1, dtype=torch.float64)
    levels = filled([values, values, values]).levels()
    expected = 2 * 1.9623 * float(values.std()) / np.sqrt(1000)
    assert levels.high[0] - levels.low[0] == pytest.approx(expected, rel=1e-3)


def test_the_change_of_a_kind_is_the_mean_over_its_units() -> None:
    values = [torch.rand(9, 1, dtype=torch.float64) for _ in range(3)]
    found = filled(values)
    assert found.kinds == ("mlp",)
    expected = (values[2] - values[0]).mean() / 2  # the two changes add up
    np.testing.assert_allclose(found.changes_by_kind().value, [expected], rtol=1e-12)


def test_images_are_counted_over_batches() -> None:
    moments = filled([torch.rand(4, 1)] * 3)
    moments.update(Batch(EMPTY, EMPTY, torch.arange(3), (torch.rand(3, 1),) * 3))
    assert int(moments.n) == 7


@pytest.mark.any_order
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "tokens", "odd", "one channel"])
def test_every_layout_gives_the_same_points(layout: str) -> None:
    feature = torch.randn(3, 5, 4, 6)
    if layout == "NHWC":
        feature = feature.contiguous(memory_format=torch.channels_last)
    elif layout == "tokens":
        feature = torch.randn(3, 25, 5)[:, 1:].transpose(1, 2).unflatten(2, (4, 6))
    elif layout == "odd":
        feature = torch.randn(6, 3, 4, 5).permute(1, 3, 2, 0)
    elif layout == "one channel":
        feature = feature[:, :1]
    centred, mean, channels_last = centred_points(feature)
    assert channels_last == (layout in ("NHWC", "tokens"))
    if channels_last:
        centred, mean = centred.transpose(1, 2), mean.transpose(1, 2)
    torch.testing.assert_close(centred + mean, feature.flatten(2))
    torch.testing.assert_close(mean, feature.mean((2, 3))[..., None])


def test_tokens_are_not_copied() -> None:
    tokens = torch.zeros(2, 17, 8)
    feature = tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4))
    assert feature.flatten(2).data_ptr() == tokens[:, 1:].data_ptr()


def test_the_map_itself_is_left_alone() -> None:
    feature = torch.randn(2, 3, 4, 4)
    before = feature.clone()
    centred_points(feature)
    assert torch.equal(feature, before)


def test_a_map_is_centred_once_inside_the_block_only() -> None:
    feature = torch.randn(2, 3, 4, 4)
    with centred_once():
        first, again = centred_points(feature)[0], centred_points(feature)[0]
        assert first is again
        assert centred_points(feature + 1)[0] is not first
    with centred_once():
        assert centred_points(feature)[0] is not first
    assert centred_points(feature)[0] is not centred_points(feature)[0]
