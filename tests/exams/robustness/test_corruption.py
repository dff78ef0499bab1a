"""The corruption exam against models that are shown corrupted pictures by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.factories import spread_transformer as transformer
from tests.exams.robustness_models import Plain
from tests.exams.scores_by_hand import under_conditions
from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import ImageData, batches
from vitscope.data.corruptions import SEVERITIES, TYPES, corrupt
from vitscope.data.corruptions.cache import cache_folder
from vitscope.engine.resuming import PartialResults
from vitscope.exams import corruption
from vitscope.findings.corruption import CorruptionResult
from vitscope.results import Result

FEW = {"types": ("contrast", "shot_noise"), "severities": (1, 5)}


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels = (255 * (images / 2 + 0.5)).round().to(torch.uint8)
    worse = {
        k: corrupt(pixels, k, 1, 0, list(range(len(pixels)))) / 255 for k in ("brightness", "shot_noise")
    }
    clean = {"clean": images / 2 + 0.5}
    return under_conditions(model, labels, clean | {f"{kind} 1": x for kind, x in worse.items()})


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


class Counting(nn.Module):
    """Counts the images that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = transformer()
        self.pretrained_cfg = {**self.inner.pretrained_cfg, "input_size": (3, 32, 32)}  # type: ignore[dict-item]
        self.seen, self.last = 0, 10**9

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        if self.seen > self.last:
            raise KeyboardInterrupt
        found: Tensor = self.inner(images)
        return found


def test_equals_corrupting_by_hand(fashion: ImageData) -> None:
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    result = corruption(model, fashion, limit=50, batch_size=20, seed=3, **FEW)
    ((images, labels, indices),) = list(batches(fashion, model, batch_size=50, limit=50, seed=3))
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(-1, 1, 1) for key in ("mean", "std"))
    pixels = (255 * (images * std + mean)).round().to(torch.uint8)
    accuracies, nlls = [], []
    for kind in FEW["types"]:
        for severity in (1, 5):
            worse = corrupt(pixels, kind, severity, 3, indices.tolist())
            with torch.no_grad():
                logits = model((worse / 255 - mean) / std).double()
            accuracies.append(float((logits.argmax(1) == labels).double().mean()))
            nlls.append(float(nn.functional.cross_entropy(logits, labels)))
            assert result.of(kind, severity) == pytest.approx(accuracies[-1])
            assert result.of(kind, severity, "nll") == pytest.approx(nlls[-1], rel=1e-4)
    with torch.no_grad():
        clean = float((model(images).argmax(1) == labels).double().mean())
    assert (result.n, result.of("clean")) == (50, pytest.approx(clean))
    assert result.accuracy == pytest.approx(np.mean(accuracies))
    assert result.of("noise") == result.of("shot_noise") == pytest.approx(np.mean(accuracies[2:]))
    assert result.of("all", 5) == pytest.approx((accuracies[1] + accuracies[3]) / 2)
    summary = result.summary().set_index(["quantity", "condition"])["value"]
    assert summary["drop", "generated corruptions"] == pytest.approx(clean - np.mean(accuracies))
    assert summary["nll", "generated corruptions"] == pytest.approx(np.mean(nlls), rel=1e-4)


def test_all_types_and_severities_by_default(fashion: ImageData) -> None:
    result = corruption(transformer(), fashion, limit=12, cache=False)
    assert (result.types, result.severities) == (TYPES, SEVERITIES)
    table = result.table()
    single = table[
        (table["quantity"] == "accuracy") & table["corruption"].isin(TYPES) & table["severity"].notna()
    ]
    assert len(single) == 75
    every = table[(table["quantity"] == "accuracy") & (table["condition"] == "all corruptions")]
    assert every["value"].item() == pytest.approx(single["value"].mean())
    assert (table["images"] == "generated").all()
    assert result.how == "the constants of CIFAR-C, at 32 pixels"
    within = (table["low"] <= table["value"] + 1e-12) & (table["value"] <= table["high"] + 1e-12)
    assert within[table["quantity"].isin(["accuracy", "drop"])].all()


