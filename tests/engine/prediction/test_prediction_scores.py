import math

import numpy as np
import torch

from vitscope.engine.prediction.prediction_scores import confidence_bins, scores
from vitscope.results.condition_rows import MEANS


def test_closed_forms() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], dtype=torch.float64)
    found = dict(zip(MEANS, scores(p.log(), torch.tensor([0, 2])).T.tolist(), strict=True))
    assert found["accuracy"] == [1.0, 0.0]
    assert found["top5"] == [1.0, 1.0]
    np.testing.assert_allclose(found["nll"], [-math.log(0.7), -math.log(0.3)], rtol=1e-12)
    np.testing.assert_allclose(found["brier"], [0.09 + 0.04 + 0.01, 0.01 + 0.36 + 0.49], rtol=1e-12)
    np.testing.assert_allclose(found["confidence"], [0.7, 0.6], rtol=1e-12)


def test_bins_are_open_below_and_closed_above() -> None:
    edge = torch.tensor([1 / 15, 2 / 15, 14 / 15, 1.0, 1.0 - 1e-12, 2 / 15 + 1e-9], dtype=torch.float64)
    assert confidence_bins(edge).argmax(1).tolist() == [0, 1, 13, 14, 14, 2]
