"""Passes that are interrupted: who may go on with them."""

from pathlib import Path

import pytest
from torch import Tensor, nn

from tests.exams.factories import small_transformer
from vitscope.data import ImageData
from vitscope.engine.finished_parts import Parts
from vitscope.exams import occlusion

FEW = {"side": 4, "shares": (0.5,)}


class Counting(nn.Module):
    """A model that counts its passes, and is interrupted in the middle of one if told so."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_transformer()
        self.pretrained_cfg = {**self.inner.pretrained_cfg, "input_size": (3, 32, 32)}
        self.passes, self.last = 0, 10**9

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        if self.passes > self.last:
            raise KeyboardInterrupt
        return self.inner(images)


def test_only_the_same_key_goes_on(fashion: ImageData, tmp_path: Path) -> None:
    request = {"limit": 60, "batch_size": 16, **FEW}
    whole = Counting()
    occlusion(whole, fashion, **request)
    model = Counting()
    model.last = int(0.7 * whole.passes)  # in the third of four batches
    with pytest.raises(KeyboardInterrupt):
        occlusion(model, fashion, parts=Parts(tmp_path, "occlusion", "key"), **request)
    for key, most in (("key", 0.6 * whole.passes), ("another", whole.passes)):
        model.passes, model.last = 0, 10**9
        occlusion(model, fashion, parts=Parts(tmp_path, "occlusion", key), **request)
        assert model.passes <= most
        assert (model.passes == whole.passes) == (key == "another")


def test_a_pass_with_other_batches_starts_from_the_beginning(fashion: ImageData, tmp_path: Path) -> None:
    model = Counting()
    occlusion(model, fashion, limit=20, batch_size=10, parts=Parts(tmp_path, "occlusion", "key"), **FEW)
    first, model.passes = model.passes, 0
    occlusion(model, fashion, limit=20, batch_size=20, parts=Parts(tmp_path, "occlusion", "key"), **FEW)
    assert 0 < model.passes < first  # one batch instead of two, all of it
