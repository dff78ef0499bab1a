"""Segmentation as a task: losses, scores and augmentation against obvious lines, and a training from end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig
from vitscope.data.task_data import NO_CLASS
from vitscope.engine.pixel_scores import score_pixels
from vitscope.models.checkpoints import list_checkpoints
from vitscope.recipes.named import get_recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all
from vitscope.tasks import find_task
from vitscope.tasks.masked import MaskedExample
from vitscope.tasks.segmentation import Segmentation, count_pixels, pixel_losses, summed
from vitscope.tasks.task import Measuring
from vitscope.tasks.upsampled import at_size, strips
from vitscope.tasks.windows import places, scaled_picture, windowed_scores
from vitscope.training import train

CONFIG = DataConfig(
    (3, 16, 16), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25), crop_pct=1.0, crop_mode="squash"
)


def test_loss_of_an_image_is_the_mean_over_its_pixels() -> None:
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    masks = torch.randint(0, 3, (2, 4, 5))
    masks[0, 1] = NO_CLASS
    found = pixel_losses(scores, masks)
    p = scores.softmax(1)
    for n in range(2):
        cells = [(y, x) for y in range(4) for x in range(5) if masks[n, y, x] != NO_CLASS]
        expected = -sum(float(p[n, int(masks[n, y, x]), y, x].log()) for y, x in cells) / 20
        assert float(found[n]) == pytest.approx(expected, rel=1e-12)


def test_scores_are_those_of_all_pixels_together() -> None:
    torch.manual_seed(0)
    scores = torch.randn(7, 4, 6, 8)
    masks = torch.randint(-1, 3, (7, 6, 8))  # class 3 does not occur, but is predicted
    row = summed([count_pixels(s, m) for s, m in zip(scores, masks, strict=True)])
    known = masks != NO_CLASS
    said, truth = scores.argmax(1)[known].numpy(), masks[known].numpy()
    overlap = [((said == k) & (truth == k)).sum() / ((said == k) | (truth == k)).sum() for k in range(4)]
    assert row["miou"] == pytest.approx(np.mean(overlap), rel=1e-12)
    assert row["accuracy"] == pytest.approx((said == truth).mean(), rel=1e-12)
    nll = -scores.double().log_softmax(1).movedim(1, -1)[known][np.arange(len(truth)), truth].mean()
    assert row["nll"] == pytest.approx(float(nll), rel=1e-6)
    assert row["miou_low"] < row["miou"] < row["miou_high"]
    assert row["low"] < row["accuracy"] < row["high"]


def test_classes_that_neither_occur_nor_are_predicted_do_not_count() -> None:
    scores = torch.full((3, 2, 2), -5.0)
    scores[0] = 5.0
    assert summed([count_pixels(scores, torch.zeros(2, 2, dtype=torch.long))])["miou"] == 1.0


def test_scores_are_brought_to_the_size_of_the_mask() -> None:
    scores = torch.zeros(2, 1, 2)
    scores[1, 0, 1] = 1.0
    counts = count_pixels(scores - torch.tensor([0.0, 0.5])[:, None, None], torch.tensor([[0, 0, 1, 1]] * 2))
    assert counts.pixels == 8
    assert counts.classes[0].tolist() == [4, 4]


def test_picture_and_mask_are_changed_alike() -> None:
    """A picture that shows its own mask still does after any augmentation."""
    mask = np.zeros((40, 30), np.int16)
    mask[10:30, 5:20] = 1
    picture = Image.fromarray(np.repeat((mask * 255).astype(np.uint8)[..., None], 3, 2))
    example = MaskedExample(get_recipe("dense", colour_jitter=0.0), CONFIG)
    seen = set()
    with random_state_preserved():
        for draw in range(20):
            seed_all(draw)
            image, classes = example(picture, mask)
            assert image.shape == (3, 16, 16)
            assert classes.shape == (16, 16)
            inside, known = image[0] > 0, classes != NO_CLASS
            assert (
                float((inside[known] == (classes[known] == 1)).float().mean()) > 0.85
            )  # but for blurred borders
            assert image[:, ~known].abs().max() < 0.05 if bool((~known).any()) else True  # padding is grey
            seen.add(int((classes == 1).sum()))
    assert len(seen) > 10


def test_shifted_only() -> None:
    mask = np.arange(256, dtype=np.int16).reshape(16, 16)
    example = MaskedExample(get_recipe("dense", crop="pad", flip=0.0, colour_jitter=0.0), CONFIG)
    with random_state_preserved():
        seed_all(3)
        _, classes = example(Image.new("RGB", (16, 16)), mask)
    known = classes != NO_CLASS
    step = np.diff(classes.numpy(), axis=1)[known[:, 1:].numpy() & known[:, :-1].numpy()]
    assert set(step.tolist()) == {1}
    assert int((~known).sum()) <= 16 * 4 + 16 * 2


def test_labels_mixing_is_refused() -> None:
    with pytest.raises(
        VitscopeError, match=r"recipe mini: .*mixup is 1.0.*; segmentation knows no such thing: give --recipe"
    ):
        Segmentation().check_recipe(get_recipe("mini"))


class PixelNet(nn.Module):
    """A segmentation model of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
        self.pretrained_cfg = {
            "input_size": (3, 16, 16),
            "mean": (0.5,) * 3,
            "std": (0.25,) * 3,
            "crop_pct": 1.0,
        }

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.layers(images)
        return found


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Bright squares and dark stripes on grey, in folders."""
    folder = tmp_path_factory.mktemp("squares")
    draw = np.random.default_rng(0)
    for split, count in (("train", 24), ("test", 9)):
        for part in ("images", "masks"):
            (folder / split / part).mkdir(parents=True)
        for i in range(count):
            mask = np.zeros((20, 20), np.uint8)
            y, x = draw.integers(0, 12, 2)
            mask[y : y + 8, x : x + 8] = 1
            mask[draw.integers(0, 20)] = 2
            pixels = np.array([128, 230, 20], np.uint8)[mask] + draw.integers(0, 20, mask.shape).astype(
                np.uint8
            )
            Image.fromarray(np.repeat(pixels[..., None], 3, 2)).save(folder / split / "images" / f"{i}.png")
            Image.fromarray(mask).save(folder / split / "masks" / f"{i}.png")
    return f"masks:{folder}"


def test_training_learns_and_resumes_to_the_bit(squares: str, tmp_path: Path) -> None:
    def net() -> nn.Module:
        torch.manual_seed(0)
        return PixelNet()

    options: dict[str, Any] = {"batch_size": 4, "lr": 0.02, "progress": False}
    with random_state_preserved():
        whole = net()
        done = train(whole, squares, out=tmp_path / "whole", epochs=6, **options)
        assert done.scores["miou"] > 0.6
        assert "mIoU" in done.words
        head = (tmp_path / "whole" / "metrics.csv").read_text().splitlines()[0].split(",")
        assert head[-3:] == ["miou", "miou_low", "miou_high"]
        assert {one.name for one in list_checkpoints(tmp_path / "whole")} >= {"init", "best", "last"}
        calls = 0

        class Stop(Exception):
            pass

        def stop(*_: object) -> None:
            nonlocal calls
            calls += 1
            if calls == 20:
                raise Stop

        cut = net()
        hook = cut.register_forward_hook(stop)
        with pytest.raises(Stop):
            train(cut, squares, out=tmp_path / "cut", epochs=6, save_every=1, **options)
        hook.remove()
        again = net()
        train(again, squares, out=tmp_path / "cut", epochs=6, save_every=1, resume=True, **options)
    for one, other in zip(whole.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_strips_are_what_one_call_gives() -> None:
    torch.manual_seed(1)
    for size in ((37, 50), (8, 50), (5, 6), (90, 11), (8, 9)):
        scores = torch.randn(4, 8, 9, dtype=torch.float64)
        whole = at_size(scores[None], size)[0]
        found = [rows for _, rows in strips(scores, size, at_once=4 * size[1] * 3)]
        assert len(found) == -(-size[0] // 3)
        torch.testing.assert_close(torch.cat(found, 1), whole, rtol=0, atol=1e-12)
        assert torch.equal(next(strips(scores, size))[1], whole)  # what fits is not cut


def test_scores_do_not_depend_on_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    scores, mask = torch.randn(5, 8, 8, dtype=torch.float64), torch.randint(-1, 5, (41, 30))
    counts, (columns, table, said) = count_pixels(scores, mask), score_pixels(scores, mask)
    monkeypatch.setattr("vitscope.tasks.upsampled.AT_ONCE", 5 * 30 * 4)
    cut, (columns_cut, table_cut, said_cut) = count_pixels(scores, mask), score_pixels(scores, mask)
    assert counts.classes.tolist() == cut.classes.tolist()
    assert counts.pixels == cut.pixels
    assert cut.nll == pytest.approx(counts.nll, rel=1e-12)
    assert torch.equal(table, table_cut)
    assert torch.equal(said, said_cut)
    torch.testing.assert_close(columns_cut, columns, rtol=1e-10, atol=1e-10)


def obvious_windows(score: Any, image: Tensor, side: int) -> np.ndarray:
    """Pixel by pixel: the mean over the windows that hold it."""
    height, width = image.shape[1:]
    stride = side * 2 // 3
    total: Any = 0
    count = np.zeros((height, width))
    tops = sorted({min(y, height - side) for y in range(0, height, stride)})
    lefts = sorted({min(x, width - side) for x in range(0, width, stride)})
    for top in tops:
        for left in lefts:
            own = score(image[None, :, top : top + side, left : left + side])[0].numpy()
            spread = np.zeros((len(own), height, width))
            spread[:, top : top + side, left : left + side] = own
            total = total + spread
            count[top : top + side, left : left + side] += 1
    return np.asarray(total / count)


@pytest.mark.parametrize("size", [(12, 12), (12, 31), (25, 40), (20, 12)])
def test_windows_are_averaged_where_they_overlap(size: tuple[int, int]) -> None:
    torch.manual_seed(3)
    net = nn.Conv2d(3, 4, 3, padding=1).double()
    image = torch.randn(3, *size, dtype=torch.float64)
    with torch.no_grad():
        found = windowed_scores(lambda x: net(x.double()).double(), image, (12, 12))
        expected = obvious_windows(lambda x: net(x), image, 12)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)  # scores are float32


def test_windows_reach_every_pixel_at_two_thirds_of_their_side() -> None:
    assert places(512, 512) == [0]
    assert places(683, 512) == [0, 171]
    assert places(1024, 512) == [0, 341, 512]
    assert places(853, 512) == [0, 341]


def test_a_picture_is_brought_to_so_many_windows() -> None:
    picture = Image.new("RGB", (90, 60))
    assert scaled_picture(picture, CONFIG, 1.0).shape == (3, 16, 24)
    assert scaled_picture(picture, CONFIG, 2.5).shape == (3, 40, 60)
    assert scaled_picture(picture, CONFIG, 0.5).shape == (3, 16, 16)  # no smaller than a window


def test_one_window_is_the_whole_picture() -> None:
    torch.manual_seed(0)
    net = PixelNet().eval()
    items = [
        (Image.fromarray(np.random.default_rng(k).integers(0, 255, (20, 20, 3), np.uint8)), mask)
        for k, mask in enumerate(np.random.default_rng(9).integers(0, 3, (1, 20, 20)).astype(np.int16))
    ]
    how = Measuring(CONFIG, None)
    with torch.no_grad():
        whole, one = (task.sums(net, *task.batch(items, how)) for task in (Segmentation(), Segmentation(1.0)))
        other = Segmentation(2.0)
        assert other.sums(net, *other.batch(items, how)) != whole
    assert whole == one


def test_windows_are_for_segmentation(fashion: Any) -> None:
    with pytest.raises(VitscopeError, match="window is 2, and the data is for classification"):
        find_task(None, fashion, window=2.0)
