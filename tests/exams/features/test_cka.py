import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.exams.attention_by_hand import vit_maps
from tests.exams.tester import BATCH
from tests.processes import run
from vitscope.anatomy import Tap, anatomy
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData, batches
from vitscope.engine.exam import Batch, Subject
from vitscope.exams import cka, diagnose
from vitscope.exams.features import cka as cka_file
from vitscope.exams.features.cka import CkaAccumulator, gram, hsic_of_pairs
from vitscope.findings.cka import CkaResult
from vitscope.models import create_model
from vitscope.results import Result, UnitRow

EMPTY = torch.zeros(0)


def subject(*stages: int) -> Subject:
    rows = [UnitRow(f"u{i}", "conv", stage, i / 4, (2, 3, 3)) for i, stage in enumerate(stages)]
    return Subject("m", "d", tuple(rows))


def finished(accumulator: CkaAccumulator) -> CkaResult:
    result = accumulator.finish()
    assert isinstance(result, CkaResult)
    return result


def shown(accumulator: CkaAccumulator, *batches: list[torch.Tensor], start: int = 0) -> CkaAccumulator:
    for maps in batches:
        indices = torch.arange(start, start + len(maps[0]))
        accumulator.update(Batch(EMPTY, EMPTY, indices, tuple(gram(m) for m in maps)))
        start += len(maps[0])
    return accumulator


