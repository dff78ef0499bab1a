"""Tokens of one image in every layout, against the obvious loop over images."""

import pytest
import torch
from torch import Tensor

import vitscope as vs
from vitscope.anatomy import dissect
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens, tokens_off_the_grid

N, H, W, C = 3, 4, 6, 5
MAPS = torch.randn(N, H, W, C, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def windows(maps: Tensor) -> Tensor:
    """(N x 6, 4, C): windows of 2x2 points."""
    cut = maps.reshape(N, H // 2, 2, W // 2, 2, C).transpose(2, 3)
    return cut.reshape(-1, 4, C)


LAYOUTS = {
    "NLC": (MAPS.reshape(N, H * W, C), ImageTokens(3, 2)),
    "NHWC": (MAPS, ImageTokens(4, 3)),
    "NCHW": (MAPS.permute(0, 3, 1, 2), ImageTokens(4, 1)),
    "LNC": (MAPS.reshape(N, H * W, C).transpose(0, 1), ImageTokens(3, 2, batch_axis=1)),
    "CNL": (MAPS.reshape(N, H * W, C).permute(2, 0, 1), ImageTokens(3, 0, batch_axis=1)),
    "windows": (windows(MAPS), ImageTokens(3, 2, parts_per_image=6)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mean_is_that_of_every_image(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    wanted = torch.stack([MAPS[i].reshape(-1, C).sum(0) / (H * W) for i in range(N)])
    everywhere = tokens.read(tokens.mean(x).expand_as(x))
    assert everywhere.shape == (N, H * W, C)
    torch.testing.assert_close(everywhere, wanted[:, None].expand(N, H * W, C))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_read_can_be_written_back(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    read = tokens.read(x)
    for i in range(N):  # the points of one image, in some order
        assert {tuple(row) for row in read[i].tolist()} == {
            tuple(row) for row in MAPS[i].reshape(-1, C).tolist()
        }
    assert torch.equal(tokens.write(read, like=x), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_vector_runs_along_the_channels(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    vector = torch.arange(C, dtype=torch.float64)
    assert torch.equal(tokens.read(x * tokens.along_channels(vector)), tokens.read(x) * vector)


@pytest.mark.parametrize(
    ("name", "wanted", "off_the_grid"),
    [
        ("vit_mini", ImageTokens(3, 2), 1),
        ("swin_mini", ImageTokens(3, 2), 0),
        ("resnet_mini", ImageTokens(4, 1), 0),
    ],
)
def test_layout_is_that_of_the_watched_tensor(name: str, wanted: ImageTokens, off_the_grid: int) -> None:
    body = dissect(vs.create_model(name))
    last = body.segment([unit for unit in body.parts if unit.residual][-1]).end
    assert image_tokens(body, last) == wanted
    assert tokens_off_the_grid(body, last) == off_the_grid


def test_pooled_tensors_have_no_tokens() -> None:
    body = dissect(vs.create_model("vit_mini"))
    assert image_tokens(body, body.graph.outputs[0]) is None
    assert tokens_off_the_grid(body, body.graph.outputs[0]) == 0
