"""Convolutional ViT (HDV, Fig. 7): a ViT in which every patch attends to the kernel x kernel patches around it only.

The published experiment has ViT-Ti on 32-pixel images with patches of 4x4, that is 8x8 tokens, and kernels of 3, 5 and
8; a kernel of 8 sees the whole map and is ViT-Ti itself. As the paper's ViT it has a class token, from which the head
reads; the class token sees all patches and is seen by all. The parameters and their names are those of timm's ViT:
weights of one kernel fit the others.
"""

from typing import Any

from timm.layers import Attention
from timm.models import generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from vitscope.models.input_configs import cifar_cfg, fashion_cfg
from vitscope.models.zoo.local_attention import LocalAttention
from vitscope.models.zoo.small_images import make_transformer

default_cfgs = generate_default_cfgs(
    {
        "conv_vit_tiny.untrained": cifar_cfg("patch_embed.proj", "head", fixed_input_size=True),
        "conv_vit_mini.untrained": fashion_cfg("patch_embed.proj", "head", fixed_input_size=True),
    }
)


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
    """timm's ViT with local attention.

    Args:
        kernel: Side of the neighbourhood, in patches.
        **kwargs: As for timm's `VisionTransformer`.
    """

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


@register_model
def conv_vit_tiny(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Convolutional ViT-Ti on 8x8 patch tokens: 5.4 M parameters with 100 classes; kernel 5 unless told otherwise."""
    sizes = {"patch_size": 4, "embed_dim": 192, "depth": 12, "num_heads": 3}
    return make_transformer(ConvolutionalViT, "conv_vit_tiny", pretrained, {**sizes, **kwargs})


@register_model
def conv_vit_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Convolutional `vit_mini`: 6 blocks, 96 wide, 3 heads, 8x8 patch tokens, a head that averages them."""
    sizes = {"patch_size": 4, "embed_dim": 96, "depth": 6, "num_heads": 3}
    ways = {"global_pool": "avg", "weight_init": "jax"}
    return make_transformer(ConvolutionalViT, "conv_vit_mini", pretrained, {**sizes, **ways, **kwargs})
