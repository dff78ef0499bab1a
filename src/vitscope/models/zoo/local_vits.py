"""ViTs that look at the neighbouring patches, which timm lacks.

Convolutional ViT (HDV, Fig. 7): every patch attends to the kernel x kernel patches around it only. The published
experiment has ViT-Ti on 32-pixel images with patches of 4x4, that is 8x8 tokens, and kernels of 3, 5 and 8; a kernel of
8 sees the whole map and is ViT-Ti itself. As the paper's ViT it has a class token, from which the head reads; the class
token sees all patches and is seen by all. The parameters and their names are those of timm's ViT: weights of one kernel
fit the others.

LocalViT (Li et al., 2021): the feed-forward networks look around. On the patch tokens, put back on their grid, while
the class token passes by unchanged:

    x <- x + BN(W2 SE(h(BN(D h(BN(W1 x))))))

W1 and W2 are 1x1 convolutions (192 to 768 channels and back), D is a depthwise 3x3 one, h the hard swish, SE a
squeeze-and-excitation with 4 hidden units and a hard sigmoid. There is no layer norm before it. This is the published
LocalViT-T of 5.9 M parameters ("h-swish + SE", reduction 192), with its four heads of 48 where DeiT-Ti has three of 64.
Images of up to 32 pixels get patches of 2x2, of up to 64 pixels 4x4, larger ones 16x16.
"""

from functools import partial
from typing import Any

import torch
from timm.layers import Attention, SqueezeExcite, to_2tuple
from timm.models import generate_default_cfgs
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from vitscope.models.zoo.local_attention import LocalAttention
from vitscope.models.zoo.registration import (
    cifar_cfg,
    fashion_cfg,
    imagenet_cfg,
    make_transformer,
    register,
    small_image_constants,
)

_ENDS = {"first_conv": "patch_embed.proj", "classifier": "head"}
default_cfgs = generate_default_cfgs(
    {
        "conv_vit_tiny.untrained": cifar_cfg(**_ENDS, fixed_input_size=True),
        "conv_vit_mini.untrained": fashion_cfg(**_ENDS, fixed_input_size=True),
        "localvit_tiny.untrained": imagenet_cfg(**_ENDS, fixed_input_size=True),
        "localvit_mini.untrained": fashion_cfg(**_ENDS, fixed_input_size=True),
    }
)
_MINI = {"patch_size": 4, "embed_dim": 96, "depth": 6, "num_heads": 3}  # 8x8 patch tokens
_SQUEEZED = 4  # hidden units of the squeeze-and-excitation: 4 x width, reduced by the width


