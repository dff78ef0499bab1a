"""Boxes, classes and masks of the objects in an image: torchvision's Mask R-CNN with its pyramid, on any backbone.

Widths follow from one number: `channels=256` is the published one, with 1024 in the box head. So do anchors: on each
level they are 8 times as large as the step between its points, which is 32 to 512 pixels on a ResNet-50, and 8 to
128 where the finest map has a point for every pixel of a small image.

torchvision resizes and normalises images itself; here they come prepared, as to every other model. Classes are 0 to
C - 1, and the background is nobody's affair but the head's.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from timm.layers import LayerNorm2d
from torch import Tensor, nn
from torchvision.models.detection import MaskRCNN as TorchvisionMaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from vitscope.core.errors import UnsupportedModel, VitscopeError
from vitscope.core.tensors import seeded
from vitscope.models.dense.dense import Dense
from vitscope.models.dense.neck import NoNeck, strides_after

ANCHOR = 8  # times the step of a level
RATIOS = (0.5, 1.0, 2.0)
Target = Mapping[
    str, Tensor
]  # boxes (K, 4), labels (K,), masks (K, H, W) if there are any, crowd (K,) if it is said


class DetectionHead(nn.Module):
    """The pyramid of features that have seen all coarser ones; proposals; boxes, classes and masks of these."""

    def __init__(
        self,
        widths: Sequence[int],
        strides: Sequence[float],
        classes: int,
        channels: int,
        masks: bool,
        proposals: int,
    ) -> None:
        super().__init__()
        self.fpn = FeaturePyramidNetwork(list(widths), channels, LastLevelMaxPool())
        steps = [*strides, 2 * strides[-1]]
        names = [str(level) for level in range(len(widths))]
        detector = TorchvisionMaskRCNN(
            _Width(channels),
            rpn_anchor_generator=_Anchors(
                tuple((round(ANCHOR * step),) for step in steps), (RATIOS,) * len(steps)
            ),
            box_roi_pool=MultiScaleRoIAlign(names, output_size=7, sampling_ratio=2),
            box_head=TwoMLPHead(channels * 7**2, 4 * channels),
            box_predictor=FastRCNNPredictor(4 * channels, classes + 1),
            mask_roi_pool=MultiScaleRoIAlign(names, output_size=14, sampling_ratio=2),
            mask_head=MaskRCNNHeads(channels, (channels,) * 4, 1),
            mask_predictor=MaskRCNNPredictor(channels, channels, classes + 1),
            rpn_pre_nms_top_n_train=2 * proposals,
            rpn_pre_nms_top_n_test=proposals,
            rpn_post_nms_top_n_train=2 * proposals,
            rpn_post_nms_top_n_test=proposals,
            box_batch_size_per_image=min(512, proposals),
        )
        self.rpn, self.roi_heads = detector.rpn, detector.roi_heads
        if not masks:
            self.roi_heads.mask_roi_pool = self.roi_heads.mask_head = self.roi_heads.mask_predictor = None

    def forward(self, images: Tensor, *pyramid: Tensor) -> list[dict[str, Tensor]]:
        """What is found in each image."""
        features, shape = self.features(pyramid), (images.shape[-2], images.shape[-1])
        shapes = [shape] * len(images)
        proposals, _ = self.rpn(ImageList(images, shapes), features)
        found, _ = self.roi_heads(features, proposals, shapes)
        return [_as_ours(one, shape) for one in found]

    def features(self, pyramid: Sequence[Tensor]) -> dict[str, Tensor]:
        """The levels by torchvision's names."""
        named: dict[str, Tensor] = self.fpn(OrderedDict((str(k), one) for k, one in enumerate(pyramid)))
        return named

    def loss(self, image: Tensor, features: Mapping[str, Tensor], target: Target) -> Tensor:
        """Of one image (1, C, H, W): objectness, boxes of proposals, classes, boxes, masks; the sum."""
        shapes = [(image.shape[-2], image.shape[-1])]
        with _learning(self, "masks" in target):
            proposals, first = self.rpn(ImageList(image, shapes), features, [target])
            _, second = self.roi_heads(features, proposals, shapes, [target])
        return torch.stack([*first.values(), *second.values()]).sum()


