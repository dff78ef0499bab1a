import pytest
import torch

from tests.curvature.networks import batch, small_vit
from vitscope.curvature import Penalty
from vitscope.engine.curvature_passes import CurvatureSetup, ProductBar, curvature_passes


def setup(**changes) -> CurvatureSetup:
    values = {"batch_size": 2, "batches": 3, "penalty": Penalty(0.1), "params": None, "recipe": None}
    return CurvatureSetup(**{**values, "split_batch": False, "seed": 0, **changes})


def test_every_batch_has_its_own_hessian_and_start() -> None:
    model, (images, targets) = small_vit(), batch()
    with curvature_passes(model, (images, targets.argmax(1)), setup(), None, "small") as passes:
        found = {
            number: (product.nll, passes.start(number, product))
            for number, product in passes.products(range(3))
        }
        about = passes.about
    assert list(found) == [0, 1, 2]
    every = torch.nn.functional.cross_entropy(model(images), targets.argmax(1), reduction="none")
    nlls = [nll for nll, _ in found.values()]
    assert sum(nlls) / 3 == pytest.approx(every.mean().item(), rel=1e-6)  # each image is in one batch
    pairs = [every[i].item() / 2 + every[j].item() / 2 for i in range(6) for j in range(i)]
    for nll in nlls:
        assert min(abs(nll - pair) for pair in pairs) < 1e-6
    assert not torch.equal(found[0][1], found[1][1])
    assert (about["model"], about["n"], about["augmentation"]) == ("small", 6, "none")
    assert about["parameters"] == sum(p.numel() for p in model.parameters())


def test_kinds_are_found_by_anatomy() -> None:
    model, (images, targets) = small_vit(), batch()
    data = (images, targets.argmax(1))
    with curvature_passes(model, data, setup(params="kind:msa"), None, None) as passes:
        sizes = {product.size for _, product in passes.products(range(3))}
    assert sizes == {sum(p.numel() for p in model.blocks[0].attn.parameters())}


def test_the_estimate_follows_what_batches_took() -> None:
    with ProductBar("a model: hessian", batches=4, guess=10) as bar:
        assert bar._bar.total == 40
        for products in range(1, 31):
            bar.step(products)
        assert (bar._bar.n, bar._bar.total) == (30, 40)
        bar.finish_batch(31)
        assert (bar._bar.n, bar._bar.total) == (31, 124)
        bar.step(5)
        assert bar._bar.n == 36
        for products in (21, 20, 20):
            bar.finish_batch(products)
        assert bar._bar.n == bar._bar.total == 92
