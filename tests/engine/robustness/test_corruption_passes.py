"""What the passes of the corruption exam keep, and what they refuse."""

from pathlib import Path

import pytest
import torch

from tests.exams.factories import spread_transformer as transformer
from vitscope.data import ImageData
from vitscope.data.corruptions.cache import cache_folder
from vitscope.engine.finished_parts import Parts
from vitscope.engine.own_passes import own_passes
from vitscope.engine.robustness import corruption_passes
from vitscope.engine.robustness.corruption_passes import CorruptionPasses
from vitscope.engine.robustness.pixels import UnknownNormalisation

CONDITIONS = [("fog", 2)]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))


def scores(data: object, cache: bool | None = None) -> dict[str, dict[str, torch.Tensor]]:
    model = transformer()
    with own_passes(model, data, 12, 5, 0, None, None, labelled=True) as own:
        passes = CorruptionPasses(model, own, CONDITIONS, 0, 5, Parts.nowhere())
        return passes.generated(cache, workers=0)


def test_small_sets_are_kept_by_default_and_large_ones_are_not(
    fashion: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corruption_passes, "MOST_KEPT", 12 * 3 * 32 * 32 - 1)
    whole = scores(fashion)
    assert not list(cache_folder().iterdir())
    monkeypatch.setattr(corruption_passes, "MOST_KEPT", 12 * 3 * 32 * 32)
    kept = scores(fashion)
    assert [path.name for path in cache_folder().rglob("*.npy")] == ["fog-2.npy"]
    assert not list(cache_folder().glob(".scratch*"))
    assert all(torch.equal(whole[name]["sums"], kept[name]["sums"]) for name in ("clean", "fog 2"))


def test_8_bit_and_normalised_images_are_the_same_pictures(fashion: ImageData) -> None:
    assert fashion.images is not None
    model = transformer()
    pixels = torch.from_numpy(fashion.images[:12]).permute(0, 3, 1, 2).expand(-1, 3, -1, -1).contiguous()
    labels = torch.from_numpy(fashion.labels[:12])
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(-1, 1, 1) for key in ("mean", "std"))  # type: ignore[index]
    as_floats = ((pixels / 255 - mean) / std, labels)
    # 8-bit pictures are cut as the model's configuration says; the floats stand for pictures as they are
    model.pretrained_cfg["crop_pct"] = 1.0  # type: ignore[index, operator]
    with own_passes(model, (pixels, labels), None, 5, 0, None, None, labelled=True) as own:
        bytes_ = CorruptionPasses(model, own, CONDITIONS, 0, 5, Parts.nowhere()).generated(True, 0)
    with own_passes(model, as_floats, None, 5, 0, None, None, labelled=True) as own:
        floats = CorruptionPasses(model, own, CONDITIONS, 0, 5, Parts.nowhere()).generated(True, 0)
    assert torch.equal(bytes_["fog 2"]["sums"], floats["fog 2"]["sums"])
    assert len(list(cache_folder().rglob("*.npy"))) == 1


def test_numbers_that_no_picture_has_are_refused() -> None:
    data = (
        torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 5,
        torch.zeros(8, dtype=torch.long),
    )
    with pytest.raises(
        UnknownNormalisation, match=r"numbers from -21.* pass the mean= and std= .* or 8-bit images"
    ):
        scores(data)
