import numpy as np
import pytest
import torch
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.scores import SCALED_QUANTITIES, TEMPERATURES, UNSCALED, in_fitting_half
from vitscope.exams.prediction.prediction import (
    PredictionResult,
    Temperature,
    at_temperature,
    prediction,
    scores,
)
from vitscope.findings.prediction import Scaling


def drawn(n: int, sharpness: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are `sharpness` times what the labels are drawn from: the right temperature."""
    generator = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(n, 6, generator=generator)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator)[:, 0]
    return sharpness * true.double(), labels


def finish(logits: torch.Tensor, labels: torch.Tensor, temperature: Temperature = "fit") -> PredictionResult:
    accumulator = at_temperature(temperature)(Subject("m", "d", seed=5))
    for places in torch.arange(len(labels)).split(400):
        accumulator.update(Batch(logits[places], labels[places], places))
    return accumulator.finish()


def scaling(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    found = finish(logits, labels).scaling
    assert isinstance(found, Scaling)
    return dict(zip(SCALED_QUANTITIES, found.value.tolist(), strict=True))


def nll(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    return float(torch.nn.functional.cross_entropy(logits / temperature, labels))


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_finds_the_temperature_that_was_put_in(sharpness: float) -> None:
    result = finish(*drawn(1500, sharpness)).scaling
    assert result is not None
    assert result.converged
    assert result.low[0] <= sharpness <= result.high[0]
    assert result.high[0] / result.low[0] < 1.35


def test_fits_one_half_and_reports_the_other() -> None:
    logits, labels = drawn(800, 2.0)
    fits = in_fitting_half(torch.arange(800), seed=5)
    assert 340 < fits.sum() < 460
    losses = [nll(logits[fits], labels[fits], t) for t in TEMPERATURES]
    best = float(TEMPERATURES[int(np.argmin(losses))])
    found = scaling(logits, labels)
    assert found["temperature"] == best
    rest = scores(logits[~fits] / best, labels[~fits]).mean(0)
    assert found["scaled_nll"] == pytest.approx(float(rest[2]), rel=1e-12)
    assert found["scaled_brier"] == pytest.approx(float(rest[3]), rel=1e-12)
    assert found["scaled_confidence"] == pytest.approx(float(rest[4]), rel=1e-12)
    gain = nll(logits[~fits], labels[~fits], best) - nll(logits[~fits], labels[~fits], 1.0)
    assert found["nll_change"] == pytest.approx(gain, rel=1e-9)
    assert found["ece_change"] < -0.03


def test_grid_is_fine_enough() -> None:
    logits, labels = drawn(800, 2.0)
    fits = in_fitting_half(torch.arange(800), seed=5)
    fine = np.geomspace(0.5, 8, 1500)
    least = min(nll(logits[fits], labels[fits], t) for t in fine)
    best = scaling(logits, labels)["temperature"]
    assert nll(logits[fits], labels[fits], best) - least < 3e-4
    assert TEMPERATURES[UNSCALED] == 1.0


def test_says_so_if_the_best_is_beyond_what_was_tried() -> None:
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    labels = (logits.argmax(1) + 1) % 3  # always wrong: the flatter the better
    with pytest.warns(UserWarning, match="temperature not converged: 8"):
        result = finish(logits, labels)
    assert result.scaling is not None
    assert not result.scaling.converged


def test_refuses_what_is_no_temperature_and_halves_without_images() -> None:
    for wrong in (0.0, -1.0, float("nan"), float("inf"), "hot"):
        with pytest.raises(VitscopeError, match="expected a number, more than 0, or fit"):
            prediction(nn.Flatten(), (torch.zeros(2, 3, 1, 1), torch.zeros(2).long()), temperature=wrong)
    with pytest.raises(VitscopeError, match="images in both halves"):
        finish(torch.randn(1, 3), torch.tensor([0]))


def test_halves_depend_on_seed_and_image_alone() -> None:
    images = torch.arange(300)
    one = in_fitting_half(images, 1)
    assert torch.equal(one[[7, 200, 3]], in_fitting_half(images[[7, 200, 3]], 1))
    assert not torch.equal(one, in_fitting_half(images, 2))