class MaskRCNN(Dense):
    """What is in images (N, C, H, W): a list of dicts of boxes, labels, scores and masks, in their pixels.

    Args:
        backbone: Any model whose units anatomy finds.
        size: (channels, height, width) of the images it is built for.
        num_classes: Of objects, without the background.
        channels: Width of the feature pyramid; all others follow from it.
        proposals: Places that are looked at closely, twice as many while it learns; default: the published 1000, or for
            images of up to 256 pixels 100.
        masks: Whether it learns masks (K, H, W), too, each pixel's probability; without them it is Faster R-CNN.
    """

    vitscope_task = "detection"

    def __init__(
        self,
        backbone: nn.Module,
        size: tuple[int, int, int],
        num_classes: int,
        channels: int = 64,
        masks: bool = True,
        proposals: int | None = None,
    ) -> None:
        super().__init__(backbone, size, norm=LayerNorm2d)
        self.num_classes = num_classes
        plain = not isinstance(self.neck, NoNeck)
        strides = strides_after([level.stride for level in self.levels], plain)
        if proposals is None:
            proposals = 1000 if max(size[1:]) > 256 else 100
        self.head = DetectionHead(self.channels, strides, num_classes, channels, masks, proposals)

    def forward(
        self, images: Tensor, targets: Sequence[Target] | None = None, draws: Sequence[Any] | None = None
    ) -> Any:
        """What is found; with targets the losses, for who wraps the model and can only call it."""
        if targets is not None:
            return self.losses(images, targets, draws or [(0, i) for i in range(len(images))])
        if self.training:
            raise VitscopeError(
                "a detector in training learns from targets: model.losses(images, targets, draws); for what it finds: "
                "model.eval()"
            )
        if images.dtype in (torch.bfloat16, torch.float16):
            raise UnsupportedModel(
                f"this detector is in {str(images.dtype).removeprefix('torch.')}, and boxes are compared in float32 or "
                "float64 alone; give model.float()"
            )
        return self.head(images, *self.pyramid(images))

    def losses(self, images: Tensor, targets: Sequence[Target], draws: Sequence[tuple[int, ...]]) -> Tensor:
        """(N,) the loss of each image alone, in evaluation mode, too.

        The backbone sees all images at once; what is drawn among proposals follows from an image's `draws`, so that the
        loss does not depend on which images come together.
        """
        if not len(images) == len(targets) == len(draws):
            raise VitscopeError(
                f"{len(images)} images, {len(targets)} targets and {len(draws)} draws; expected one of each per image"
            )
        features = self.head.features(self.pyramid(images))
        losses = []
        for i, (target, draw) in enumerate(zip(targets, draws, strict=True)):
            own = {name: level[i : i + 1] for name, level in features.items()}
            with seeded(_seed(draw)):
                losses.append(self.head.loss(images[i : i + 1], own, _as_theirs(target)))
        return torch.stack(losses)


class _Width(nn.Module):
    """Stands for a backbone of torchvision's, which is asked for its width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = channels


class _Anchors(AnchorGenerator):
    """torchvision's, which keeps its anchors from the first pass on: of inference mode, learning could not use them."""

    def set_cell_anchors(self, dtype: torch.dtype, device: torch.device) -> None:
        with torch.inference_mode(False):
            super().set_cell_anchors(dtype, device)


@contextmanager
def _learning(head: DetectionHead, masks: bool) -> Iterator[None]:
    """Inside, proposals and heads give losses; without that of masks if the image has none."""
    parts, pool = (head.rpn, head.roi_heads), head.roi_heads.mask_roi_pool
    before = [part.training for part in parts]
    for part in parts:
        part.training = True
    if not masks:
        head.roi_heads.mask_roi_pool = None
    try:
        yield
    finally:
        head.roi_heads.mask_roi_pool = pool
        for part, was in zip(parts, before, strict=True):
            part.training = was


def _seed(draw: Sequence[int]) -> int:
    return int(np.random.SeedSequence([int(number) for number in draw]).generate_state(1)[0])


def _as_theirs(target: Target) -> dict[str, Tensor]:
    """As torchvision takes it: background is class 0; crowds, which are no single object, are left out."""
    keys = [key for key in ("boxes", "labels", "masks") if target.get(key) is not None]
    crowd = target.get("crowd")
    theirs = {key: target[key] if crowd is None else target[key][~crowd] for key in keys}
    boxes = theirs["boxes"]
    if bool((boxes[:, 2:] <= boxes[:, :2]).any()):
        wrong = boxes[(boxes[:, 2:] <= boxes[:, :2]).any(1)][0].tolist()
        raise VitscopeError(f"a box {wrong} has no area; expected x1 < x2 and y1 < y2")
    return {**theirs, "labels": theirs["labels"] + 1}


def _as_ours(found: Mapping[str, Tensor], shape: tuple[int, int]) -> dict[str, Tensor]:
    ours = {"boxes": found["boxes"], "labels": found["labels"] - 1, "scores": found["scores"]}
    if "masks" in found:
        ours["masks"] = paste_masks_in_image(found["masks"], found["boxes"], shape)[:, 0]
    return ours
