"""Answers to questions about images: ViLT of transformers, from a small configuration or from the hub.

    model = create_model("vilt_mini", num_classes=13, vocabulary=Words.of(questions).vocabulary)
    model({"pixel_values": images, **model.vitscope_words(questions)})      (N, 13)

An image alone is asked nothing: exams that look at what becomes of images need no question. transformers puts the
patches of an image in an order that it draws in every pass. It makes no difference to the answer beyond the last
digits, but there is no map then, and no training goes on exactly where it stopped: whole images keep their order here.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import ViltConfig, ViltForQuestionAnswering
from transformers.models.vilt.modeling_vilt import ViltEmbeddings

from vitscope.models.dense.words import HubWords, Words

MINI = {  # 0.8 M parameters on 8x8 patches of 64 pixels
    **{"hidden_size": 96, "num_hidden_layers": 6, "num_attention_heads": 3, "intermediate_size": 384},
    **{"image_size": 64, "patch_size": 8, "max_image_length": -1},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}


class OrderedEmbeddings(ViltEmbeddings):
    """transformers' own; the patches of a batch of whole images come row by row."""

    def visual_embed(
        self, pixel_values: Tensor, pixel_mask: Tensor, max_image_length: int = 200
    ) -> tuple[Tensor, Tensor, Any]:
        """Class token and patches with their positions; which of them are there; where they are."""
        x = self.patch_embeddings(pixel_values)
        count, channels, height, width = x.shape
        too_many = 0 <= max_image_length < height * width
        if too_many or not (pixel_mask.is_meta or bool(pixel_mask.all())):
            found: tuple[Tensor, Tensor, Any] = super().visual_embed(
                pixel_values, pixel_mask, max_image_length
            )
            return found
        side = self.config.image_size // self.config.patch_size
        grid = self.position_embeddings[:, 1:].transpose(1, 2).reshape(1, channels, side, side)
        if (height, width) != (side, side):
            grid = F.interpolate(grid, size=(height, width), mode="bilinear", align_corners=True)
        patches = x.flatten(2).transpose(1, 2) + grid.flatten(2).transpose(1, 2)
        first = (self.cls_token + self.position_embeddings[:, :1]).expand(count, -1, -1)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        where = torch.stack((rows, columns), -1).reshape(1, -1, 2).expand(count, -1, -1).to(x.device)
        mask = torch.ones(count, 1 + height * width, dtype=torch.long, device=x.device)
        return self.dropout(torch.cat((first, patches), 1)), mask, (where, (height, width))


def build_mini(classes: int, size: int | None, words: Words, changes: Mapping[str, Any]) -> nn.Module:
    """`vilt_mini`, for so many answers and images of this side; `changes` are for its configuration."""
    sizes = {"vocab_size": words.size, "max_position_embeddings": words.length, "num_labels": classes}
    given = {**MINI, **sizes, **({} if size is None else {"image_size": size}), **changes}
    return prepared(ViltForQuestionAnswering(ViltConfig(**given)), words)


def prepared(model: nn.Module, words: Words | HubWords | None) -> nn.Module:
    """Let a ViLT be asked in one argument, keep the order of its patches, and say what it takes."""
    embeddings: Any = model.vilt.embeddings  # type: ignore[union-attr]
    embeddings.__class__ = OrderedEmbeddings
    config: Any = model.config
    model.no_weight_decay = set  # type: ignore[assignment]  # as ViLT is trained: biases and norms alone are spared
    length = words.length if words is not None else config.max_position_embeddings
    model.vitscope_task = "vqa"  # type: ignore[assignment]
    model.vitscope_words = words  # type: ignore[assignment]
    model.vitscope_example = {  # type: ignore[assignment]
        "pixel_values": (config.num_channels, config.image_size, config.image_size),
        "input_ids": (length,),
        "attention_mask": (length,),
    }
    model.register_forward_pre_hook(_named, with_kwargs=True)
    return model


def _named(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A dict of inputs, or images alone, as the named inputs that transformers takes."""
    if len(args) == 1 and isinstance(args[0], Mapping):
        return (), {**args[0], **kwargs}
    if len(args) == 1 and args[0].is_floating_point():
        return (), {"pixel_values": args[0], **_nothing(module, args[0]), **kwargs}
    return args, kwargs


def _nothing(module: Any, images: Tensor) -> dict[str, Tensor]:
    """No question, for each of the images."""
    words, length = module.vitscope_words, module.vitscope_example["input_ids"][0]
    asked = words([""]) if words is not None else {"input_ids": torch.zeros(1, length, dtype=torch.long)}
    return {name: ids.to(images.device).expand(len(images), -1) for name, ids in asked.items()}
