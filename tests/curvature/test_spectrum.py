"""Largest eigenvalues, power iteration, trace and density, against what is known of the matrix."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from tests.curvature.networks import batch, conv_net, dense_hessian, known_hessian, largest, small_vit
from tests.curvature.spectra import PAIRED, matrix, true_residuals, vector
from vitscope.core.errors import VitscopeError
from vitscope.curvature import RandomModel, top_eigenvalues
from vitscope.curvature.spectrum import Quadrature, power, quadrature, random_signs, trace_estimates

K = 5
NETWORKS = [conv_net, small_vit]


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("hard", [True, False])
def test_against_the_dense_hessian(make, hard: bool) -> None:
    model, (images, soft) = make(), batch()
    found = top_eigenvalues(model, images, soft.argmax(1) if hard else soft, k=K, tol=1e-7)
    np.testing.assert_allclose(found.values, largest(known_hessian(make, hard), K), rtol=1e-6)
    assert found.converged.all()
    assert (found.residuals <= 1e-7).all()


@pytest.mark.parametrize("make", NETWORKS)
def test_half_the_square_over_what_is_decayed(make) -> None:
    model, (images, targets) = make(), batch()
    decayed = np.concatenate(
        [
            np.full(p.numel(), p.ndim > 1 and name not in ("pos_embed", "cls_token"))
            for name, p in model.named_parameters()
        ]
    )
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7, weight_decay=0.5)
    np.testing.assert_allclose(
        found.values, largest(known_hessian(make) + 0.5 * np.diag(decayed), K), rtol=1e-6
    )
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7, weight_decay=0.5, decay_all=True)
    everything = known_hessian(make) + 0.5 * np.eye(len(decayed))
    np.testing.assert_allclose(found.values, largest(everything, K), rtol=1e-6)


def test_the_published_unsquared_norm() -> None:
    model, (images, targets) = small_vit(), batch()
    blocks = [
        torch.autograd.functional.hessian(torch.linalg.vector_norm, p.detach().reshape(-1))
        for p in model.parameters()
    ]
    dense = known_hessian(small_vit) + 2.0 * torch.block_diag(*blocks).numpy()
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7, weight_decay=2.0, l2="norm")
    np.testing.assert_allclose(found.values, largest(dense, K), rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "params", "words"),
    [
        (conv_net, "3", {"3"}),
        (small_vit, "blocks.*.attn", {"attn"}),
        (small_vit, "*.mlp, head", {"mlp", "head"}),
    ],
)
def test_a_block_is_the_sub_matrix(make, params: str, words: set[str]) -> None:
    model, (images, targets) = make(), batch()
    rows = np.concatenate(
        [np.full(p.numel(), bool(words & set(name.split(".")))) for name, p in model.named_parameters()]
    )
    assert 0 < rows.sum() < len(rows)
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7, params=params)
    np.testing.assert_allclose(found.values, largest(known_hessian(make)[np.ix_(rows, rows)], K), rtol=1e-6)


def test_float32_gives_the_same_within_its_digits() -> None:
    model, (images, targets) = small_vit().float(), batch()
    found = top_eigenvalues(model, images.float(), targets.float(), k=K, tol=1e-3)
    np.testing.assert_allclose(found.values, largest(known_hessian(small_vit), K), rtol=1e-4)
    assert found.converged.all()


class Awkward(nn.Module):
    """A frozen layer, one that is never called, two that share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(192, 4)
        self.unused = nn.Linear(2, 2)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.head = nn.Linear(4, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.frozen(x.flatten(1)).tanh()
        return self.head(self.second(self.first(x).tanh()).tanh())


def test_frozen_unused_and_tied_parameters() -> None:
    torch.manual_seed(0)
    model, (images, targets) = Awkward().double(), batch()
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    dense = dense_hessian(model, images, targets, learning)
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7)
    np.testing.assert_allclose(found.values, largest(dense, K), rtol=1e-6)
    frozen = dict(model.frozen.named_parameters())
    model.frozen.requires_grad_(True)
    dense = dense_hessian(model, images, targets, frozen)
    model.frozen.requires_grad_(False)
    found = top_eigenvalues(model, images, targets, k=K, tol=1e-7, params="frozen")
    np.testing.assert_allclose(found.values, largest(dense, K), rtol=1e-6)
    model.requires_grad_(False)
    with pytest.raises(VitscopeError, match="no parameter of Awkward learns"):
        top_eigenvalues(model, images, targets)


