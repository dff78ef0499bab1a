"""Images of another size: tokens are taken for the map that they come from, or refused."""

import copy
import math

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitscope as vs
from tests.surgery.checks import assert_close, check_acts, outputs
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.map_source import MapNote, MapSource, SeenMap, Windows, same_shape

MADE_FOR = (3, 96, 96)  # 6x6 patches of 16 pixels
OTHERS = [(64, 144), (144, 64), (96, 96), (64, 80), (128, 128)]


def images(height: int, width: int, count: int = 2) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(height))


def vit() -> nn.Module:
    torch.manual_seed(0)
    arguments = {"img_size": 96, "dynamic_img_size": True, "depth": 2, "embed_dim": 48, "num_classes": 4}
    return timm.create_model("vit_tiny_patch16_224", **arguments).eval()


class Unfolded(nn.Module):
    """A ViT without position embeddings whose patches no module makes; its attention is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(3 * 16 * 16, 24)
        self.blocks = nn.ModuleList(Block(24) for _ in range(2))
        self.head = nn.Linear(24, 4)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = pixels.unfold(2, 16, 16).unfold(3, 16, 16).permute(0, 2, 3, 1, 4, 5)
        x = self.embed(patches.flatten(3).flatten(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attend, self.norm, self.feed = Attend(width), nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(x)
        return x + self.feed(F.gelu(self.norm(x)))


class Attend(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.proj(
            torch.softmax(2 * query @ key.transpose(-2, -1) / math.sqrt(x.shape[-1]), -1) @ value
        )


def hidden(height: int, width: int, prefix: int) -> Tensor:
    """-inf where a point is not among the 3x3 around another one; written point by point."""
    mask = torch.zeros(prefix + height * width, prefix + height * width, dtype=torch.float64)
    for i in range(height * width):
        for j in range(height * width):
            if max(abs(i // width - j // width), abs(i % width - j % width)) > 1:
                mask[prefix + i, prefix + j] = -math.inf
    return mask


@pytest.mark.parametrize("make", [vit, Unfolded], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("height", "width"), OTHERS)
def test_local_attention_follows_the_grid(make, height: int, width: int, monkeypatch) -> None:
    model, x = make(), images(height, width)
    by_hand = make().double()
    vs.surgery.localize(model, kernel=3, example=MADE_FOR)
    found = outputs(model, x)[0]
    mask = hidden(height // 16, width // 16, prefix=1 if make is vit else 0)
    attend, softmax = F.scaled_dot_product_attention, torch.softmax
    with monkeypatch.context() as patched:
        patched.setattr(
            F, "scaled_dot_product_attention", lambda q, k, v, **_: attend(q, k, v, attn_mask=mask)
        )
        patched.setattr(torch, "softmax", lambda scores, dim: softmax(scores + mask, dim))
        wanted = outputs(by_hand, x.double())[0]
    torch.testing.assert_close(found, wanted.float(), rtol=1e-4, atol=1e-5)
    check_acts(model, x)
    assert torch.equal(outputs(copy.deepcopy(model), x)[0], found)


def test_smoothing_follows_the_grid() -> None:
    """Of tokens behind a class token, in front of a head that reads their mean."""
    model = vs.surgery.pool_tokens(vit(), example=MADE_FOR)
    plain = copy.deepcopy(model).double()
    vs.surgery.smooth(model, "stage_ends", "none", example=MADE_FOR)
    for height, width in OTHERS:
        x, rows, columns = images(height, width), height // 16, width // 16
        tokens = _stream(plain, x.double())
        wanted = tokens.clone()
        for i in range(rows):
            for j in range(columns):
                around = [(a, b) for a in (i, min(i + 1, rows - 1)) for b in (j, min(j + 1, columns - 1))]
                wanted[:, 1 + i * columns + j] = sum(tokens[:, 1 + a * columns + b] for a, b in around) / 4
        with torch.no_grad():
            said = plain.head(plain.fc_norm(plain.norm(wanted)[:, 0]))
        torch.testing.assert_close(outputs(model, x)[0], said.float(), rtol=1e-4, atol=1e-5)
        check_acts(model, x)


def _stream(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        tokens = model.norm_pre(model._pos_embed(model.patch_embed(x)))
        return model.blocks(tokens)


def swin() -> nn.Module:
    """Windows of 4x4 points, on maps of 8x8 and 4x4 at 32 pixels: the second stage has one."""
    torch.manual_seed(0)
    sizes = {"window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4), "num_classes": 4}
    model = timm.create_model("swin_tiny_patch4_window7_224", img_size=32, strict_img_size=False, **sizes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)  # as drawn, what attention says hardly counts
    return model.eval()


@pytest.mark.parametrize(
    "operate",
    [
        lambda m, size: vs.surgery.broadcast_context(m, where="msa", at="mid", layers="all", example=size),
        lambda m, size: vs.surgery.broadcast_context(m, where="msa", layers="all", example=size),
        lambda m, size: vs.surgery.ensemble(vs.surgery.mc_dropout(m, example=size), 2, example=size),
    ],
    ids=["context at mid", "context at end", "mc dropout"],
)
def test_windows_are_counted_anew(operate) -> None:
    """An image's mean is that of all its windows, also if there was one only: as if it was put in for that size."""
    model, smaller = operate(swin(), (3, 32, 32)), images(32, 32)
    was = outputs(model, smaller)
    for size in ((64, 64), (64, 32)):
        fresh, x = operate(swin(), (3, *size)), images(*size, count=3)
        assert_close(outputs(model, x), outputs(fresh, x))
    assert torch.equal(outputs(model, smaller)[0], was[0])
    with pytest.raises(VitscopeError, match=r"put in for the tokens of a 4x4 map, .* 4x10"):
        model(images(32, 80))  # the second stage pads its map to 4x12


