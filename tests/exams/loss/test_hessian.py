import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitscope as vs
from tests.curvature.networks import batch, dense_hessian, largest, small_vit
from tests.exams.hessian_job import numbers, of_tasks, refusal
from tests.processes import run
from vitscope.core.errors import VitscopeError
from vitscope.engine.held_batches import HeldBatches
from vitscope.exams.loss.hessian import hessian
from vitscope.findings.hessian import HessianResult
from vitscope.results import Result

K, N, BATCHES = 3, 4, 2


def tiny(**arguments):
    torch.manual_seed(0)
    model = vs.create_model("vit_mini", depth=1, embed_dim=6, num_heads=2, patch_size=8, **arguments)
    for parameter in model.parameters():  # a head of zeros has hardly any curvature
        torch.nn.init.normal_(parameter, std=0.3)
    return model.double()


def expected_table(model: nn.Module, *data: Tensor) -> dict[tuple[str, None], Any]:
    held = HeldBatches(model, data, 4, 2, None, seed=0)
    batches = [(held[i].images.double(), F.one_hot(held[i].targets, 10).double()) for i in range(2)]
    norms = {name: p for name, p in model.named_parameters() if "0.norm1" in name}
    dense = [dense_hessian(model, *one, norms) + 0.05 * np.eye(32) for one in batches]
    found = np.array([largest(one, 2) for one in dense])
    nll = np.mean([F.cross_entropy(model(images), targets).item() for images, targets in batches])
    l2 = 0.025 * sum(p.square().sum().item() for p in norms.values())
    numbers = {"eigenvalue": found.ravel(), "nll": nll, "l2": l2, "loss": nll + l2}
    numbers |= {"nep": (found < 0).mean(), "ape": found[found > 0].mean(), "unconverged": 0}
    return {(quantity, None): values for quantity, values in numbers.items()}


@pytest.fixture(scope="module")
def result() -> HessianResult:
    images, targets = batch(8)
    return hessian(small_vit(), (images, targets.argmax(1)), k=K, batch_size=N, batches=BATCHES, tol=1e-6)


def test_the_definition_on_augmented_mixed_images() -> None:
    """Claim C1 end to end: RandAugment, mixup, smoothing and l2, against the dense Hessian of the same batches."""
    model, data = tiny(), vs.load_data("fashion", split="train")
    options = {"k": K, "batch_size": N, "batches": BATCHES, "params": "blocks.*.attn", "tol": 1e-7}
    found = vs.exams.hessian(model, data, weight_decay=0.3, **options)
    held = HeldBatches(model, data, N, BATCHES, "hdv", seed=0)
    chosen = dict(model.blocks[0].attn.named_parameters())
    for number, values in enumerate(found.eigenvalues):
        images, targets = held[number].images.double(), held[number].targets.double()
        dense = dense_hessian(model.eval(), images, targets, chosen) + 0.3 * np.eye(found.parameters)
        np.testing.assert_allclose(values, largest(dense, K), rtol=1e-6)
        nll = -(targets * model(images).log_softmax(1)).sum(1).mean()
        assert found.nll[number] == pytest.approx(nll.item(), rel=1e-6)
    assert found.l2 == pytest.approx(0.15 * sum(p.square().sum().item() for p in chosen.values()))
    assert (found.augmentation, found.decay_all, found.params) == ("hdv", True, "blocks.*.attn")
    assert found.data == "fashion (train)"