class Failing(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            raise KeyError("on purpose")
        return super().forward(x)


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_as_it_was(fails: bool) -> None:
    model, (images, targets) = small_vit(), batch()
    if fails:
        model.head = Failing(4, 3).double()
    model.train()
    model.norm.eval()
    model.patch_embed.requires_grad_(False)
    gradient = torch.ones(4, 4, dtype=torch.float64)
    model.blocks[0].attn.proj.weight.grad = gradient
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    learns = [p.requires_grad for p in model.parameters()]
    state = torch.get_rng_state()
    backends = [torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()]
    if fails:
        with pytest.raises(KeyError):
            top_eigenvalues(model, images, targets)
    else:
        with torch.no_grad():
            top_eigenvalues(model, images, targets)
    assert [module.training for module in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == learns
    assert model.blocks[0].attn.proj.weight.grad is gradient
    assert all(p.grad is None for name, p in model.named_parameters() if name != "blocks.0.attn.proj.weight")
    assert torch.equal(torch.get_rng_state(), state)
    assert [
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    ] == backends
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class AlwaysDropout(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.3, training=True)


def test_a_random_model_is_refused_and_the_module_named() -> None:
    model, (images, targets) = conv_net(), batch()
    model[5] = nn.Sequential(nn.GELU(), AlwaysDropout())
    with pytest.raises(RandomModel, match=r"first after '5\.1'"):
        top_eigenvalues(model, images, targets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 1000}, "k is 1000 for"),
        ({"max_products": 2}, "expected at least 3"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"l2": "square"}, "expected half_square or norm"),
        ({"params": "layer4"}, "its modules are 0, 1, 3, 4, 8"),
        ({"targets": torch.tensor([0, 1, 2, 3, 0, 1])}, "expected 0 to 2"),
        ({"targets": torch.ones(5)}, r"expected labels \(6,\)"),
    ],
)
def test_what_cannot_be_done_is_said(change: dict[str, object], message: str) -> None:
    images, targets = batch()
    with pytest.raises(VitscopeError, match=message):
        top_eigenvalues(conv_net(), images, **{"targets": targets, **change})  # type: ignore[arg-type]


def test_few_products_are_reported_as_not_converged() -> None:
    images, targets = batch()
    found = top_eigenvalues(conv_net(), images, targets, k=K, tol=1e-9, max_products=8)
    assert found.products == 8
    assert not found.converged.all()
    assert found.residuals.max() > 1e-9


def test_well_separated_eigenvalues_are_found() -> None:
    spectrum = [50.0, -30.0, 15.0, *np.linspace(-2, 2, 100)]
    H = matrix(spectrum)
    found = power(lambda v: H @ v, vector(len(spectrum)), 3, tol=1e-8)
    np.testing.assert_allclose(found.values, [50, -30, 15], rtol=1e-6)
    assert not found.converged.any() or found.residuals.max() < 1e-2


def test_paired_eigenvalues_are_missed_and_the_residual_says_so() -> None:
    H = matrix(PAIRED)
    found = power(lambda v: H @ v, vector(len(PAIRED)), 2, vectors=True)
    assert abs(abs(found.values[0]) - 50) > 0.5  # it swings between 50 and -49.5
    assert found.vectors is not None
    np.testing.assert_allclose(found.residuals, true_residuals(H, found.values, found.vectors), rtol=1e-6)
    assert not found.converged.any()


def test_products_are_counted_and_limited() -> None:
    H = matrix(PAIRED)
    steps: list[int] = []
    found = power(lambda v: H @ v, vector(len(PAIRED)), 2, tol=0.0, iterations=7, on_step=steps.append)
    assert (found.products, steps[-1]) == (14, 14)


@pytest.mark.any_order
def test_float32() -> None:
    H = matrix([9.0, -4.0, *[0.1] * 50], torch.float32)
    found = power(lambda v: H @ v, vector(52, torch.float32), 2)
    np.testing.assert_allclose(found.values, [9, -4], rtol=1e-3)


def test_unbiased_with_the_spread_of_theory() -> None:
    H = matrix([40.0, -20.0, *np.linspace(-1, 3, 98)])
    found = trace_estimates(lambda v: H @ v, vector(100), probes=400)
    off_diagonal = H - torch.diag(H.diagonal())
    spread = float((2 * off_diagonal.square().sum()).sqrt())
    assert found.mean() == pytest.approx(float(H.trace()), abs=4 * spread / 20)
    assert found.std() == pytest.approx(spread, rel=0.15)


