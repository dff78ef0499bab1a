import numpy as np
import pytest
import torch
from torch import nn

from tests.curvature.networks import batch, conv_net, dense_hessian, known_hessian, largest, small_vit
from vitscope.core.errors import VitscopeError
from vitscope.curvature import RandomModel, top_eigenvalues

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
