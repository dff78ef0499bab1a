import numpy as np
import scipy.ndimage
import torch
from torch import Tensor, nn

from tests.exams.robustness_models import Contrast
from tests.exams.scores_by_hand import under_conditions
from vitscope.exams import blur
from vitscope.exams.robustness.noise import perturbed
from vitscope.findings.noise import BLUR, Perturbation
from vitscope.results.condition_rows import QUANTITIES

ACCURACY = QUANTITIES.index("accuracy")
PLACES = torch.arange(4)


def by_scipy(pixels: Tensor, strength: float) -> Tensor:
    along = (0, 0, strength, strength)
    return torch.from_numpy(scipy.ndimage.gaussian_filter(pixels.numpy(), along, mode="nearest"))


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels = images.double() / 2 + 0.5
    return under_conditions(model, labels, {"clean": pixels, "Gaussian blur 1": by_scipy(pixels, 1.0)})


def test_blur_of_a_point_is_a_gaussian() -> None:
    point = torch.zeros(1, 1, 33, 33)
    point[0, 0, 16, 16] = 1.0
    found = perturbed(Perturbation(BLUR, 2.0), point, 0, PLACES[:1], 0)[0, 0].double().numpy()
    line = np.exp(-0.5 * ((np.arange(33) - 16) / 2.0) ** 2) * (np.abs(np.arange(33) - 16) <= 8)
    np.testing.assert_allclose(found, np.outer(line, line) / line.sum() ** 2, atol=1e-7)


def test_blur_takes_fine_patterns_away_and_leaves_coarse_ones() -> None:
    fine = (torch.arange(16) % 2).float().expand(20, 3, 16, 16)
    coarse = (torch.arange(16) // 8).float().expand(20, 3, 16, 16)
    data = (torch.cat([fine, coarse]), torch.ones(40, dtype=torch.long))
    result = blur(Contrast(), data, batch_size=16)
    np.testing.assert_allclose(result.scores.value[:, ACCURACY], [1.0, 0.5, 0.5])
    np.testing.assert_allclose(result.scores.drop.value, [0.0, 0.5, 0.5])
    assert result.scores.drop.low[1] > 0.3
    assert "accuracy_over_draws" not in set(result.table()["quantity"])