def test_exact_for_a_diagonal_matrix() -> None:
    diagonal = torch.tensor([1.0, -2.0, 5.0])
    np.testing.assert_allclose(trace_estimates(lambda v: diagonal * v, torch.zeros(3), probes=2), [4, 4])


SPECTRUM = [40.0, -20.0, *np.linspace(-1, 3, 298)]


def test_moments_are_exact_and_weights_sum_to_one() -> None:
    H, probe = matrix(SPECTRUM), random_signs(300, vector(1), seed=3)
    found = quadrature(lambda v: H @ v, probe, steps=10)
    assert found.weights.sum() == pytest.approx(1.0)
    unit = probe / probe.norm()
    for exponent in (1, 2, 3):
        expected = float(unit @ torch.linalg.matrix_power(H, exponent) @ unit)
        assert (found.weights * found.nodes**exponent).sum() == pytest.approx(expected, rel=1e-9)


def test_the_mean_over_probes_is_the_density() -> None:
    H = matrix(SPECTRUM)
    grid, width = np.linspace(-25, 45, 200), 1.0
    probes = [random_signs(300, vector(1), seed) for seed in range(60)]
    estimates = [quadrature(lambda v: H @ v, probe, 30).smoothed(grid, width) for probe in probes]
    exact = Quadrature(np.array(SPECTRUM), np.full(300, 1 / 300)).smoothed(grid, width)
    error = np.std(estimates, axis=0) / np.sqrt(60)
    assert (np.abs(np.mean(estimates, axis=0) - exact) <= 4.5 * error + 1e-6).all()
    assert exact.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, rel=1e-3)


def test_random_signs_are_signs_and_repeat() -> None:
    signs = random_signs(1000, torch.zeros(1), seed=5)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert torch.equal(signs, random_signs(1000, torch.zeros(1), seed=5))
    assert not torch.equal(signs, random_signs(1000, torch.zeros(1), seed=6))
    assert abs(float(signs.mean())) < 0.15


BULK = np.random.default_rng(0)
CLUSTERED = [50.0, 30.0, 20.0, -12.0, -8.0, *BULK.normal(0.05, 0.15, 300), *BULK.normal(0.0, 1.5, 95)]


@pytest.mark.parametrize("threshold", [-0.6, 0.0, 3.0])
@pytest.mark.parametrize("steps", [5, 15, 40])
def test_bounds_hold_the_weight_of_every_probe(threshold: float, steps: int) -> None:
    """Each probe has a density of its own, whose weight below a threshold is known exactly."""
    eigenvectors = torch.linalg.qr(
        torch.randn(400, 400, dtype=torch.float64, generator=torch.manual_seed(0))
    )[0]
    values = torch.tensor(CLUSTERED, dtype=torch.float64)
    H = eigenvectors * values @ eigenvectors.T
    for seed in range(10):
        probe = random_signs(400, vector(1), seed)
        own = (eigenvectors.T @ probe).square() / 400
        low, high = quadrature(lambda v: H @ v, probe, steps).below(threshold)
        exact = float(own[values < threshold].sum())
        assert 0.0 <= low <= exact + 1e-12
        assert exact - 1e-12 <= high <= 1.0


def test_bounds_get_closer_with_more_steps() -> None:
    H, probe = matrix(CLUSTERED), random_signs(400, vector(1), seed=1)
    gaps = [np.diff(quadrature(lambda v: H @ v, probe, steps).below(-0.6))[0] for steps in (8, 16, 32, 64)]
    assert all(later < 0.7 * earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] < 0.02


def test_bounds_of_a_few_eigenvalues() -> None:
    two = Quadrature(np.array([-1.0, 1.0]), np.array([0.3, 0.7]))
    low, high = two.below(-5.0)
    assert low == 0.0
    assert high < 0.1  # mean 0.4 and variance 0.84: little can be below -5 (Cantelli: 0.84 / (0.84 + 5.4^2))
    assert high == pytest.approx(0.84 / (0.84 + 5.4**2))
    assert Quadrature(np.array([2.0]), np.array([1.0])).below(0.0) == (0.0, 1.0)
    assert two.below(0.4) == pytest.approx((0.0, 1.0), abs=0.01)  # at the mean of two nodes nothing is known
