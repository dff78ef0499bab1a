"""A small ViT and a small Swin taken apart by hand, in float64: their attention, without any tap."""

from collections.abc import Iterator

import timm
import torch
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor


def vit(depth: int = 2) -> VisionTransformer:
    """4 x 4 points and a class token; weights large enough for attention that is not uniform."""
    torch.manual_seed(0)
    model: VisionTransformer = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=32,
        patch_size=8,
        embed_dim=48,
        depth=depth,
        num_heads=3,
        num_classes=10,
    )
    return _sharpened(model)


def swin() -> SwinTransformer:
    """A map of 8 x 8 points in windows of 4 x 4, the second block shifted by 2; then 4 x 4 points."""
    torch.manual_seed(0)
    model: SwinTransformer = timm.create_model(
        "swin_tiny_patch4_window7_224",
        img_size=32,
        patch_size=4,
        window_size=4,
        embed_dim=24,
        depths=(2, 1),
        num_heads=(2, 3),
        num_classes=10,
    )
    return _sharpened(model)


def _sharpened(model):
    for name, parameter in model.named_parameters():
        if "qkv.weight" in name:
            parameter.data.mul_(12)
        if "relative_position_bias_table" in name:
            parameter.data.mul_(40)
    return model.eval()


def images(count: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(count, 3, 32, 32, generator=generator), torch.arange(count) % 10


@torch.no_grad()
def vit_attention(model: VisionTransformer, batch: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Per block, the softmax (N, heads, 17, 17) and the values (N, heads, 17, channels)."""
    for block, x in zip(model.blocks, list(_tokens(model, batch).values())[::2], strict=False):
        qkv = block.attn.qkv(block.norm1(x)).unflatten(2, (3, block.attn.num_heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        yield (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).softmax(3), v


@torch.no_grad()
def vit_maps(model: VisionTransformer, batch: Tensor) -> dict[str, Tensor]:
    """Per unit, the map after it (N, C, 4, 4)."""
    return {unit: x[:, 1:].transpose(1, 2).unflatten(2, (4, 4)) for unit, x in _tokens(model, batch).items()}


def _tokens(model: VisionTransformer, batch: Tensor) -> dict[str, Tensor]:
    """Per unit, the stream after it, with the class token."""
    found = {"patch_embed": (x := model._pos_embed(model.patch_embed(batch)))}
    for i, block in enumerate(model.blocks):
        found[f"blocks.{i}.attn"] = x = x + block.attn(block.norm1(x))
        found[f"blocks.{i}.mlp"] = x = x + block.mlp(block.norm2(x))
    return found


@torch.no_grad()
def swin_attention(model: SwinTransformer, batch: Tensor) -> list[Tensor]:
    """Per block, the softmax (N, windows, heads, 16, 16), from what its attention module is given."""
    found: list[Tensor] = []

    def look(module, args, kwargs) -> None:
        x, mask = args[0], args[1] if len(args) > 1 else kwargs.get("mask")
        heads = module.num_heads
        q, k, _ = module.qkv(x).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) * module.scale + module._get_rel_pos_bias().to(x.dtype)
        scores = scores.unflatten(0, (len(batch), -1))
        if mask is not None:
            scores = scores + mask[:, None].to(x.dtype)
        found.append(scores.softmax(4))

    blocks = [block for layer in model.layers for block in layer.blocks]
    hooks = [block.attn.register_forward_pre_hook(look, with_kwargs=True) for block in blocks]
    model(batch)
    for hook in hooks:
        hook.remove()
    return found


def window_points(height: int, width: int, window: int, shift: int) -> Tensor:
    """(windows, points): which points of the map each window holds, by rolling and cutting the map of indices."""
    index = torch.arange(height * width).view(height, width).roll((-shift, -shift), (0, 1))
    cells = index.view(height // window, window, width // window, window).permute(0, 2, 1, 3)
    return cells.reshape(-1, window * window)
