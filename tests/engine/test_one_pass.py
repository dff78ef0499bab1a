import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification

from vitscope.core.errors import BadData, UnsupportedModel, VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams import EXAMS, examine, find_exams, fourier, prediction, variance
from vitscope.exams.prediction.prediction import PredictionResult
from vitscope.findings.fourier import FourierResult
from vitscope.findings.variance import VarianceResult
from vitscope.models import create_model

ALL = [exam for exam in EXAMS.values() if isinstance(exam, type) and not exam.task]
PER_IMAGE = [exam for exam in ALL if not exam.batch_matters]


def streams(model: VisionTransformer, images: torch.Tensor) -> Iterator[torch.Tensor]:
    """The residual stream after every unit, written out by hand."""
    x = model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(images))))
    yield x
    for block in model.blocks:
        x = x + block.ls1(block.attn(block.norm1(x)))
        yield x
        x = x + block.ls2(block.mlp(block.norm2(x)))
        yield x


def maps(stream: torch.Tensor) -> np.ndarray:
    return stream[:, 1:].transpose(1, 2).unflatten(2, (8, 8)).numpy()  # without the class token


@pytest.fixture
def seen(small_vit: VisionTransformer, fashion: ImageData) -> tuple[torch.Tensor, torch.Tensor]:
    """Every image of a limit of 96, prepared, with its label."""
    found = list(batches(fashion, small_vit, limit=96, batch_size=96))
    assert len(found) == 1
    return found[0][0], found[0][1]


@torch.no_grad()
def test_results_equal_a_model_taken_apart_by_hand_in_float64(
    small_vit: VisionTransformer, fashion: ImageData, seen: tuple[torch.Tensor, torch.Tensor]
) -> None:
    results = examine(small_vit, fashion, ALL, limit=96, batch_size=40)
    images, labels = seen
    model = small_vit.double().eval()
    after = [maps(stream) for stream in streams(model, images.double())]
    f, v, p = results["fourier"], results["variance"], results["prediction"]
    assert isinstance(f, FourierResult)
    assert isinstance(v, VarianceResult)
    assert isinstance(p, PredictionResult)

    by_hand = [m.reshape(96, 48, 64).var(axis=2, ddof=1).mean() for m in after]
    # anatomy sees the position embedding as part of the stem; so does the hand-written stream
    np.testing.assert_allclose(v.value[-4:], by_hand[-4:], rtol=1e-4)
    log = [np.log(np.abs(np.fft.fft2(m)) + 1e-6).mean((0, 1)) for m in after]
    diagonal = [np.diagonal(spectrum)[:4] - spectrum[0, 0] for spectrum in log]
    np.testing.assert_allclose(f.value.reshape(-1, 4)[-4:], diagonal[-4:], atol=1e-3)
    logits = model(images.double())
    assert p.accuracy == float((logits.argmax(1) == labels).double().mean())
    assert p.nll == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-5)
    assert (v.n, f.n, p.n) == (96, 96, 96)
    assert [u.kind for u in v.units[-4:]] == ["msa", "mlp", "msa", "mlp"]


def test_one_pass_gives_what_separate_passes_give(small_vit: nn.Module, fashion: ImageData) -> None:
    together = examine(small_vit, fashion, ALL, limit=40)
    alone = [exam(small_vit, fashion, limit=40) for exam in (prediction, fourier, variance)]
    for (
        result
    ) in alone:  # attention that is looked at is computed by another kernel, which rounds differently
        np.testing.assert_allclose(
            together[result.exam].table()["value"], result.table()["value"], rtol=1e-4, atol=1e-6
        )
    without = examine(small_vit, fashion, [exam for exam in ALL if not exam.needs_attention], limit=40)
    for result in alone:
        np.testing.assert_array_equal(without[result.exam].table()["value"], result.table()["value"])


def test_the_model_is_shown_each_batch_once(small_vit: nn.Module, fashion: ImageData) -> None:
    passes: list[int] = []
    handle = small_vit.register_forward_hook(lambda _, args, __: passes.append(len(args[0])))
    examine(small_vit, fashion, ALL, limit=50, batch_size=20)
    handle.remove()
    assert [n for n in passes if n != 2] == [20, 20, 10]  # anatomy looks at two images


def test_batch_size_changes_nothing_but_rounding(small_vit: nn.Module, fashion: ImageData) -> None:
    a = examine(small_vit, fashion, PER_IMAGE, limit=30, batch_size=7)
    b = examine(small_vit, fashion, PER_IMAGE, limit=30, batch_size=30)
    for exam in a:
        np.testing.assert_allclose(a[exam].table()["value"], b[exam].table()["value"], rtol=2e-4, atol=2e-5)