class ConvolutionalMSA(Attention):
    """timm's attention with local reach, which `ConvolutionalViT` sets."""

    reach: LocalAttention

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """(N, tokens, C) to the same."""
        images, tokens, _ = x.shape
        split = self.qkv(x).reshape(images, tokens, 3, self.num_heads, self.head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.attn_drop.p if self.training else 0.0
        found = self.reach(
            self.q_norm(query), self.k_norm(key), value, attn_mask, dropout_p=dropout, is_causal=is_causal
        )
        joined = self.norm(found.transpose(1, 2).reshape(images, tokens, self.attn_dim))
        return self.proj_drop(self.proj(joined))


class ConvolutionalViT(VisionTransformer):
    """timm's ViT with local attention; the kernel is the side of the neighbourhood, in patches."""

    def __init__(self, kernel: int = 5, **kwargs: Any) -> None:
        super().__init__(attn_layer=ConvolutionalMSA, **kwargs)
        self.kernel = kernel
        self._set_reach()

    def set_input_size(
        self, img_size: tuple[int, int] | None = None, patch_size: tuple[int, int] | None = None
    ) -> None:
        """Make the model ready for another size of images or patches."""
        super().set_input_size(img_size, patch_size)
        self._set_reach()

    def _set_reach(self) -> None:
        where = self.patch_embed.proj.weight
        for attention in self.modules():
            if isinstance(attention, ConvolutionalMSA):
                reach = LocalAttention(self.patch_embed.grid_size, self.kernel, self.num_prefix_tokens)
                attention.reach = reach.to(where.device, where.dtype)


class LocalFeedForward(nn.Module):
    """The branch of the feed-forward network, on a grid of patches after `prefix_tokens` (class token, registers).

    timm's block offers more to any MLP, which this one has no use for.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        grid: tuple[int, int],
        prefix_tokens: int,
        drop: float = 0.0,
        **_: Any,
    ) -> None:
        super().__init__()
        self.grid, self.prefix_tokens = grid, prefix_tokens
        inner = hidden_features
        self.expand = nn.Sequential(
            nn.Conv2d(in_features, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.Hardswish()
        )
        depthwise = nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.local = nn.Sequential(depthwise, nn.BatchNorm2d(inner), nn.Hardswish())
        self.excite = SqueezeExcite(inner, rd_channels=_SQUEEZED, gate_layer="hard_sigmoid")
        self.project = nn.Sequential(
            nn.Conv2d(inner, in_features, 1, bias=False), nn.BatchNorm2d(in_features)
        )
        self.drop = nn.Dropout(drop)

    def forward(self, tokens: Tensor) -> Tensor:
        """What is added to the tokens: nothing to those before the patches."""
        prefix, patches = tokens[:, : self.prefix_tokens], tokens[:, self.prefix_tokens :]
        # By (N, H, W, C): on the CPU torch's batch norm reads the gradient of a single image in the wrong order
        # if the channels of a (N, C, HW) view are moved instead.
        x = patches.unflatten(1, self.grid).permute(0, 3, 1, 2)
        x = self.drop(self.project(self.excite(self.local(self.expand(x)))))
        return torch.cat([torch.zeros_like(prefix), x.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


class LocalBlock(Block):
    """timm's block without the second layer norm."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.norm2 = nn.Identity()


def patch_side(img_size: int | tuple[int, int]) -> int:
    """Side of the patches: 16 as published, less for small images."""
    side = max(to_2tuple(img_size))
    return 2 if side <= 32 else 4 if side <= 64 else 16


class LocalViT(VisionTransformer):
    """timm's ViT with local feed-forward networks; `patch_side(img_size)` gives the patches unless they are given."""

    def __init__(
        self,
        img_size: int | tuple[int, int] = 224,
        patch_size: int | None = None,
        class_token: bool = True,
        reg_tokens: int = 0,
        **kwargs: Any,
    ) -> None:
        patch = patch_size or patch_side(img_size)
        rows, columns = (side // patch for side in to_2tuple(img_size))
        feed_forward: Any = partial(  # timm's annotations ask for a class
            LocalFeedForward, grid=(rows, columns), prefix_tokens=int(class_token) + reg_tokens
        )
        own: dict[str, Any] = {"img_size": img_size, "patch_size": patch, "block_fn": LocalBlock}
        tokens: dict[str, Any] = {"class_token": class_token, "reg_tokens": reg_tokens}
        super().__init__(mlp_layer=feed_forward, **own, **tokens, **kwargs)


MODELS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    # 5.4 M parameters with 100 classes; kernel 5 unless told otherwise
    "conv_vit_tiny": (ConvolutionalViT, {"patch_size": 4, "embed_dim": 192, "depth": 12, "num_heads": 3}),
    "conv_vit_mini": (
        ConvolutionalViT,
        {**_MINI, "global_pool": "avg", "weight_init": "jax"},
    ),  # as `vit_mini`
    # 5.9 M parameters at 224 pixels with 1000 classes
    "localvit_tiny": (LocalViT, {"embed_dim": 192, "depth": 12, "num_heads": 4}),
    "localvit_mini": (LocalViT, _MINI),
}


def _build(name: str, pretrained: bool, given: dict[str, Any]) -> nn.Module:
    cls, sizes = MODELS[name]
    given = small_image_constants(given) if name == "localvit_tiny" else given
    return make_transformer(cls, name, pretrained, {**sizes, **given})


for _name in MODELS:
    register(__name__, _name, partial(_build, _name))