def random_batches(count: int, units: int, images: int = 8) -> list[list[torch.Tensor]]:
    """Units that share a part of what they know."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        common = torch.randn(images, 2, 3, 3, generator=generator)
        found.append([common + i * torch.randn(images, 2, 3, 3, generator=generator) for i in range(units)])
    return found


def hsic(x: np.ndarray, y: np.ndarray) -> float:
    """The unbiased estimator, term by term, in float64."""
    n = len(x)
    k, l = (a @ a.T for a in (x, y))  # noqa: E741
    np.fill_diagonal(k, 0.0)
    np.fill_diagonal(l, 0.0)
    cross = 2 / (n - 2) * (k.sum(0) @ l.sum(0))
    return float((np.sum(k * l) + k.sum() * l.sum() / ((n - 1) * (n - 2)) - cross) / (n * (n - 3)))


def reference(batches: list[list[np.ndarray]]) -> np.ndarray:
    """Mini-batch CKA of all pairs, written out."""
    units = range(len(batches[0]))
    mean = np.array([[np.mean([hsic(b[i], b[j]) for b in batches]) for j in units] for i in units])
    own = np.sqrt(np.diag(mean))
    return mean / np.outer(own, own)


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], np.ndarray]:
    whole = images[: len(images) // BATCH * BATCH].double()  # a batch of two is left out
    found = [vit_maps(model, batch) for batch in whole.split(BATCH)]
    value = reference([[x.flatten(1).numpy() for x in maps.values()] for maps in found])
    return {("cka", unit): value[i, i + 1 :] for i, unit in enumerate(found[0]) if i + 1 < len(value)}


def test_against_the_definition_in_float64() -> None:
    given = random_batches(5, 4)
    result = finished(shown(CkaAccumulator(subject(0, 0, 1, 1)), *given))
    flat = [[m.double().flatten(1).numpy() for m in maps] for maps in given]
    np.testing.assert_allclose(result.value, reference(flat), atol=1e-6)
    assert (result.n, result.batches, result.left_out) == (40, 5, 0)
    s = result.value
    structure = (s[0, 1] + s[2, 3]) / 2 - (s[0, 2] + s[0, 3] + s[1, 2] + s[1, 3]) / 4
    assert result.score.value[0] == pytest.approx(structure)
    assert result.score.value[1] == pytest.approx((s[0, 1] + s[2, 3]) / 2 - s[1, 2])


def test_a_copy_that_is_rotated_scaled_and_shifted_is_the_same() -> None:
    turn = torch.linalg.qr(torch.randn(18, 18)).Q
    given = []
    for _ in range(3):
        x = torch.randn(8, 2, 3, 3)
        given.append([x, 3.0 * (x.flatten(1) @ turn).reshape(x.shape) + 1.0, torch.randn(8, 2, 3, 3)])
    value = finished(shown(CkaAccumulator(subject(0, 0, 0)), *given)).value
    assert value[0, 1] == pytest.approx(1.0, abs=1e-5)
    assert abs(value[0, 2]) < 0.5
    np.testing.assert_allclose(np.diag(value), 1.0)


@torch.no_grad()
def test_a_real_model_against_float64(small_vit: nn.Module, fashion: ImageData) -> None:
    found = cka(small_vit, fashion, limit=60, batch_size=20)
    parts = anatomy(small_vit, (3, 32, 32))
    exact = small_vit.double().eval()
    taken: list[list[np.ndarray]] = []
    for images, _, _ in batches(fashion, small_vit, limit=60, batch_size=20):
        with Tap(exact, parts, parts.mapped, features=True) as tap:
            exact(images.double())
        taken.append([tap.features[u.name].flatten(1).numpy() for u in parts.mapped])
    np.testing.assert_allclose(found.value, reference(taken), atol=1e-5)


def test_interval_covers_the_value_of_many_batches() -> None:
    """Of 60 intervals from 10 batches each, about 57 should hold what 600 batches give."""
    given = random_batches(600, 3)
    whole = finished(shown(CkaAccumulator(subject(0, 0, 1)), *given)).value[1, 2]
    covered = 0
    for start in range(0, 600, 10):
        piece = shown(CkaAccumulator(subject(0, 0, 1)), *given[start : start + 10], start=8 * start)
        result = finished(piece)
        covered += bool(result.low[1, 2] <= whole <= result.high[1, 2])
    assert 51 <= covered <= 60


def test_a_small_last_batch_is_left_out_and_counted(small_vit: nn.Module, fashion: ImageData) -> None:
    result = cka(small_vit, fashion, limit=43, batch_size=20)
    assert (result.n, result.batches, result.left_out) == (40, 2, 3)
    assert np.isfinite(result.value).all()


def test_batches_that_are_too_small_are_refused_before_the_pass(
    small_vit: nn.Module, fashion: ImageData
) -> None:
    with pytest.raises(VitscopeError, match=r"batch_size is 3, 'cka' needs at least 4.*--batch-size 4"):
        diagnose(small_vit, fashion, exams=["variance", "cka"], batch_size=3)
    images = torch.randn(6, 3, 32, 32)
    loader = DataLoader(TensorDataset(images, torch.zeros(6, dtype=torch.long)), batch_size=2)
    with pytest.raises(VitscopeError, match=r"no batch had 4 images or more.*6 were left out"):
        cka(small_vit, loader)


def test_few_images_do_not_stop_other_exams(small_vit: nn.Module, fashion: ImageData) -> None:
    results = diagnose(small_vit, fashion, exams=["variance", "cka"], limit=3)
    found = results["cka"]
    assert isinstance(found, CkaResult)
    assert (found.n, found.left_out) == (0, 3)
    assert np.isnan(found.value).all()
    assert len(found.summary()) == 0


def test_features_that_are_not_finite_are_named() -> None:
    bad = torch.randn(5, 2, 3, 3)
    bad[3, 1, 0, 0] = torch.nan
    with pytest.raises(VitscopeError, match="'u1' are not finite"):
        shown(CkaAccumulator(subject(0, 0)), [torch.randn(5, 2, 3, 3), bad])


def test_a_constant_unit_has_no_similarity() -> None:
    given = [[maps[0], torch.ones(8, 2, 3, 3)] for maps in random_batches(3, 1)]
    result = finished(shown(CkaAccumulator(subject(0, 0)), *given))
    assert result.value[0, 0] == pytest.approx(1.0)
    assert np.isnan(result.value[0, 1])


def test_table_and_disk(tmp_path: Path) -> None:
    result = finished(shown(CkaAccumulator(subject(0, 0, 1)), *random_batches(4, 3)))
    table = result.table()
    assert table["quantity"].tolist() == ["block_structure", "block_contrast", "cka", "cka", "cka"]
    pair = table[(table["unit"] == "u0") & (table["other_unit"] == "u2")].iloc[0]
    assert pair["value"] == result.value[0, 2]
    assert pair["low"] < pair["value"] < pair["high"]
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, CkaResult)
    np.testing.assert_array_equal(back.value, result.value)
    assert back.other is None


def test_two_models(small_vit: nn.Module, fashion: ImageData) -> None:
    other = create_model("resnet_mini")
    pair = cka(small_vit, fashion, limit=40, batch_size=20, other=other)
    turned = cka(other, fashion, limit=40, batch_size=20, other=small_vit)
    alone = cka(small_vit, fashion, limit=40, batch_size=20)
    assert pair.value.shape == (len(alone.units), len(turned.units))
    np.testing.assert_allclose(pair.value, turned.value.T, atol=1e-6)
    assert (pair.other, pair.model) == (turned.model, turned.other)
    assert [u.name for u in pair.other_units] == [u.name for u in turned.units]
    assert np.isnan(pair.score.value).all()
    assert len(pair.table()) == pair.value.size
    itself = cka(small_vit, fashion, limit=40, batch_size=20, other=small_vit)
    np.testing.assert_allclose(itself.value, alone.value, atol=1e-6)
    np.testing.assert_allclose(itself.low, alone.low, atol=1e-6)


SHARED = """
import json, sys
import torch
from vitscope.core import distributed
from vitscope.exams import cka
from vitscope.models import create_model

