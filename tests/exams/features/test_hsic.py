import numpy as np
import pytest
import torch

from vitscope.exams.features import cka
from vitscope.exams.features.cka import gram, hsic_of_pairs


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
    monkeypatch.setattr(cka, "CHUNK", 50)
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
