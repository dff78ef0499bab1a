"""PVT, the first pyramid vision transformer (Wang et al., 2021), of which timm has the second version only.

Four stages. Each begins with a convolution of kernel = stride (4, then 2) and a learned position embedding, and attends
with keys and values that a convolution of kernel = stride = R has reduced to 1/R of the side, R = 8, 4, 2, 1:

    x <- x + proj(softmax(q(y) k(reduce(y))^T / sqrt(d)) v(reduce(y))),  y = LN(x)
    x <- x + MLP(LN(x))

The last stage has a class token, which the head reads. The blocks are those of timm's Twins without windows.

Images of up to 32 pixels get first patches of 1x1, of up to 64 pixels 2x2: the maps then go down to 4x4 and every stage
has 4x4 keys, where 224 pixels give 7x7 of both.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from timm.layers import calculate_drop_path_rates, to_2tuple, trunc_normal_
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models._features import feature_take_indices
from timm.models.twins import Block, PatchEmbed
from torch import Tensor, nn

from vitscope.models.zoo.registration import fashion_cfg, imagenet_cfg, small_image_constants

default_cfgs = generate_default_cfgs(
    {
        "pvt_small.untrained": imagenet_cfg("patch_embed.proj", "head", fixed_input_size=True),
        "pvt_mini.untrained": fashion_cfg("patch_embed.proj", "head", fixed_input_size=True),
    }
)
_BLOCK_NORM: Any = partial(nn.LayerNorm, eps=1e-6)  # timm's annotations ask for a class


def first_patch(img_size: int | tuple[int, int]) -> int:
    """Side of the first patches: 4 as published, less for small images."""
    side = max(to_2tuple(img_size))
    return 1 if side <= 32 else 2 if side <= 64 else 4


class Stage(nn.Module):
    """Patches, position embedding, blocks."""

    def __init__(
        self, embed: PatchEmbed, width: int, blocks: Sequence[nn.Module], class_token: bool, dropout: float
    ) -> None:
        super().__init__()
        self.embed = embed
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width)) if class_token else None
        self.pos_embed = nn.Parameter(torch.zeros(1, class_token + embed.num_patches, width))
        self.pos_drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens after the last block (the class token first, if there is one), and the map of the others."""
        x, size = self.embed(x)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.pos_drop(x + self.pos_embed)
        for block in self.blocks:
            x = block(x, size)
        patches = x if self.cls_token is None else x[:, 1:]
        return x, patches.unflatten(1, size).permute(0, 3, 1, 2)


