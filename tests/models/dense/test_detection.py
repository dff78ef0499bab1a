"""Mask R-CNN on any backbone: torchvision's own loss, image by image."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.transform import GeneralizedRCNNTransform

from tests.models.dense.cases import images, make, shared
from vitscope.core.errors import VitscopeError

DRAWS = [(3, 0), (3, 1), (3, 2)]


def targets(dtype: torch.dtype = torch.float32) -> list[dict[str, Tensor]]:
    masks = torch.zeros(2, 32, 32, dtype=torch.uint8)
    masks[0, 4:14, 4:16] = 1
    masks[1, 18:30, 20:30] = 1
    boxes = torch.tensor([[4, 4, 16, 14], [20, 18, 30, 30]], dtype=dtype)
    two = {"boxes": boxes, "labels": torch.tensor([0, 2]), "masks": masks}
    one = {key: value[1:] for key, value in two.items()}
    none = {key: value[:0] for key, value in two.items()}
    return [two, one, none]


class _Features(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        return self.model.head.features(self.model.pyramid(image))


class _AsItIs(GeneralizedRCNNTransform):
    """Resizes to the size that images have, for which it draws nothing, and normalises by nothing."""

    def __init__(self) -> None:
        super().__init__(32, 32, [0.0] * 3, [1.0] * 3, size_divisible=1)

    def torch_choice(self, k: list[int]) -> int:
        return k[0]


@pytest.mark.parametrize("backbone", ["resnet_mini", "vit_mini"])
def test_the_loss_of_an_image_is_torchvisions(backbone: str) -> None:
    """Its `GeneralizedRCNN` in training, with the same parts and seed, on a batch of one."""
    model = copy.deepcopy(shared(f"maskrcnn:{backbone}"))
    whole = GeneralizedRCNN(_Features(model), model.head.rpn, model.head.roi_heads, _AsItIs())
    pictures = images(3)
    for picture, target, draw in zip(pictures, targets(), DRAWS, strict=True):
        ours = model.losses(picture[None], [target], [draw])
        assert not model.head.rpn.training
        whole.train()
        model.backbone.eval()
        model.neck.eval()
        torch.manual_seed(int(np.random.SeedSequence(draw).generate_state(1)[0]))
        theirs = whole([picture], [{**target, "labels": target["labels"] + 1}])
        model.eval()
        assert set(theirs) == {
            "loss_classifier", "loss_box_reg", "loss_mask", "loss_objectness", "loss_rpn_box_reg",
        }  # fmt: skip
        torch.testing.assert_close(ours[0], sum(theirs.values()))


def test_the_loss_does_not_depend_on_who_comes_along() -> None:
    model = copy.deepcopy(shared("maskrcnn:vit_mini")).double()
    pictures, wanted = images(3).double(), targets(torch.float64)
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    together = model.losses(pictures, wanted, DRAWS)
    assert torch.equal(torch.random.get_rng_state(), state)
    apart = [model.losses(pictures[i : i + 1], wanted[i : i + 1], DRAWS[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(torch.cat(apart), together, rtol=1e-10, atol=0)
    backwards = model.losses(pictures.flip(0), wanted[::-1], DRAWS[::-1]).flip(0)
    torch.testing.assert_close(backwards, together, rtol=1e-10, atol=0)
    assert torch.equal(model(pictures, wanted, DRAWS), together)


def test_every_weight_that_is_used_learns() -> None:
    model = copy.deepcopy(shared("maskrcnn:vit_mini")).train()
    model.losses(images(3), targets(), DRAWS).mean().backward()
    silent = {n.removeprefix("backbone.") for n, p in model.named_parameters() if p.grad is None}
    assert silent == set(model.unused)


def test_what_is_found() -> None:
    model = shared("maskrcnn:vit_mini")
    with torch.no_grad():
        found = model(images())
    assert len(found) == 2
    for one in found:
        count = len(one["boxes"])
        assert 0 < count <= 100
        assert one["boxes"].shape == (count, 4)
        assert one["masks"].shape == (count, 32, 32)
        assert one["boxes"].min() >= 0
        assert one["boxes"].max() <= 32
        assert set(one["labels"].tolist()) <= {0, 1, 2}
        assert 0 <= one["masks"].min() <= one["masks"].max() <= 1


def test_anchors_follow_the_steps_of_the_maps() -> None:
    """8 times the step: those of the paper, 32 to 512, at the steps of a ResNet-50, 4 to 64."""
    sizes = {
        name: shared(f"maskrcnn:{name}").head.rpn.anchor_generator.sizes
        for name in ("vit_mini", "resnet_mini")
    }
    assert set(sizes.values()) == {((8,), (16,), (32,), (64,), (128,))}
    assert make("maskrcnn:resnet18", img_size=96).head.rpn.anchor_generator.sizes == tuple(
        (size,) for size in (32, 64, 128, 256, 512)
    )


def test_images_and_models_without_masks() -> None:
    model = copy.deepcopy(shared("maskrcnn:vit_mini"))
    target = {key: value for key, value in targets()[0].items() if key != "masks"}
    less = model.losses(images(1), [target], DRAWS[:1])
    assert less < model.losses(images(1), targets()[:1], DRAWS[:1])
    boxes_only = make("maskrcnn:vit_mini", masks=False)
    boxes_only.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("head.roi_heads.mask")}
    )
    assert torch.equal(boxes_only.losses(images(1), [target], DRAWS[:1]), less)
    with torch.no_grad():
        assert set(boxes_only(images(1))[0]) == {"boxes", "labels", "scores"}


def test_crowds_are_no_objects() -> None:
    model = shared("maskrcnn:vit_mini")
    crowded = {**targets()[0], "crowd": torch.tensor([True, False])}
    with torch.no_grad():
        seen = model.losses(images(1), [crowded], DRAWS[:1])
        assert torch.equal(seen, model.losses(images(1), targets()[1:2], DRAWS[:1]))


def test_wrong_calls_are_refused() -> None:
    model = shared("maskrcnn:vit_mini")
    flat = {**targets()[1], "boxes": torch.tensor([[4.0, 4.0, 4.0, 9.0]])}
    with pytest.raises(VitscopeError, match=r"\[4.0, 4.0, 4.0, 9.0\] has no area"):
        model.losses(images(1), [flat], DRAWS[:1])
    with pytest.raises(VitscopeError, match="2 images, 1 targets and 1 draws"):
        model.losses(images(2), targets()[:1], DRAWS[:1])
    with pytest.raises(VitscopeError, match=r"learns from targets: model.losses"):
        copy.deepcopy(model).train()(images(1))