def test_a_block_or_the_features_alone() -> None:
    model = vs.surgery.localize(vit(), kernel=3, example=MADE_FOR)
    x = images(64, 144)
    whole = outputs(model, x)[0]
    with torch.no_grad():
        model(images(96, 96))
        assert torch.equal(model.forward_head(model.forward_features(x)), whole)
        tokens = model._pos_embed(model.patch_embed(x))
        for block in model.blocks:
            tokens = block(tokens)
        assert torch.equal(model.forward_head(model.norm(tokens)), whole)


def test_two_operations_share_what_they_note_and_undo_takes_it_out_once() -> None:
    model = vit()
    for block in range(2):
        vs.surgery.localize(model, kernel=3, layers=[block], example=MADE_FOR)
    notes = [module for module in model.modules() if isinstance(module, MapNote)]
    assert len(notes) == 1
    vs.surgery.undo(model)
    assert notes[0] in list(model.modules())
    vs.surgery.undo(model)
    assert notes[0] not in list(model.modules())


def test_sizes_that_patches_do_not_divide() -> None:
    seen = SeenMap()
    source = MapSource((98, 98), seen)  # 6x6 patches of 16, and two pixels over
    assert source.grid_of(144, (6, 6)) == (12, 12)  # nothing came: the same shape
    assert source.grid_of(35, (6, 6)) is None
    seen.images, seen.grid = 2, (64, 150)
    assert source.grid_of(36, (6, 6)) == (4, 9)
    assert source.grid_of(3 * 9, (6, 6)) == (3, 9)
    assert source.grid_of(35, (6, 6)) is None
    assert same_shape(0, (6, 6)) is None


def test_windows_of_other_images_than_came_last() -> None:
    seen = SeenMap()
    windows = Windows(4, elements=64 * 5, others=0, grid=(8, 8), source=MapSource((8, 8), seen))
    assert windows.count(torch.empty(8, 16, 5), 0) == 4  # nothing came yet
    seen.images, seen.grid = 3, (8, 16)
    assert windows.count(torch.empty(24, 16, 5), 0) == 8
    assert windows.count(torch.empty(8, 16, 5), 0) == 4  # two images of the size it was made for
    with pytest.raises(VitscopeError, match="8x16"):
        windows.count(torch.empty(36, 16, 5), 0)