def test_batch_size_and_processes_of_corruption_do_not_matter(fashion: ImageData) -> None:
    one = corruption(transformer(), fashion, limit=30, batch_size=30, cache=False, **FEW)
    other = corruption(transformer(), fashion, limit=30, batch_size=7, cache=False, workers=1, **FEW)
    np.testing.assert_allclose(one.scores.value, other.scores.value, atol=1e-6)
    np.testing.assert_allclose(one.scores.drop.high, other.scores.drop.high, atol=1e-6)


def test_models_of_one_input_size_share_the_cache(fashion: ImageData) -> None:
    first = corruption(transformer(), fashion, limit=20, **FEW)
    files = {path: path.stat().st_mtime_ns for path in cache_folder().rglob("*.npy")}
    assert sorted(path.stem for path in files) == ["contrast-1", "contrast-5", "shot_noise-1", "shot_noise-5"]
    other = transformer()
    other.pretrained_cfg = {**other.pretrained_cfg, "mean": (0.1,) * 3, "std": (0.7,) * 3}  # type: ignore[dict-item]
    corruption(other, fashion, limit=20, **FEW)
    again = corruption(transformer(), fashion, limit=20, **FEW)
    assert {path: path.stat().st_mtime_ns for path in cache_folder().rglob("*.npy")} == files
    assert np.array_equal(first.scores.value, again.scores.value)
    corruption(transformer(), fashion, limit=21, **FEW)  # another subset
    assert len(list(cache_folder().rglob("*.npy"))) == 8


def test_without_a_cache_nothing_stays(fashion: ImageData, root: Path) -> None:
    corruption(transformer(), fashion, limit=8, cache=False, **FEW)
    assert not root.exists()


