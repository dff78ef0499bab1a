"""What the head reads."""

import pytest
import timm
import torch

import vitscope as vs
from tests.cases import HAND_MADE, HUGGING_FACE, Case, timm_case
from vitscope.anatomy import dissect
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.predictions import head_reads

SMALL = {"img_size": 32, "patch_size": 8, "depth": 2}
HF = {case.name: case for case in HUGGING_FACE}


@pytest.mark.parametrize(
    ("case", "read", "patches"),
    [
        (timm_case("vit_tiny_patch16_224", 32, **SMALL), (0,), False),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, global_pool="avg"), (), True),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, global_pool="map"), (), True),
        (timm_case("deit_tiny_distilled_patch16_224", 32, **SMALL), (0, 1), False),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, reg_tokens=2), (0,), False),
        (HF["hf:dinov2-sdpa"], (0,), True),  # class token beside the mean of the others
    ],
)
def test_tokens_read(case: Case, read: tuple[int, ...], patches: bool) -> None:
    model = case.model()
    readout = head_reads(dissect(model, case.size), model, case.size)
    assert readout is not None
    assert (readout.read, readout.reads_patches) == (read, patches)


def test_weights_that_are_zero_do_not_hide_it() -> None:
    model = timm.create_model("vit_tiny_patch16_224", **SMALL)
    torch.nn.init.zeros_(model.head.weight)
    readout = head_reads(dissect(model), model)
    assert readout is not None
    assert readout.read == (0,)


def test_none_where_the_stream_has_no_prefix_tokens() -> None:
    model = HAND_MADE.model()
    assert head_reads(dissect(model, HAND_MADE.size), model, HAND_MADE.size) is None


def test_it_needs_weights() -> None:
    with torch.device("meta"):
        model = vs.create_model("vit_mini")
    with pytest.raises(CannotOperate, match="build the model with weights"):
        head_reads(dissect(model), model)
