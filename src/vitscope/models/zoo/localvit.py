"""LocalViT (Li et al., 2021), which timm lacks: a ViT whose feed-forward networks look at the neighbouring patches.

On the patch tokens, put back on their grid, while the class token passes by unchanged:

    x <- x + BN(W2 SE(h(BN(D h(BN(W1 x))))))

W1 and W2 are 1x1 convolutions (192 to 768 channels and back), D is a depthwise 3x3 one, h the hard swish, SE a
squeeze-and-excitation with 4 hidden units and a hard sigmoid. There is no layer norm before it. This is the published
LocalViT-T of 5.9 M parameters ("h-swish + SE", reduction 192), with its four heads of 48 where DeiT-Ti has three of 64.

Images of up to 32 pixels get patches of 2x2, of up to 64 pixels 4x4, larger ones 16x16.
"""

from functools import partial
from typing import Any

import torch
from timm.layers import SqueezeExcite, to_2tuple
from timm.models import generate_default_cfgs, register_model
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from vitscope.models.input_configs import fashion_cfg, imagenet_cfg, small_image_constants
from vitscope.models.zoo.small_images import make_transformer

default_cfgs = generate_default_cfgs(
    {
        "localvit_tiny.untrained": imagenet_cfg("patch_embed.proj", "head", fixed_input_size=True),
        "localvit_mini.untrained": fashion_cfg("patch_embed.proj", "head", fixed_input_size=True),
    }
)
_SQUEEZED = 4  # hidden units of the squeeze-and-excitation: 4 x width, reduced by the width


class LocalFeedForward(nn.Module):
    """The branch of the feed-forward network.

    Args:
        in_features: Width of the tokens.
        hidden_features: Width inside.
        grid: Rows and columns of the patches.
        prefix_tokens: How many tokens (the class token, registers) come before the patches.
        drop: Dropout at its end.
        **_: What timm's block offers to any MLP, and this one has no use for.
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
        self.expand = nn.Sequential(
            nn.Conv2d(in_features, hidden_features, 1, bias=False),
            nn.BatchNorm2d(hidden_features),
            nn.Hardswish(),
        )
        self.local = nn.Sequential(
            nn.Conv2d(hidden_features, hidden_features, 3, padding=1, groups=hidden_features, bias=False),
            nn.BatchNorm2d(hidden_features),
            nn.Hardswish(),
        )
        self.excite = SqueezeExcite(hidden_features, rd_channels=_SQUEEZED, gate_layer="hard_sigmoid")
        self.project = nn.Sequential(
            nn.Conv2d(hidden_features, in_features, 1, bias=False), nn.BatchNorm2d(in_features)
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
        super().__init__(
            img_size=img_size,
            patch_size=patch,
            class_token=class_token,
            reg_tokens=reg_tokens,
            block_fn=LocalBlock,
            mlp_layer=feed_forward,
            **kwargs,
        )


@register_model
def localvit_tiny(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """LocalViT-T: 5.9 M parameters at 224 pixels with 1000 classes."""
    sizes = {"embed_dim": 192, "depth": 12, "num_heads": 4}
    return make_transformer(LocalViT, "localvit_tiny", pretrained, {**sizes, **small_image_constants(kwargs)})


@register_model
def localvit_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """LocalViT of 6 blocks, 96 wide, 3 heads, on 8x8 patch tokens."""
    sizes = {"patch_size": 4, "embed_dim": 96, "depth": 6, "num_heads": 3}
    return make_transformer(LocalViT, "localvit_mini", pretrained, {**sizes, **kwargs})