def test_small_chunks_change_nothing(
    small_vit: nn.Module, fashion: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = examine(small_vit, fashion, ALL, limit=30)
    monkeypatch.setattr("vitscope.engine.one_pass.CHUNK", 5000)
    pieces = examine(small_vit, fashion, ALL, limit=30)
    for exam in whole:
        np.testing.assert_allclose(
            whole[exam].table()["value"], pieces[exam].table()["value"], rtol=1e-4, atol=1e-5
        )


def state(model: nn.Module) -> dict[str, object]:
    return {
        "training": [m.training for m in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grad": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "weights": [p.detach().clone() for p in model.state_dict().values()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "forward": ["forward" in vars(m) for m in model.modules()],
        "rng": (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()),
        "grad_mode": torch.is_grad_enabled(),
    }


def prepare(model: nn.Module) -> None:
    model.train()
    next(model.modules()).eval()
    model.blocks[0].eval()  # type: ignore[index, operator, union-attr]
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[1].grad = torch.ones_like(parameters[1])


def assert_same(before: dict[str, object], after: dict[str, object]) -> None:
    torch.testing.assert_close(after["weights"], before["weights"], rtol=0, atol=0)
    torch.testing.assert_close(after["rng"][0], before["rng"][0], rtol=0, atol=0)  # type: ignore[index]
    for name in ("training", "requires_grad", "hooks", "forward", "grad_mode"):
        assert after[name] == before[name], name
    for a, b in zip(after["grad"], before["grad"], strict=True):  # type: ignore[call-overload]
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)
    assert after["rng"][1:] == before["rng"][1:]  # type: ignore[index]


def test_nothing_is_left_behind(small_vit: nn.Module, fashion: ImageData) -> None:
    prepare(small_vit)
    before = state(small_vit)
    examine(small_vit, fashion, ALL, limit=20)
    assert_same(before, state(small_vit))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_behind_after_an_error(
    small_vit: nn.Module, fashion: ImageData, error: type[BaseException]
) -> None:
    prepare(small_vit)
    calls = 0

    def fail(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error

    handle = small_vit.blocks[1].register_forward_hook(fail)  # type: ignore[index, operator, union-attr]
    before = state(small_vit)
    with pytest.raises(error):
        examine(small_vit, fashion, ALL, limit=60, batch_size=20)
    assert_same(before, state(small_vit))
    handle.remove()


def test_evaluation_mode_inside(fashion: ImageData) -> None:
    model = create_model("resnet_mini").train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    a = prediction(model, fashion, limit=40)
    b = prediction(model.eval(), fashion, limit=40)
    np.testing.assert_array_equal(a.value, b.value)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)


def test_tensors_datasets_and_loaders(small_vit: nn.Module, seen: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = seen
    forms = [
        (images, labels),
        DataLoader(TensorDataset(images, labels), batch_size=32),
    ]
    found = [examine(small_vit, form, ALL, batch_size=32) for form in forms]
    for exam in found[0]:
        np.testing.assert_allclose(
            found[0][exam].table()["value"], found[1][exam].table()["value"], rtol=2e-4, atol=2e-5
        )
    assert [f["fourier"].data for f in found] == ["tensors", "DataLoader"]


def test_a_hugging_face_model(seen: tuple[torch.Tensor, torch.Tensor]) -> None:
    config = ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )
    result = examine(ViTForImageClassification(config), (seen[0][:16], seen[1][:16]), ALL)
    assert [u.kind for u in result["variance"].units].count("msa") == 2  # type: ignore[attr-defined]
    assert np.isfinite(result["prediction"].table()["value"]).all()


def test_images_take_the_precision_of_the_weights(small_vit: nn.Module, fashion: ImageData) -> None:
    single = variance(small_vit, fashion, limit=20)
    double = variance(small_vit.double(), fashion, limit=20)
    np.testing.assert_allclose(double.value, single.value, rtol=1e-4)


def test_a_model_without_maps_can_still_predict(fashion: ImageData) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 10))
    assert prediction(model, fashion, limit=8).n == 8
    with pytest.raises(UnsupportedModel):
        fourier(model, fashion, limit=8)


def test_labels_matter_only_to_exams_that_use_them(fashion: ImageData) -> None:
    model = create_model("resnet_mini", num_classes=4)
    assert variance(model, fashion, limit=20).n == 20
    with pytest.raises(BadData, match="num_classes=10"):
        prediction(model, fashion, limit=20)


def test_more_outputs_than_classes_is_said(fashion: ImageData) -> None:
    with pytest.warns(UserWarning, match="11 outputs, the data 10 classes"):
        prediction(create_model("resnet_mini", num_classes=11), fashion, limit=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variance(create_model("resnet_mini", num_classes=11), fashion, limit=20)


def test_a_device_that_is_not_there(small_vit: nn.Module, fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match=r"device is 'nonsense'.*torch knows no such device"):
        examine(small_vit, fashion, ALL, limit=4, device="nonsense")


def test_weights_that_overflow_are_noticed(small_vit: nn.Module, fashion: ImageData) -> None:
    with torch.no_grad():
        small_vit.blocks[1].mlp.fc2.weight.fill_(torch.inf)  # type: ignore[index, operator, union-attr]
    with pytest.raises(VitscopeError, match=r"'blocks\.1\.mlp' are not finite"):
        variance(small_vit, fashion, limit=8)
    with pytest.raises(VitscopeError, match="not finite"):
        prediction(small_vit, fashion, limit=8)


def test_seed_decides_the_subset(small_vit: nn.Module, fashion: ImageData) -> None:
    a, b, c = (variance(small_vit, fashion, limit=20, seed=seed).value for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_exams_can_be_named() -> None:
    assert [e.result.exam for e in find_exams(["fourier"])] == ["fourier"]


@pytest.mark.slow
def test_memory_does_not_grow_with_images() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "memory.py"
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
    few, many = (float(line.split()[1]) for line in output.splitlines()[1:3])
    assert many <= 1.05 * few
