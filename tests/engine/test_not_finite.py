"""No exam gives numbers for a model, or for images, that are not finite."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.every_exam import OF_WEIGHTS, RUNS, SmallViT, images, run, small_vit
from vitscope import exams
from vitscope.core.errors import BadData, NotFinite
from vitscope.engine.not_finite import finite_scores

NAN, INFINITY = float("nan"), float("inf")
# where a number is spoilt, what with, and how the message begins in exams that look inside
SPOILT = {
    "attention": ("blocks.0.attn.qkv.weight", NAN, "the features after 'blocks.0.attn'"),
    "conv": ("patch_embed.proj.weight", NAN, "the features after 'patch_embed"),
    "head": ("head.bias", INFINITY, "the class scores"),
}


def spoilt(where: str) -> SmallViT:
    model = small_vit()
    name, number, _ = SPOILT[where]
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = number
    return model


@pytest.mark.parametrize("exam", RUNS)
@pytest.mark.parametrize("where", SPOILT)
def test_every_exam_refuses_a_model_that_is_not_finite(exam: str, where: str) -> None:
    name, _, begins = SPOILT[where]
    begins = "some weights" if exam in OF_WEIGHTS else begins
    images_seen = "" if exam in OF_WEIGHTS else r" for (\d+) of \1 images"
    hint = f"; its weight '{name}' holds 1 of them: load weights that are finite"
    with pytest.raises(
        NotFinite, match=rf"SmallViT.*: {begins}.* are not finite \(NaN or infinity\){images_seen}{hint}"
    ):
        run(exam, spoilt(where))


@pytest.mark.parametrize(
    "exam", [exam for exam in RUNS if exam not in (*OF_WEIGHTS, "temporal", "covariance")]
)
def test_every_exam_refuses_images_that_are_not_finite(exam: str) -> None:
    shown, labels = images()
    shown[2, 0, 3, 3] = NAN
    with pytest.raises(BadData, match="image 2 of the pair of tensors holds 1 numbers that are not finite"):
        run(exam, small_vit(), (shown, labels))


class Overflowing(SmallViT):
    """Of images with a bright corner the features are infinite, which its bounded head does not show."""

    def forward_features(self, x: Tensor) -> Tensor:
        bright = (x[:, 0, 0, 0] > 2)[:, None, None]
        found = super().forward_features(x)
        return self.norm(self.blocks[0](torch.where(bright, torch.full_like(found, 3e38), found))).tanh()

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return super().forward_head(x.nan_to_num(), pre_logits)


@pytest.mark.parametrize("exam", ["fourier", "variance", "cka", "uncertainty"])
def test_features_are_looked_at_even_where_the_outputs_are_finite(exam: str) -> None:
    torch.manual_seed(0)
    model, (shown, labels) = Overflowing().eval(), images()
    run(exam, model)
    shown[5, 0, 0, 0] = 3.0
    assert finite_scores(model, shown).isfinite().all()
    with pytest.raises(
        NotFinite,
        match=r"the features after '.*' are .* for 1 of 4 images; its weights are finite, so it .*overflows",
    ):
        run(exam, model, (shown, labels))


def test_half_precision_that_overflows() -> None:
    model = small_vit()
    with torch.no_grad():
        model.blocks[0].mlp.fc1.bias.fill_(1.0)
        model.blocks[0].mlp.fc2.weight.fill_(60000.0)
    run("variance", model)
    with pytest.raises(
        NotFinite,
        match=r"SmallViT: the features after 'blocks\.0\.mlp' are .*half precision: examine model.float\(\)",
    ):
        run("variance", model.half())


class Dividing(nn.Module):
    """Without its residual convolution it divides zero by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        before = self.stem(x)
        moved = before + self.conv(before) - before
        return self.head((moved / moved.abs().amax((1, 2, 3), keepdim=True)).mean((2, 3)))


def test_without_a_unit_an_answer_that_is_not_finite_is_wrong() -> None:
    torch.manual_seed(0)
    model, (shown, _) = Dividing().eval(), images()
    labels = model(shown).argmax(1)  # all are right
    with pytest.warns(UserWarning, match=r"without .*conv.* some outputs are not finite .* counts as wrong"):
        found = exams.lesion(model, (shown, labels))
    assert found.accuracy.value == 1.0
    assert found.lost.tolist() == [len(shown)]
    assert found.gained.tolist() == [0]


def test_a_model_without_units_is_named_by_its_outputs() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.new_full((len(x), 10), NAN)

    with pytest.raises(NotFinite, match=r"Nothing: the class scores are .* for 8 of 8 images"):
        finite_scores(Nothing(), images()[0])


def test_the_other_model_of_a_pair() -> None:
    with pytest.raises(NotFinite, match=r"SmallViT: the features after 'blocks\.0\.attn' are"):
        exams.cka(small_vit(), images(), other=spoilt("attention"), batch_size=4)


def test_the_other_end_of_a_line() -> None:
    with pytest.raises(NotFinite, match=r"SmallViT: the features after 'blocks\.0\.attn' are"):
        exams.landscape_line(
            small_vit(), spoilt("attention"), images(), points=2, limit=4, batch_size=4, recipe=None
        )


def test_diagnose_and_evaluate_refuse_it_too() -> None:
    with pytest.raises(NotFinite, match=r"'blocks\.0\.attn'"):
        vs.diagnose(spoilt("attention"), images(), ["fourier", "lesion"])
    with pytest.raises(NotFinite, match=r"'blocks\.0\.attn'"):
        vs.evaluate(spoilt("attention"), images(), ["noise"])
