"""Positions are followed through any rearrangement: checked by looking for the pixels themselves."""

import pytest
import torch
from torch import nn

import vitscope as vs


class Rearranged(nn.Module):
    """An identity stem, one rearrangement, and a residual unit after which the map is read."""

    def __init__(self, there, back) -> None:
        super().__init__()
        self.there, self.back = there, back
        self.stem = nn.Conv2d(3, 3, 1, bias=False)
        nn.init.dirac_(self.stem.weight)
        self.mlp = nn.LazyLinear(3) if there is not nchw else nn.LazyConv2d(3, 1)

    def forward(self, x):
        x = self.there(self.stem(x))
        x = x + self.mlp(x) * 0
        return self.back(x)


def nchw(x):
    return x


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def sequence_first(x):
    return x.flatten(2).permute(2, 0, 1)


def class_token(x):
    return torch.cat([torch.zeros(x.shape[0], 2, 3), tokens(x)], 1)


def registers_behind(x):
    return torch.cat([tokens(x), torch.zeros(x.shape[0], 4, 3)], 1)


def windows(x):
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 3, 3).permute(0, 2, 4, 3, 5, 1).reshape(-1, 6, c)


def blocks(x):
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 3, 3).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, 6, c)


def rolled(x):
    return torch.roll(nhwc(x), (-1, 2), (1, 2))


def flipped(x):
    return tokens(x).flip(1)


@pytest.mark.parametrize(
    "layout",
    [nchw, nhwc, tokens, sequence_first, class_token, registers_behind, windows, blocks, rolled, flipped],
    ids=lambda f: f.__name__,
)
def test_the_map_is_the_image_again(layout):
    model = Rearranged(layout, lambda x: x)
    model(torch.zeros(2, 3, 4, 6))
    parts = vs.anatomy(model, (3, 4, 6))
    unit = parts.mapped[-1]
    images = torch.randn(5, 3, 4, 6)
    with torch.no_grad(), vs.Tap(model, parts, features=True) as tap:
        model(images)
    assert torch.equal(tap.features[unit.name], images)
    assert unit.prefix_tokens == {"class_token": 2, "registers_behind": 4}.get(layout.__name__, 0)
    stream = layout(images)
    assert torch.equal(unit.view.write(stream * 0, images), stream)
    assert torch.equal(unit.view.read(unit.view.write(stream, images * 2)), images * 2)


class Merging(nn.Module):
    """Three ways to make a coarser grid without a convolution."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.stem = nn.Conv2d(3, 8, 1)
        self.reduce = nn.Linear(32, 16) if how != "picked" else nn.Linear(8, 16)
        self.mlp = nn.Linear(16, 16)

    def forward(self, x):
        x = self.stem(x)
        n, c, h, w = x.shape
        if self.how == "slices":
            x = x.permute(0, 2, 3, 1)
            x = torch.cat([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)
        elif self.how == "reshape":
            x = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(n, h * w // 4, 4 * c)
        elif self.how == "unfold":
            x = nn.functional.unfold(x, 2, stride=2).transpose(1, 2)
        else:
            x = x.permute(0, 2, 3, 1)[:, ::2, ::2]
        x = self.reduce(x)
        return x + self.mlp(x)


@pytest.mark.parametrize("how", ["slices", "reshape", "unfold", "picked"])
def test_merging_patches_gives_the_coarser_grid(how):
    model = Merging(how)
    parts = vs.anatomy(model, (3, 6, 10))
    assert parts[-1].map_shape == (16, 3, 5)
    image = torch.zeros(1, 3, 6, 10)
    image[0, :, 4, 7] = 100.0
    with torch.no_grad(), vs.Tap(model, parts, features=True) as tap:
        model(torch.cat([image, image * 0]))
    feature = tap.features[parts[-1].name]
    changed = (feature[0] - feature[1]).abs().amax(0) > 1e-3
    if how != "picked":
        assert changed.nonzero().tolist() == [[2, 3]]  # the patch that holds row 4, column 7
