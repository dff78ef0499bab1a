"""What the passes of the corruption exam keep and refuse, and means over corruptions against sums over images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exams.factories import spread_transformer as transformer
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData
from vitscope.data.corruptions.cache import cache_folder
from vitscope.engine import corruption_passes
from vitscope.engine.condition_scores import ConditionScores
from vitscope.engine.corruption_passes import CorruptionPasses, Replicates, part_name, rows_of
from vitscope.engine.own_passes import own_passes
from vitscope.engine.pixels import UnknownNormalisation
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Request
from vitscope.findings.corruption import CLEAN, Row
from vitscope.results.condition_rows import QUANTITIES

CONDITIONS = [("fog", 2)]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))


def scores(data: object, cache: bool | None = None) -> dict[str, dict[str, torch.Tensor]]:
    model = transformer()
    with own_passes(model, data, Request(12, 5), labelled=True) as own:
        passes = CorruptionPasses(model, own, CONDITIONS, 0, 5, PartialResults())
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
    with own_passes(model, (pixels, labels), Request(None, 5), labelled=True) as own:
        bytes_ = CorruptionPasses(model, own, CONDITIONS, 0, 5, PartialResults()).generated(True, 0)
    with own_passes(model, as_floats, Request(None, 5), labelled=True) as own:
        floats = CorruptionPasses(model, own, CONDITIONS, 0, 5, PartialResults()).generated(True, 0)
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


TYPES, SEVERITIES = ("gaussian_noise", "shot_noise", "fog"), (1, 3)
N = 80


@pytest.fixture(scope="module")
def answers() -> dict[str, torch.Tensor]:
    """Which images are classified rightly, by condition."""
    generator = torch.Generator().manual_seed(0)
    names = [CLEAN, *(part_name(kind, s) for kind in TYPES for s in SEVERITIES)]
    return {name: torch.rand(N, generator=generator) < 0.9 - 0.05 * i for i, name in enumerate(names)}


@pytest.fixture(scope="module")
def drawn(answers: dict[str, torch.Tensor]) -> Replicates:
    found = {}
    for name, right in answers.items():
        scores = ConditionScores(seed=4)
        logits = torch.stack([right.float(), 1 - right.float()], 1) * 3
        scores.update(logits, torch.zeros(N, dtype=torch.long), torch.arange(N))
        found[name] = scores.finish()
    return Replicates(found, TYPES, SEVERITIES)


def test_rows_are_named_and_in_order() -> None:
    rows = rows_of(TYPES, SEVERITIES)
    assert [row.condition for row in rows[:4]] == ["clean", "all corruptions", "severity 1", "severity 3"]
    assert [row.condition for row in rows[4:7]] == ["noise", "noise 1", "noise 3"]
    assert rows[-1].condition == "fog 3"
    assert len(rows) == 1 + 3 * (1 + 2 + 3)


def by_hand(scores: np.ndarray) -> np.ndarray:
    """Wilson's interval of as many yes-or-no answers as vary like these scores and two more at each end."""
    z2 = 1.959964**2
    padded = np.append(scores, [0.0, 1.0])
    share = np.append(np.ones(N), [z2 / 2, z2 / 2]) / (N + z2)
    middle = share @ padded
    n = N * middle * (1 - middle) / (share @ (padded - middle) ** 2)
    mean = scores.mean()  # (mean - p)^2 = z^2 p (1 - p) / n
    return np.sort(np.roots([1 + z2 / n, -2 * mean - z2 / n, mean**2]))


def test_means_and_intervals_are_those_over_images(
    answers: dict[str, torch.Tensor], drawn: Replicates
) -> None:
    rights = {name: right.double().numpy() for name, right in answers.items()}
    table = drawn.table()
    accuracy = QUANTITIES.index("accuracy")
    for row, members in (
        (Row("noise", 3), ["gaussian_noise 3", "shot_noise 3"]),
        (Row("fog"), ["fog 1", "fog 3"]),
        (Row("all"), [name for name in rights if name != CLEAN]),
    ):
        per_image = np.mean([rights[name] for name in members], axis=0)
        at = drawn.rows.index(row)
        assert table.value[at, accuracy] == pytest.approx(per_image.mean())
        low, high = by_hand(per_image)
        near = 0.04 * (high - low)  # the error comes from 1000 replicates
        assert (table.low[at, accuracy], table.high[at, accuracy]) == pytest.approx((low, high), abs=near)
        assert abs(high - low - 2 * 1.96 * per_image.std() / np.sqrt(N)) < 0.2 * (high - low)
        lost = rights[CLEAN] - per_image
        assert table.drop.value[at] == pytest.approx(lost.mean())
        padded = np.append(lost, [np.sqrt(0.5), -np.sqrt(0.5)])  # half an image lost, half an image gained
        error = padded.std() / np.sqrt(N + 2)
        assert table.drop.low[at] == pytest.approx(padded.mean() - 1.96 * error, abs=near)
        assert table.drop.high[at] == pytest.approx(padded.mean() + 1.96 * error, abs=near)
    assert table.drop.value[0] == 0


def test_errors_relative_to_a_reference(answers: dict[str, torch.Tensor], drawn: Replicates) -> None:
    errors, clean = np.array([0.4, 0.5, 0.6]), 0.2
    plain, relative = drawn.against(TYPES, "other", errors, clean)
    right = [[float(answers[part_name(kind, s)].double().mean()) for s in SEVERITIES] for kind in TYPES]
    own = 1 - np.mean(right, axis=1)
    own_clean = 1 - float(answers[CLEAN].double().mean())
    assert plain.value == pytest.approx(np.mean(own / errors))
    assert relative.value == pytest.approx(np.mean((own - own_clean) / (errors - clean)))
    assert plain.low < plain.value < plain.high
    with pytest.raises(VitscopeError, match="other makes no mistakes under shot_noise"):
        drawn.against(TYPES, "other", np.array([0.4, 0.0, 0.6]), clean)
    (only,) = drawn.against(TYPES, "other", errors, 0.45)  # noise costs the reference nothing
    assert only.quantity == "mce"
