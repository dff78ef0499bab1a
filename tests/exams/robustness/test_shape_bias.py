"""Mixed pictures before classifiers that look at low or at high frequencies only."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.robustness_models import Plain
from vitscope.core.bootstrap import poisson_weights
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import score_interval
from vitscope.data import ImageData, batches
from vitscope.exams import shape_bias
from vitscope.exams.robustness.shape_bias import pairs, swap_bands, swap_phase
from vitscope.findings.shape_bias import PHASE, QUANTITIES, ShapeBiasResult, crossover
from vitscope.models import create_model
from vitscope.results import Result

SIDE = 16
PLACE = torch.arange(SIDE)


def wave(cycles: int) -> Tensor:
    """(side, side) along the rows, of frequency 2 cycles / side, in units of pi."""
    return torch.cos(2 * torch.pi * cycles * PLACE / SIDE).expand(SIDE, SIDE)


class WaveReader(Plain):
    """Four classes: the sign of a wave of 1 cycle, and of one of 6, weighed by `slow` and `fast`."""

    def __init__(self, slow: float, fast: float) -> None:
        super().__init__(SIDE)
        self.weights = nn.Parameter(torch.stack([slow * wave(1), fast * wave(6)]))

    def forward(self, images: Tensor) -> Tensor:
        slow, fast = torch.einsum("nchw,fhw->fn", images, self.weights)
        return torch.stack([-slow - fast, slow + fast], 1)


def data(n: int = 40) -> tuple[Tensor, Tensor]:
    """Class 1 has both waves upwards, class 0 downwards."""
    labels = torch.arange(n) % 2
    sign = (2.0 * labels - 1).view(-1, 1, 1, 1)
    pixels = 0.5 + 0.2 * sign * (wave(1) + wave(6)) + 0.01 * torch.rand(n, 3, SIDE, SIDE)
    return pixels, labels


@torch.no_grad()
def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str], float]:
    pixels = dict(enumerate((images.double() / 2 + 0.5).numpy()))

    def says(picture: np.ndarray) -> int:
        return int(model(torch.from_numpy(2 * picture - 1)[None]).argmax())

    truth, shown = dict(enumerate(labels.tolist())), [range(4), range(4, 8), range(8, 10)]
    chosen = decisions(says, pixels, truth, shown, seed=0, cutoff=0.2, firsts=[])
    found = {}
    for condition, counts in chosen.items():
        low, high, neither = np.sum(counts, axis=0)
        numbers = {"low": low, "high": high, "neither": neither}
        found |= {(name, condition): number / len(counts) for name, number in numbers.items()}
        found["shape_bias", condition] = low / (low + high)
    return found


def decisions(
    says: Callable[[np.ndarray], int],
    pixels: Mapping[int, np.ndarray],
    labels: Mapping[int, int],
    batches: Sequence[Sequence[int]],
    seed: int,
    cutoff: float,
    firsts: list[int],
) -> dict[str, list[np.ndarray]]:
    """Per way of mixing and pair, shares for the class of the low, of the high frequencies, and for neither.

    Images and labels are by their place in the data; the earlier image of each pair is put into `firsts`.
    """
    y, x = np.meshgrid(*2 * [2 * np.fft.fftfreq(32)], indexing="ij")
    low, found = np.hypot(y, x) < cutoff, {f"cut at {cutoff:g}π": [], PHASE: []}
    for batch in batches:
        keys = {i: np.random.default_rng([3, seed, i]).random() for i in batch}
        single: list[int] = []
        for i in sorted(keys, key=keys.__getitem__):
            if says(pixels[i]) != labels[i]:
                continue
            if not single or labels[single[0]] == labels[i]:
                single.append(i)
                continue
            j = single.pop(0)
            counts = np.zeros((2, 3))
            for a, b in ((i, j), (j, i)):
                one, other = np.fft.fft2(pixels[a]), np.fft.fft2(pixels[b])
                mixed = (np.where(low, one, other), np.abs(other) * np.exp(1j * np.angle(one)))
                for way, spectrum in enumerate(mixed):
                    chosen = says(np.fft.ifft2(spectrum).real)
                    counts[way, 0 if chosen == labels[a] else 1 if chosen == labels[b] else 2] += 0.5
            for own, shares in zip(found.values(), counts, strict=True):
                own.append(shares)
            firsts.append(j)
    return found


@pytest.mark.parametrize(("slow", "fast", "bias"), [(1.0, 0.0, 1.0), (0.0, 1.0, 0.0)])
def test_a_model_decides_by_the_frequencies_it_looks_at(slow: float, fast: float, bias: float) -> None:
    result = shape_bias(WaveReader(slow, fast), data(), batch_size=16, cutoffs=(0.05, 0.5, 1.2))
    assert result.pairs == 20
    found = result.value[:, QUANTITIES.index("shape_bias")]
    np.testing.assert_array_equal(found, [0.0, bias, 1.0, 1.0])  # all is high, both, all is low, and phase
    np.testing.assert_allclose(result.value[:, :3].sum(1), 1.0)
    assert (result.table()["n"] == 40).all()


def test_decisions_equal_a_loop_over_pairs(fashion: ImageData) -> None:
    model = create_model("resnet_mini", pretrained=True).eval()
    result = shape_bias(model, fashion, limit=30, batch_size=30, seed=2, cutoffs=(0.2, 0.3))
    images, labels, indices = next(iter(batches(fashion, model, limit=30, batch_size=30, seed=2)))
    mean, std = (torch.tensor(model.pretrained_cfg[k]).view(3, 1, 1) for k in ("mean", "std"))

    def says(pixels: np.ndarray) -> int:
        with torch.no_grad():
            return int(model(((torch.from_numpy(pixels).float() - mean) / std)[None]).argmax())

    pixels = {int(i): p for i, p in zip(indices, (images * std + mean).double().numpy(), strict=True)}
    truth = {int(i): int(label) for i, label in zip(indices, labels, strict=True)}
    firsts: list[int] = []
    shares = next(
        iter(decisions(says, pixels, truth, [list(pixels)], seed=2, cutoff=0.3, firsts=firsts).values())
    )
    assert result.pairs == len(shares) > 8
    total = np.sum(shares, axis=0)
    np.testing.assert_allclose(result.value[1, :3], total / len(shares))
    assert result.value[1, 3] == pytest.approx(total[0] / (total[0] + total[1]))
    weights = poisson_weights(np.array(firsts), seed=2)
    drawn = weights.T @ np.array(shares)
    bias = drawn[1:, 0] / (drawn[1:, 0] + drawn[1:, 1])
    ends = score_interval(result.value[1, 3], np.nanstd(bias), total[:2].sum())  # of the decided ones
    np.testing.assert_allclose([result.low[1, 3], result.high[1, 3]], ends, atol=1e-12)
    assert (result.low >= 0).all()
    assert (result.high <= 1).all()


def test_crossover() -> None:
    cutoff = np.array([0.1, 0.2, 0.4])
    low, high = np.array([[0.2], [0.3], [0.9]]), np.array([[0.8], [0.5], [0.1]])
    np.testing.assert_allclose(crossover(cutoff, low, high), [0.2 + 0.2 * 0.2 / 1.0])
    np.testing.assert_allclose(crossover(cutoff, high, low), [0.1])
    np.testing.assert_allclose(crossover(cutoff, low[:, 0] * 0, high[:, 0]), 0.4)


def test_without_pairs_there_is_nothing_to_tell(tmp_path: Path) -> None:
    images, _ = data(6)
    for labels in (
        torch.zeros(6, dtype=torch.long),
        torch.tensor([1, 0, 1, 0, 1, 0]),
    ):  # one class; all wrong
        result = shape_bias(WaveReader(1.0, 1.0), (images, labels), batch_size=6)
        assert (result.n, result.pairs, len(result.table()), len(result.summary())) == (6, 0, 0, 0)
    result.save(tmp_path)
    assert isinstance(Result.load(tmp_path), ShapeBiasResult)


def test_tables_and_options(fashion: ImageData, tmp_path: Path) -> None:
    result = shape_bias(create_model("resnet_mini", pretrained=True), fashion, limit=24)
    table = result.table()
    chosen = table[table["condition"] == "cut at 0.25π"].set_index("quantity")["value"]
    assert chosen["shape_bias"] == pytest.approx(chosen["low"] / (chosen["low"] + chosen["high"]))
    assert list(result.summary()["condition"])[:2] == ["cut at 0.25π", PHASE]
    result.save(tmp_path)
    assert Result.load(tmp_path).table().equals(table)
    with pytest.raises(VitscopeError, match=r"0.0 in it.*a number, more than 0"):
        shape_bias(create_model("resnet_mini"), fashion, cutoffs=(0.0,))


def two(height: int = 7, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 2, 3, height, width, dtype=torch.float64, generator=generator)
    return a, b


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (6, 11)])
def test_a_picture_and_itself_give_the_picture(size: tuple[int, int]) -> None:
    a, _ = two(*size)
    assert torch.allclose(swap_bands(a, a, 0.3), a, atol=1e-12)
    assert torch.allclose(swap_phase(a, a), a, atol=1e-12)


def test_bands_on_the_whole_plane() -> None:
    a, b = two()
    mixed = np.fft.fft2(swap_bands(a, b, 0.5).numpy())
    first, second = np.fft.fft2(a.numpy()), np.fft.fft2(b.numpy())
    for k, f in enumerate(np.fft.fftfreq(7)):
        for j, g in enumerate(np.fft.fftfreq(8)):
            expected = first if 2 * math.hypot(f, g) < 0.5 - 1e-9 else second
            np.testing.assert_allclose(mixed[..., k, j], expected[..., k, j], atol=1e-12)


def test_phase_and_amplitude_on_the_whole_plane() -> None:
    a, b = two()
    mixed = np.fft.fft2(swap_phase(a, b).numpy())
    np.testing.assert_allclose(np.abs(mixed), np.abs(np.fft.fft2(b.numpy())), atol=1e-12)
    turn = mixed / np.fft.fft2(a.numpy())
    np.testing.assert_allclose(turn.imag, 0.0, atol=1e-10)
    assert (turn.real > 0).all()


def test_the_ends_of_the_cutoff() -> None:
    a, b = two()
    assert torch.allclose(swap_bands(a, b, 1.45), a, atol=1e-12)  # beyond the corners at sqrt(2)
    barely = swap_bands(a, b, 0.01)  # the mean alone is of the first
    assert torch.allclose(barely - b, (a - b).mean((2, 3), keepdim=True).expand_as(a), atol=1e-12)


def test_pairs_are_of_different_classes_and_disjoint() -> None:
    labels = np.random.default_rng(0).integers(0, 4, 101).tolist()
    found = pairs(labels)
    places = [place for pair in found for place in pair]
    assert len(set(places)) == len(places)
    assert all(labels[i] != labels[j] for i, j in found)
    left = {labels[place] for place in set(range(101)) - set(places)}
    assert len(left) == 1  # nothing more can be paired
    assert pairs([1, 1, 1]) == pairs([]) == []
