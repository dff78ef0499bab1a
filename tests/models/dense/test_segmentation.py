"""Class scores of every pixel, on any backbone; its decoder is segmentation-models-pytorch's."""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
from segmentation_models_pytorch.decoders.unet.decoder import UnetDecoder
from segmentation_models_pytorch.decoders.upernet.decoder import UPerNetDecoder

from tests.models.dense.cases import SHORT, images, make, shared
from vitscope.core.errors import VitscopeError


@pytest.mark.parametrize("backbone", SHORT)
def test_every_pixel_gets_scores_and_every_weight_that_is_used_a_gradient(backbone: str) -> None:
    model = copy.deepcopy(shared(f"upernet:{backbone}")).train()
    scores = model(images())
    assert scores.shape == (2, 3, 32, 32)
    scores.pow(2).sum().backward()
    without = {name.removeprefix("backbone.") for name, p in model.named_parameters() if p.grad is None}
    assert without == set(model.unused)
    assert {name.split(".")[0] for name in without} <= {"norm", "fc_norm", "head", "fc"}
    assert all(not model.backbone.get_parameter(name).requires_grad for name in without)


@pytest.mark.parametrize("backbone", ["resnet_mini", "alternet_mini"])
@pytest.mark.parametrize("size", [(33, 47), (96, 64), (32, 72)])
def test_any_size_that_the_backbone_takes(backbone: str, size: tuple[int, int]) -> None:
    with torch.no_grad():
        assert shared(f"upernet:{backbone}")(images(1, size)).shape == (1, 3, *size)


@pytest.mark.parametrize("size", [(48, 64), (64, 48), (32, 72)])
def test_the_tokens_of_other_sizes_become_the_right_map(size: tuple[int, int]) -> None:
    """4x9 patches are as many as 6x6: what the neck is given is what timm says the maps are."""
    model = shared("upernet:vit_mini", dynamic_img_size=True)
    seen = []
    hook = model.neck.register_forward_hook(lambda _, given, output: seen.extend(given))
    with torch.no_grad():
        model(images(1, size))
        hook.remove()
        wanted = model.backbone.forward_intermediates(images(1, size), intermediates_only=True)
    assert len(seen) == len(wanted) == 4
    for one, other in zip(seen, wanted, strict=True):
        assert one.shape[2:] == (size[0] // 4, size[1] // 4)
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("backbone", "indices"),
    [("resnet_mini", [1, 2, 3, 4]), ("swin_mini", [0, 1, 2, 3]), ("pit_mini", [0, 1, 2])],
)
def test_stages_are_those_that_timm_gives(backbone: str, indices: list[int]) -> None:
    model = shared(f"upernet:{backbone}")
    with torch.no_grad():
        seen = model.pyramid(images())
        wanted = model.backbone.forward_intermediates(images(), indices, intermediates_only=True)
    assert [one.shape for one in seen] == [other.shape for other in wanted]
    assert all(torch.equal(one, other) for one, other in zip(seen, wanted, strict=True))


def test_a_vit_becomes_a_pyramid() -> None:
    model = shared("upernet:vit_mini")
    assert [level.unit for level in model.levels] == [f"blocks.{i}.mlp" for i in range(4)]
    with torch.no_grad():
        pyramid = model.pyramid(images())
    assert [one.shape[1:] for one in pyramid] == [(96, side, side) for side in (32, 16, 8, 4)]
    grid = model.backbone.forward_intermediates(images(), intermediates_only=True)
    with torch.no_grad():
        assert torch.equal(pyramid[2], grid[2])
        assert torch.equal(pyramid[3], F.max_pool2d(grid[3], 2))


@pytest.mark.parametrize("backbone", ["vit_mini", "resnet_mini", "pit_mini"])
def test_upernet_is_the_librarys(backbone: str) -> None:
    """The same weights in segmentation-models-pytorch's own module, on the same maps."""
    model = shared(f"upernet:{backbone}")
    theirs = UPerNetDecoder([3, 0, *model.channels], 1 + len(model.channels), decoder_channels=8).eval()
    theirs.load_state_dict(model.head.decoder.state_dict())
    with torch.no_grad():
        maps = [None, None, *model.pyramid(images())]
        scores = F.conv2d(theirs(maps), model.head.classifier.weight, model.head.classifier.bias)
        wanted = F.interpolate(scores, size=(32, 32), mode="bilinear", align_corners=False)
        assert torch.equal(model(images()), wanted)


def test_unet_is_the_librarys() -> None:
    model = make("unet:resnet_mini")
    theirs = UnetDecoder([3, *model.channels], [64, 32, 16, 8], n_blocks=4).eval()
    theirs.load_state_dict(model.head.decoder.state_dict())
    with torch.no_grad():
        found = theirs([images(), *model.pyramid(images())])
        wanted = F.conv2d(found, model.head.classifier.weight, model.head.classifier.bias, padding=1)
        assert torch.equal(model(images()), wanted)
        assert model(images(1, (33, 47))).shape == (1, 3, 33, 47)


def test_one_image_alone_is_nothing_to_learn_from() -> None:
    model = copy.deepcopy(shared("upernet:resnet_mini")).train()
    with pytest.raises(VitscopeError, match="at least 2 in a batch"):
        model(images(1))


def test_the_image_may_have_other_channels() -> None:
    model = make("upernet:resnet_mini", in_chans=1)
    with torch.no_grad():
        assert model(torch.randn(1, 1, 32, 32)).shape == (1, 3, 32, 32)


def test_the_backbone_is_what_it_was() -> None:
    """The numbers of the bare backbone, hooks and frozen weights or not."""
    model = shared("upernet:vit_mini")
    bare = timm.create_model("vit_mini", depth=4).eval()
    bare.load_state_dict(model.backbone.state_dict())
    with torch.no_grad():
        assert torch.equal(bare(images()), model.backbone(images()))