def test_shapes_evidence_and_table(result: HessianResult) -> None:
    assert result.eigenvalues.shape == result.residuals.shape == result.converged.shape == (BATCHES, K)
    assert result.converged.all()
    assert (result.residuals <= 1e-6).all()
    table = result.table()
    values = table[table["quantity"] == "eigenvalue"]
    np.testing.assert_array_equal(values["value"], result.eigenvalues.ravel())
    assert values["batch"].tolist() == [0, 0, 0, 1, 1, 1]
    assert values["n"].unique().tolist() == [N]
    summary = result.summary().set_index("quantity")
    assert summary.loc["nep", "value"] == pytest.approx((result.eigenvalues < 0).mean())
    assert summary.loc["ape", "value"] == pytest.approx(result.eigenvalues[result.eigenvalues > 0].mean())
    assert summary.loc["loss", "value"] == pytest.approx((result.nll + result.l2).mean())
    assert summary.loc["products", "value"] == result.products.sum()
    assert summary.loc["nep", "n"] == N * BATCHES
    assert (result.n, result.batch_size) == (N * BATCHES, N)


def test_saved_and_loaded(result: HessianResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert isinstance(loaded, HessianResult)
    np.testing.assert_array_equal(loaded.eigenvalues, result.eigenvalues)
    np.testing.assert_array_equal(loaded.converged, result.converged)
    assert loaded.table().equals(result.table())


def test_not_converged_is_said_aloud() -> None:
    images, targets = batch(8)
    with pytest.warns(
        UserWarning, match=r"of 6 eigenvalues did not reach a residual of 1e-09 .*raise max_products"
    ):
        found = hessian(
            small_vit(),
            (images, targets.argmax(1)),
            k=K,
            batch_size=N,
            batches=BATCHES,
            tol=1e-9,
            max_products=6,
        )
    assert found.unconverged == (~found.converged).sum() > 0
    table = found.table()
    assert table.set_index("quantity").loc["unconverged", "value"] == found.unconverged
    assert (~table["converged"].dropna().astype(bool)).sum() == found.unconverged


def test_power_mode_and_the_published_l2() -> None:
    images, targets = batch(4)
    data, options = (images, targets.argmax(1)), {"k": 1, "batch_size": N, "batches": 1, "recipe": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_power = hessian(small_vit(), data, mode="power", **options)
    assert by_power.eigenvalues[0, 0] == pytest.approx(
        hessian(small_vit(), data, **options).eigenvalues[0, 0], rel=0.02
    )
    unsquared = hessian(small_vit(), data, l2="norm", weight_decay=2.0, **options)
    assert unsquared.l2[0] == pytest.approx(2.0 * sum(p.norm().item() for p in small_vit().parameters()))
    with pytest.raises(VitscopeError, match="mode is 'qr'; expected lanczos or power"):
        hessian(small_vit(), data, mode="qr")  # type: ignore[arg-type]


def test_diagnose_runs_it_on_the_training_split(tmp_path: Path) -> None:
    model = tiny().float()
    data = vs.load_data("fashion", split="test")
    found = vs.diagnose(model, data, exams=["hessian"], limit=32, out=tmp_path / "run")["hessian"]
    assert isinstance(found, HessianResult)
    assert (found.data, found.eigenvalues.shape, found.batch_size) == ("fashion (train)", (2, 5), 16)
    assert (tmp_path / "run" / "figures" / "hessian.png").exists()


def test_two_processes_give_the_same_numbers(tmp_path: Path) -> None:
    done = run(Path(__file__).parents[1] / "hessian_job.py", tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    two = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    alone = numbers(split=False)
    assert two[0] == two[1]
    assert two[0]["shared"] == alone  # batches shared out: to the last digit
    for name in ("values", "losses", "summed up", "density"):  # batches split: sums in another order
        np.testing.assert_allclose(two[0]["split"][name], alone[name], rtol=1e-7, atol=1e-12)
    assert np.array(two[0]["split"]["converged"]).all()
    tasks = of_tasks(split=False)
    assert two[0]["tasks"] == tasks
    for task, by_one in tasks.items():
        np.testing.assert_allclose(two[0]["split tasks"][task], by_one, rtol=1e-7, err_msg=task)
    assert "split_batch over 2 processes needs as many images per batch; a batch has 1" in two[0]["refusal"]
    assert refusal() == ""