def test_a_cache_that_cannot_be_written_to_does_not_stop_the_exam(
    fashion: ImageData, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = corruption(transformer(), fashion, limit=8, cache=False, **FEW)
    monkeypatch.setenv("VITSCOPE_DATA", "/dev/null/data")
    with pytest.warns(UserWarning, match="not kept; set VITSCOPE_DATA .* or use --no-cache"):
        read_only = corruption(transformer(), fashion, limit=8, **FEW)
    pd.testing.assert_frame_equal(read_only.table(), whole.table())
    with pytest.raises(BadData, match="cannot write to"):
        corruption(transformer(), fashion, limit=8, cache=True, **FEW)


def test_an_interrupted_exam_goes_on_with_the_next_part(fashion: ImageData, tmp_path: Path) -> None:
    model = Counting()
    corruption(model, fashion, limit=20, cache=False, **FEW)
    own = model.seen - 5 * 20  # what anatomy shows it
    model.seen, model.last = 0, own + 3 * 20  # clean images, and two of four conditions
    with pytest.raises(KeyboardInterrupt):
        corruption(
            model, fashion, limit=20, cache=False, parts=PartialResults(tmp_path, "corruption", "key"), **FEW
        )
    model.seen, model.last = 0, 10**9
    resumed = corruption(
        model, fashion, limit=20, cache=False, parts=PartialResults(tmp_path, "corruption", "key"), **FEW
    )
    assert model.seen == own + 2 * 20
    whole = corruption(model, fashion, limit=20, cache=False, **FEW)
    assert np.array_equal(resumed.scores.value, whole.scores.value)


@pytest.fixture
def published(fashion: ImageData, tmp_path: Path) -> Path:
    """The embedded test set as CIFAR-10-C would have it: the first 100 images, contrast only."""
    folder = tmp_path / "FASHION-C"
    folder.mkdir()
    assert fashion.images is not None
    images = torch.from_numpy(fashion.images[:100]).permute(0, 3, 1, 2).expand(-1, 3, -1, -1).contiguous()
    arrays = torch.cat([corrupt(images, "contrast", severity) for severity in SEVERITIES])
    np.save(folder / "contrast.npy", arrays.permute(0, 2, 3, 1).numpy())
    np.save(folder / "labels.npy", fashion.labels[:100])
    return folder


def test_published_files_are_used(fashion: ImageData, published: Path) -> None:
    part = fashion.subset(np.arange(100)[::-1])
    options = {"types": ("contrast",), "limit": 30, "batch_size": 16}
    model = transformer()
    model.pretrained_cfg = {**model.pretrained_cfg, "crop_pct": 1.0}  # type: ignore[dict-item]  # it cuts nothing off
    result = corruption(model, part, source=published, **options)
    assert (result.images, result.how) == ("published", "the files in FASHION-C")
    generated = corruption(model, part, cache=False, **options)
    np.testing.assert_allclose(result.scores.value, generated.scores.value, atol=1e-5)
    assert set(result.summary()["condition"]) == {"published corruptions", "published digital"}


def test_files_that_do_not_fit_are_refused_before_anything_is_computed(
    fashion: ImageData, published: Path
) -> None:
    model = Counting()
    with pytest.raises(
        BadData, match=r"lacks gaussian_noise.npy, shot_noise.npy, impulse_noise.npy and 11 more"
    ):
        corruption(model, fashion.subset(np.arange(100)), source=published)
    np.save(published / "labels.npy", fashion.labels[:99])
    with pytest.raises(BadData, match="expected 100 labels, or 500"):
        corruption(model, fashion.subset(np.arange(100)), source=published, types=("contrast",))
    with pytest.raises(BadData, match="no corruption 'rain'"):
        corruption(model, fashion, types=("rain",))
    assert model.seen == 0


def test_mean_corruption_error(fashion: ImageData) -> None:
    trained = vs.create_model("resnet_mini", pretrained=True)
    reference = corruption(trained, fashion, limit=60, name="trained", **FEW)
    model = transformer()
    result = corruption(model, fashion, limit=60, reference=reference, **FEW)
    errors = [[1 - r.of(kind) for kind in FEW["types"]] for r in (result, reference)]
    found = result.summary().set_index("quantity").loc["mce"]
    assert found["condition"] == "against trained"
    assert found["value"] == pytest.approx(np.mean([a / b for a, b in zip(*errors, strict=True)]))
    with pytest.raises(VitscopeError, match=r"expected fashion .test., seed 1"):
        corruption(model, fashion, limit=60, reference=reference, seed=1, **FEW)
    with pytest.raises(VitscopeError, match="the reference is of 60 images; expected the same 50"):
        corruption(model, fashion, limit=50, reference=reference, **FEW)


class Brightest(Plain):
    """Of any number of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__(32)
        self.pretrained_cfg.update(
            input_size=(channels, 32, 32), mean=(0.0,) * channels, std=(1.0,) * channels
        )
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        mean = self.scale * images.mean((1, 2, 3))
        return torch.stack([mean, -mean], 1)


def test_what_cannot_be_corrupted_breaks_nothing(tmp_path: Path) -> None:
    data = (torch.rand(6, 5, 32, 32), torch.zeros(6, dtype=torch.long))
    result = vs.diagnose(Brightest(5), data, ["corruption"], out=tmp_path / "run")["corruption"]
    assert isinstance(result, CorruptionResult)
    assert "5 channels have no corruptions" in result.obstacle
    assert len(result.table()) == len(result.summary()) == 0
    assert not list((tmp_path / "run" / "figures").glob("*"))  # there is nothing to draw


def test_kept_and_loaded(fashion: ImageData, tmp_path: Path) -> None:
    result = corruption(transformer(), fashion, limit=10, **FEW)
    result.save(tmp_path / "saved")
    again = Result.load(tmp_path / "saved")
    assert isinstance(again, CorruptionResult)
    assert again.table().equals(result.table())
    assert list(again.replicates()) == list(result.replicates())
    with pytest.raises(VitscopeError, match="no snow in this result; it has contrast, shot_noise"):
        again.of("snow")
