import torch

from vitscope.surgery.tools.predictions import log_average, log_probabilities


def test_average_in_probability_space() -> None:
    logits = 5 * torch.randn(4, 3, 6, dtype=torch.float64)
    weights = torch.tensor([0.5, 0.25, 0.2, 0.05], dtype=torch.float64)
    wanted = sum(w * torch.softmax(x, 1) for w, x in zip(weights, logits, strict=True))
    said = log_average(torch.stack([log_probabilities(x) for x in logits]), weights.log())
    assert torch.allclose(said.exp(), wanted, atol=1e-14)
    same = log_average(torch.stack([log_probabilities(x) for x in logits]))
    assert torch.allclose(same.exp(), torch.softmax(logits, 2).mean(0), atol=1e-14)


def test_maps_and_saturated_predictions() -> None:
    logits = torch.randn(2, 3, 4, 5)
    assert torch.allclose(log_probabilities(logits).exp().sum(1), torch.ones(2, 4, 5))
    sure = torch.tensor([[500.0, 0.0], [500.0, 0.0]])
    assert log_average(log_probabilities(sure).unsqueeze(0)).isfinite().all()


def test_half_precision_is_averaged_in_single() -> None:
    assert log_probabilities(torch.randn(2, 3, dtype=torch.bfloat16)).dtype == torch.float32
    assert log_probabilities(torch.randn(2, 3, dtype=torch.float64)).dtype == torch.float64
