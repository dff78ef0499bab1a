"""The loss of pixels, objects and questions: curvature and landscape against a few obvious lines in float64."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.func import functional_call
from torchvision.models.detection.image_list import ImageList

import vitscope as vs
from tests.curvature.networks import largest
from tests.exams.task_cases import SIDE, PixelNet, detector, squares, vilt
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.tensors import seeded
from vitscope.curvature import Penalty, hessian_of_loss
from vitscope.curvature.parameters import moved_parameters
from vitscope.curvature.plane import random_directions
from vitscope.data.task_data import NO_CLASS, TaskData
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.held_batches import HeldBatches
from vitscope.engine.resuming import PartialResults
from vitscope.exams.loss.hessian import hessian
from vitscope.exams.loss.landscape import landscape
from vitscope.exams.loss.landscape_line import landscape_line
from vitscope.findings.landscape import LandscapeResult
from vitscope.findings.landscape_line import plot_landscape_line
from vitscope.models.dense.detection import _as_theirs, _learning, _seed
from vitscope.plots.landscape_interactive import interactive_landscape
from vitscope.recipes.named import get_recipe
from vitscope.tasks import Segmentation
from vitscope.training.evaluate import measure


def pixel_loss(model: Callable[[Tensor], Tensor], images: Tensor, masks: list[Tensor]) -> Tensor:
    """Of every image: -log p of the class of each pixel, 0 where it has none, and their mean."""
    found = []
    for scores, mask in zip(model(images), masks, strict=True):
        whole = nn.functional.interpolate(
            scores[None], size=mask.shape, mode="bilinear", align_corners=False
        )[0]
        log_p = whole.log_softmax(0)
        pixels = [
            -log_p[mask[i, j], i, j] if mask[i, j] != NO_CLASS else torch.zeros(())
            for i in range(len(mask))
            for j in range(len(mask[0]))
        ]
        found.append(torch.stack(pixels).mean())
    return torch.stack(found)


def answer_loss(scores: Tensor, right: Tensor) -> Tensor:
    p = scores.sigmoid()
    return -(right * p.log() + (1 - right) * (1 - p).log()).sum(1)


def dense_hessian(
    loss: Callable[[], Tensor], parameters: list[nn.Parameter], step: float = 1e-5
) -> np.ndarray:
    """Central differences of the gradient, one number after the other."""
    rows = []
    for parameter in parameters:
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            ends = []
            for sign in (1, -1):
                flat[i] += sign * step
                ends.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss(), parameters)]))
                flat[i] -= sign * step
            rows.append((ends[0] - ends[1]) / (2 * step))
    dense = torch.stack(rows).numpy()
    return (dense + dense.T) / 2


def test_the_spectrum_of_pixels_is_that_of_the_whole_hessian() -> None:
    model, data = PixelNet(), squares("segmentation", holes=True)
    found = hessian(model, data, k=3, batch_size=2, batches=2, weight_decay=0.3, tol=1e-8, recipe=None)
    held = HeldBatches(model, data, 2, 2, None, seed=0)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    point = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    for number in range(2):
        batch = held[number].to(torch.float64)

        def loss(weights: Tensor, batch: HeldBatch = batch) -> Tensor:
            parts = weights.split([shape.numel() for shape in shapes.values()])
            moved = {
                name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
            }
            return pixel_loss(lambda x: functional_call(model, moved, x), batch.images, batch.targets).mean()

        assert found.nll[number] == pytest.approx(loss(point).item(), rel=1e-12)
        dense = torch.autograd.functional.hessian(loss, point).numpy() + 0.3 * np.eye(len(point))
        np.testing.assert_allclose(found.eigenvalues[number], largest(dense, 3), rtol=1e-7)
    assert (found.task, found.augmentation, found.data) == ("segmentation", "none", "squares (train)")
    assert found.converged.all()


def test_the_spectrum_of_answers_is_that_of_the_whole_hessian() -> None:
    model, data = vilt(), squares("vqa")
    params = "vilt.encoder.layer.0.attention.attention.query.weight,classifier.3.bias"
    how = {"batch_size": 4, "batches": 1, "weight_decay": 0.0}
    found = hessian(model, data, k=4, tol=1e-7, params=params, **how)
    batch = HeldBatches(model, data, 4, 1, "vqa-mini", seed=0)[0].to(torch.float64)
    layer = model.vilt.encoder.layer[0].attention.attention.query
    chosen = [layer.weight, model.classifier[3].bias]

    def loss() -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return answer_loss(model(batch.inputs), batch.targets).mean()

    assert found.nll[0] == pytest.approx(loss().item(), rel=1e-9)
    np.testing.assert_allclose(found.eigenvalues[0], largest(dense_hessian(loss, chosen), 4), rtol=1e-5)
    assert (found.task, found.augmentation, found.decay_all) == ("vqa", "vqa-mini", False)


def test_products_of_objects_are_differences_of_gradients_with_the_boxes_held() -> None:
    model, data = detector(), squares("detection", side=32)
    batch = HeldBatches(model, data, 2, 1, "auto", seed=0)[0].to(torch.float64)
    parameters = [p for p in model.parameters() if p.requires_grad]
    boxes: list[list[Tensor]] = []  # that are proposed for every image where the weights are

    def loss() -> Tensor:
        features, total = model.head.features(model.pyramid(batch.images)), []
        for i, (target, draw) in enumerate(zip(batch.targets, batch.draws, strict=True)):
            own, theirs = {name: level[i : i + 1] for name, level in features.items()}, _as_theirs(target)
            image = batch.images[i : i + 1]
            with seeded(_seed(draw)), _learning(model.head, True):
                proposed, first = model.head.rpn(ImageList(image, [(32, 32)]), own, [theirs])
                if len(boxes) <= i:
                    boxes.append([one.detach().clone() for one in proposed])
                _, second = model.head.roi_heads(own, boxes[i], [(32, 32)], [theirs])
            total += [*first.values(), *second.values()]
        return torch.stack(total).sum() / len(batch)

    with hessian_of_loss(model, batch.loss, penalty=Penalty()) as product:
        generator = torch.Generator().manual_seed(1)
        vector = torch.randn(product.size, generator=generator, dtype=torch.float64)
        found, nll, gradient = product(vector), product.nll, product.gradient()
    assert nll == pytest.approx(loss().item(), rel=1e-10)
    pieces = [
        v.view_as(p) for v, p in zip(vector.split([p.numel() for p in parameters]), parameters, strict=True)
    ]

    def gradient_at(step: float) -> Tensor:
        with torch.no_grad():
            for p, v in zip(parameters, pieces, strict=True):
                p.add_(v, alpha=step)
        found = torch.autograd.grad(loss(), parameters, allow_unused=True)
        with torch.no_grad():
            for p, v in zip(parameters, pieces, strict=True):
                p.sub_(v, alpha=step)
        flat = [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]
        return torch.cat([g.flatten() for g in flat])

    torch.testing.assert_close(gradient, gradient_at(0.0), rtol=1e-9, atol=1e-11)
    step = 1e-7
    expected = (gradient_at(step) - gradient_at(-step)) / (2 * step)
    assert float((found - expected).norm()) <= 1e-5 * float(expected.norm())
    assert float(expected.norm()) > 1.0


def test_a_landscape_of_pixels_point_by_point() -> None:
    model, data = PixelNet(), squares("segmentation")
    found = landscape(model, data, points=3, span=0.5, weight_decay=0.3, batch_size=4, recipe=None)
    row = measure(PixelNet().float(), Segmentation(), data)  # the score of a training, on the same images
    assert found.centre.nll.value == pytest.approx(row["nll"], rel=1e-5)
    assert found.centre.accuracy.value == pytest.approx(row["accuracy"])
    assert found.centre.accuracy.low < row["accuracy"] < found.centre.accuracy.high
    held = HeldBatches(model, data, 4, 2, None, seed=0)
    batches = [held[i].to(torch.float64) for i in range(2)]
    moved = moved_parameters(model, (3, SIDE, SIDE))
    assert found.moved == ("layers.0.weight", "layers.2.weight")
    along, across = random_directions(moved)
    start = [m.parameter.detach().clone() for m in moved]
    with torch.no_grad():
        for i, y in enumerate(found.y):
            for j, x in enumerate(found.x):
                for m, w, a, b in zip(moved, start, along, across, strict=True):
                    m.parameter.copy_(w + x * a + y * b)
                losses = torch.cat([pixel_loss(model, b.images, b.targets) for b in batches])
                assert found.nll.value[i, j] == pytest.approx(losses.mean().item(), rel=1e-10)
                right = [
                    (
                        nn.functional.interpolate(s[None], (SIDE, SIDE), mode="bilinear")[0].argmax(0) == mask
                    ).double()
                    for b in batches
                    for s, mask in zip(model(b.images), b.targets, strict=True)
                ]
                assert found.accuracy.value[i, j] == pytest.approx(torch.stack(right).mean().item())
                l2 = 0.15 * sum(p.square().sum().item() for p in model.parameters())
                assert found.l2[i, j] == pytest.approx(l2, rel=1e-10)
    assert "Pixel accuracy" in found.label("accuracy")


def test_what_has_no_class_is_not_counted() -> None:
    model, data = PixelNet(), squares("segmentation", holes=True)
    found = landscape(model, data, points=2, batch_size=8, recipe=None)
    row = measure(PixelNet().float(), Segmentation(), data)
    assert found.centre.accuracy.value == pytest.approx(row["accuracy"])
    known = np.mean([(data.target(i) != NO_CLASS).mean() for i in range(8)])
    assert found.centre.nll.value == pytest.approx(row["nll"] * known, rel=1e-5)  # its loss counts them as 0


def test_a_landscape_of_answers() -> None:
    model, data = vilt(), squares("vqa", count=6)
    found = landscape(model, data, points=2, batch_size=6)
    batch = HeldBatches(model, data, 6, 1, "auto", seed=0)[0].to(torch.float64)
    with torch.no_grad():
        scores = model(batch.inputs)
    assert found.centre.nll.value == pytest.approx(answer_loss(scores, batch.targets).mean().item(), rel=1e-9)
    right = [batch.targets[i, best].item() for i, best in enumerate(scores.argmax(1).tolist())]
    assert found.centre.accuracy.value == pytest.approx(np.mean(right))
    assert "vilt.encoder.layer.0.attention.attention.query.weight" in found.moved
    assert not any("embeddings.word" in name for name in found.moved)


def test_objects_have_a_loss_and_no_accuracy(tmp_path: Path) -> None:
    model, data = detector(), squares("detection", side=32)
    found = landscape(model, data, points=2, span=0.2, limit=2, batch_size=2, memory_format="contiguous")
    batch = HeldBatches(model, data, 2, 1, "dense", seed=0)[0].to(torch.float64)
    with torch.no_grad():
        own = model.losses(batch.images, batch.targets, batch.draws)
    assert found.centre.nll.value == pytest.approx(own.mean().item(), rel=1e-10)
    assert np.isfinite(found.nll.value).all()
    assert np.isnan(found.accuracy.value).all()
    assert {"head.rpn.head.bbox_pred.weight", "head.roi_heads.mask_predictor.conv5_mask.weight"} <= set(
        found.moved
    )
    assert not found.table()["quantity"].str.contains("accuracy").any()
    found.save(tmp_path)
    assert LandscapeResult.load(tmp_path).task == "detection"
    buttons = interactive_landscape(found).layout.updatemenus[0].buttons
    assert [button.label for button in buttons] == ["Loss of detection", "Loss of detection + l2"]
    line = landscape_line(
        model, detector(), data, points=2, limit=2, batch_size=2, memory_format="contiguous"
    )
    assert len(plot_landscape_line(line).figure.axes) == 1
    np.testing.assert_allclose(line.nll.value, found.centre.nll.value)  # the same model at both ends


def test_the_tasks_own_augmentation_is_drawn_once() -> None:
    model, data = PixelNet(), squares("segmentation")
    one, other, plain = (HeldBatches(model, data, 4, 2, recipe, seed=0) for recipe in ("auto", "dense", None))
    assert torch.equal(one[1].images, other[1].images)
    assert torch.equal(one[1].targets, one[1].targets)
    assert one[1].targets.shape == (4, SIDE, SIDE)
    assert not torch.equal(one[1].images, plain[1].images)
    assert one[1].draws != one[0].draws
    half = one[1].part(slice(1, None, 2))
    assert half.draws == one[1].draws[1::2]
    assert torch.equal(half.images, one[1].images[1::2])
    with pytest.raises(VitscopeError, match=r"recipe hdv: auto_augment .* segmentation knows no such thing"):
        HeldBatches(model, data, 4, 2, "hdv", seed=0)


def test_what_fits_to_what_is_said() -> None:
    classifier, labels = vs.create_model("vit_mini", depth=1, embed_dim=12), vs.load_data("fashion")
    pixels, small = squares("segmentation"), {"batches": 1, "batch_size": 8}
    for model, data, message in (
        (classifier, pixels, r"squares is data of segmentation, and vit_mini returns \(1, 10\)"),
        (
            vilt(),
            pixels,
            "vilt_mini is a model of vqa, and squares is data of segmentation; give data of vqa",
        ),
        (detector(), labels, "is a model of detection, and fashion is data of classification"),
        (PixelNet().float(), labels, r"puts out \(1, 3, 8, 8\) for 1 images; expected class scores"),
        (classifier, squares("detection"), "squares is data of detection, and vit_mini finds no objects"),
        (PixelNet(2), pixels, "masks have pixels of class 2, the model has outputs 0 to 1"),
    ):
        with pytest.raises(VitscopeError, match=message):
            hessian(model, data, **small)


class Streams(TaskData):
    """Frames of which every second one is labelled."""

    def labelled(self, index: int) -> bool:
        return bool(self.positions[index] % 2)


def test_frames_that_nobody_labelled_are_left_out() -> None:
    whole = squares("segmentation", count=8)
    frames = Streams("segmentation", "frames", "train", whole.classes, whole.reader, lengths=[8])
    held = HeldBatches(PixelNet(), frames, 4, 1, None, seed=0)[0]
    masks = sorted(mask.sum().item() for mask in held.targets)
    assert masks == sorted(int(whole.target(i).sum()) for i in (1, 3, 5, 7))
    with pytest.raises(BadData, match="need 6 images, the data has 4"):
        HeldBatches(PixelNet(), frames, 6, 1, None, seed=0)


def test_an_interrupted_landscape_of_pixels_goes_on(tmp_path: Path) -> None:
    model, data = PixelNet(), squares("segmentation")
    how = {"points": 3, "batch_size": 4, "memory_format": "contiguous"}
    whole = landscape(model, data, **how)
    passes = 0

    def stop(*_: object) -> None:
        nonlocal passes
        passes += 1
        if passes == 14:
            raise KeyboardInterrupt

    handle = model.register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        landscape(model, data, parts=PartialResults(tmp_path, "landscape", "key"), **how)
    again = landscape(model, data, parts=PartialResults(tmp_path, "landscape", "key"), **how)
    handle.remove()
    assert 14 < passes < 14 + 14 + 9
    np.testing.assert_array_equal(again.nll.value, whole.nll.value)
    np.testing.assert_array_equal(again.accuracy, whole.accuracy)


def test_a_diagnosis_of_a_folder_of_masks(tmp_path: Path) -> None:
    whole = squares("segmentation", count=18)
    for split, places in (("train", range(16)), ("test", range(16, 18))):
        for part in ("images", "masks"):
            (tmp_path / split / part).mkdir(parents=True)
        for i in places:
            whole.picture(i).save(tmp_path / split / "images" / f"{i}.png")
            Image.fromarray(whole.target(i).astype(np.uint8)).save(tmp_path / split / "masks" / f"{i}.png")
    options = {"hessian": {"k": 1, "batches": 1}, "landscape": {"points": 3}}
    out = tmp_path / "run"
    found = vs.diagnose(
        PixelNet().float(),
        f"masks:{tmp_path}",
        ["hessian", "landscape"],
        batch_size=8,
        out=out,
        options=options,
    )
    assert found["hessian"].data == found["landscape"].data == f"masks:{tmp_path} (train)"
    assert found["hessian"].eigenvalues.shape == (1, 1)
    assert found["landscape"].n == 16
    assert (out / "figures" / "landscape.png").exists()


def test_a_recipe_of_ones_own() -> None:
    model, data = PixelNet(), squares("segmentation")
    recipe = dataclasses.replace(get_recipe("dense"), name="mine", flip=0.0, decay_all=True)
    found = hessian(model, data, k=1, batch_size=2, batches=1, recipe=recipe)
    assert (found.augmentation, found.decay_all) == ("mine", True)


@pytest.mark.parametrize("task", ["detection", "vqa"])
def test_an_interrupted_spectrum_of_objects_and_answers_goes_on_with_the_same_digits(
    task: str, tmp_path: Path
) -> None:
    model, data = (
        (detector(), squares("detection", side=32)) if task == "detection" else (vilt(), squares("vqa"))
    )
    few = {"params": "head.roi_heads.box_predictor" if task == "detection" else "classifier"}
    how = {"k": 1, "batch_size": 2, "batches": 2, "tol": 0.5, "max_products": 12, **few}
    passes, stop_at = 0, 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1
        if passes == stop_at:
            raise KeyboardInterrupt

    handle = model.register_forward_hook(count)
    whole = hessian(model, data, **how)
    needed, passes, stop_at = passes, 0, passes - 1  # in the second batch
    with pytest.raises(KeyboardInterrupt):
        hessian(model, data, parts=PartialResults(tmp_path, "hessian", "key"), **how)
    passes, stop_at = 0, 0
    again = hessian(model, data, parts=PartialResults(tmp_path, "hessian", "key"), **how)
    handle.remove()
    assert 0 < passes < needed  # the first batch is not done again
    for name in ("eigenvalues", "residuals", "products", "nll", "l2"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert again.task == task
