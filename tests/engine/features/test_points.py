import pytest
import torch

from vitscope.engine.features.moments import centred_once, centred_points


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