torch.manual_seed(0)
model, other = create_model("vit_mini"), create_model("resnet_mini")
data = (torch.randn(83, 3, 32, 32), torch.zeros(83, dtype=torch.long))
with distributed.process_group():
    results = [cka(model, data, batch_size=16), cka(model, data, batch_size=16, other=other)]
    found = [[r.n, r.batches, r.left_out, r.value.tolist(), r.low.tolist(), r.score.value.tolist()] for r in results]
    json.dump(found, open(f"{sys.argv[1]}/{distributed.rank()}.json", "w"))
"""


@pytest.mark.slow  # tests/test_distributed.py does the same for one model
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SHARED)
    found = []
    for name, processes in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        done = run(tmp_path / "work.py", tmp_path / name, processes=processes)
        assert done.returncode == 0, done.stderr
        found.append([json.loads(path.read_text()) for path in sorted((tmp_path / name).glob("*.json"))])
    (one,), (first, second) = found
    assert json.dumps(first) == json.dumps(second)
    for alone, shared in zip(one, first, strict=True):
        assert alone[:3] == shared[:3] == [80, 5, 3]
        for a, b in zip(alone[3:], shared[3:], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)


def by_definition(first: np.ndarray, second: np.ndarray) -> float:
    """Song et al. (2012), term by term."""
    n = len(first)
    k, l = (g - np.diag(np.diag(g)) for g in (first, second))  # noqa: E741
    one = np.ones(n)
    middle = (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2))
    return float((np.trace(k @ l) + middle - 2 / (n - 2) * (one @ k @ l @ one)) / (n * (n - 3)))


def maps(*shape: int, offset: float = 0.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) + offset


@pytest.mark.any_order
@pytest.mark.parametrize("shape", [(6, 3, 4, 4), (9, 5, 3, 7), (4, 2, 1, 1), (12, 64, 16, 16)])
@pytest.mark.parametrize("last", [False, True])
def test_gram_is_the_inner_product_of_centred_maps(shape: tuple[int, ...], last: bool) -> None:
    feature = maps(*shape, offset=5.0)
    feature = feature.contiguous(memory_format=torch.channels_last) if last else feature
    flat = feature.double().flatten(1).numpy()
    flat = flat - flat.mean(0)
    expected = flat @ flat.T
    np.testing.assert_allclose(gram(feature).numpy(), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.any_order
def test_gram_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = maps(5, 7, 6, 6)
    whole = gram(feature)
    monkeypatch.setattr(cka_file, "CHUNK", 50)
    torch.testing.assert_close(gram(feature), whole)


@pytest.mark.any_order
def test_gram_of_tokens_behind_a_class_token() -> None:
    feature = maps(4, 10, 6)[:, 1:].transpose(1, 2).unflatten(2, (3, 3))
    assert not feature.is_contiguous()
    torch.testing.assert_close(gram(feature), gram(feature.contiguous()))


@pytest.mark.any_order
def test_a_shift_changes_nothing() -> None:
    """Neither one of the features, nor one of the Gram matrix by a number for each row and column."""
    feature, shift = maps(7, 4, 2, 2), torch.randn(1, 4, 2, 2)
    torch.testing.assert_close(gram(feature + shift), gram(feature), atol=1e-4, rtol=1e-4)
    grams, border = gram(feature)[None].double(), torch.randn(7, dtype=torch.float64)
    moved = grams + border[:, None] + border
    torch.testing.assert_close(hsic_of_pairs(moved), hsic_of_pairs(grams))


@pytest.mark.any_order
@pytest.mark.parametrize("n", [4, 5, 32])
def test_all_pairs_against_the_definition(n: int) -> None:
    grams = torch.stack([gram(maps(n, channels, 3, 3, offset=2.0)) for channels in (2, 3, 5)])
    found = hsic_of_pairs(grams).numpy()
    exact = grams.double().numpy()
    expected = [[by_definition(a, b) for b in exact] for a in exact]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_it_is_unbiased() -> None:
    """For independent features the mean over batches goes to 0, not to something above it."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for _ in range(400):
        a, b = (torch.randn(8, 4, 2, 2, generator=generator) for _ in range(2))
        found.append(float(hsic_of_pairs(torch.stack([gram(a), gram(b)]))[0, 1]))
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(len(found))
    assert min(found) < 0