class PyramidVisionTransformer(nn.Module):
    """PVT.

    Args:
        img_size: Side or (height, width) of the images.
        patch_size: Side of the first patches; `first_patch(img_size)` if not given.
        in_chans: Channels of the images.
        num_classes: Size of the head; 0 leaves it out.
        embed_dims: Width per stage.
        depths: Blocks per stage.
        num_heads: Heads per stage.
        mlp_ratios: Hidden units of the MLPs in widths, per stage.
        sr_ratios: By how much the sides of the keys' map are reduced, per stage.
        drop_rate: Dropout of embeddings and projections.
        attn_drop_rate: Dropout of attention probabilities.
        drop_path_rate: Stochastic depth of the last block; grows linearly from 0.
    """

    def __init__(
        self,
        img_size: int | tuple[int, int] = 224,
        patch_size: int | None = None,
        in_chans: int = 3,
        num_classes: int = 1000,
        embed_dims: Sequence[int] = (64, 128, 320, 512),
        depths: Sequence[int] = (3, 4, 6, 3),
        num_heads: Sequence[int] = (1, 2, 5, 8),
        mlp_ratios: Sequence[float] = (8, 8, 4, 4),
        sr_ratios: Sequence[int] = (8, 4, 2, 1),
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.num_features = self.head_hidden_size = self.embed_dim = embed_dims[-1]
        rates: Any = calculate_drop_path_rates(drop_path_rate, list(depths), stagewise=True)
        side, patch, channels = to_2tuple(img_size), patch_size or first_patch(img_size), in_chans
        stages: list[Stage] = []
        self.feature_info: list[dict[str, Any]] = []
        reduction = 1
        for i, width in enumerate(embed_dims):
            embed = PatchEmbed(side, patch, channels, width)
            # ws=1 is Twins' word for attention to the whole, reduced map
            shape: dict[str, Any] = {"mlp_ratio": mlp_ratios[i], "sr_ratio": sr_ratios[i], "ws": 1}
            drops: dict[str, Any] = {"proj_drop": drop_rate, "attn_drop": attn_drop_rate}
            blocks = [
                Block(width, num_heads[i], drop_path=rate, norm_layer=_BLOCK_NORM, **shape, **drops)
                for rate in rates[i]
            ]
            last = i == len(embed_dims) - 1
            stages.append(Stage(embed, width, blocks, class_token=last, dropout=drop_rate))
            reduction *= patch
            self.feature_info.append({"num_chs": width, "reduction": reduction, "module": f"stages.{i}"})
            side, patch, channels = (embed.H, embed.W), 2, width
        self.stages = nn.ModuleList(stages)
        self.norm = _BLOCK_NORM(self.num_features)
        self.head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()
        self.apply(_initialise)

    @property
    def patch_embed(self) -> nn.Module:
        """The first patches, by the name under which timm's models have theirs."""
        return self.get_submodule("stages.0.embed")

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        """The class token, as published."""
        return {name for name, _ in self.named_parameters() if name.endswith("cls_token")}

    def get_classifier(self) -> nn.Module:
        """The head."""
        return self.head

    def reset_classifier(self, num_classes: int) -> None:
        """A new head."""
        self.num_classes = num_classes
        head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()
        self.head = head.to(self.norm.weight)

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | Sequence[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        """The tokens at the end and the maps after the stages, as timm's models give them.

        Only the last map can be normalised; the maps are NCHW.
        """
        if output_fmt != "NCHW":
            raise ValueError(f"the maps of a PVT come as NCHW, not as {output_fmt}")
        wanted = indices if indices is None or isinstance(indices, int) else list(indices)
        taken, last = feature_take_indices(len(self.stages), wanted)
        end = last if stop_early else len(self.stages) - 1
        maps: list[Tensor] = []
        for i, stage in enumerate(self.stages[: end + 1]):
            tokens, x = stage(x)
            if i in taken:
                maps.append(x)
        if end == len(self.stages) - 1:
            tokens = self.norm(tokens)
            if norm and end in taken:
                maps[-1] = tokens[:, 1:].unflatten(1, x.shape[2:]).permute(0, 3, 1, 2)
        return maps if intermediates_only else (tokens, maps)

    def forward_features(self, x: Tensor) -> Tensor:
        """Tokens of the last stage, the class token first."""
        for stage in self.stages:
            tokens, x = stage(x)
        return self.norm(tokens)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits of the class token."""
        return x[:, 0] if pre_logits else self.head(x[:, 0])

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.forward_head(self.forward_features(x))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, Stage):
        trunc_normal_(module.pos_embed, std=0.02)
        if module.cls_token is not None:
            trunc_normal_(module.cls_token, std=0.02)


def _make(name: str, pretrained: bool, arguments: dict[str, Any]) -> nn.Module:
    features = {"feature_cls": "getter", "out_indices": 4}
    return build_model_with_cfg(PyramidVisionTransformer, name, pretrained, feature_cfg=features, **arguments)


@register_model
def pvt_small(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """PVT-S: 24.5 M parameters at 224 pixels with 1000 classes."""
    return _make("pvt_small", pretrained, small_image_constants(kwargs))


@register_model
def pvt_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """PVT of four pairs of blocks, 16 to 128 wide, for 32 pixels: maps of 32, 16, 8, 4."""
    sizes = {"embed_dims": (16, 32, 64, 128), "depths": (2, 2, 2, 2), "num_heads": (1, 2, 4, 8)}
    return _make("pvt_mini", pretrained, {**sizes, **kwargs})
