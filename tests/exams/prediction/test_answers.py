"""Answers to questions: against obvious lines, and what a training measures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.every_exam import images, small_vit
from tests.exams.task_models import ANSWERS, SmallAnswerer, asked
from vitscope.core.bootstrap import mean_interval_of_few
from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data import DataConfig
from vitscope.data.task_data import TaskData
from vitscope.engine.answer_scores import bits_set, either, with_pictures
from vitscope.engine.shown_images import FEW
from vitscope.findings.answers import KINDS, AnswersResult, kind_of
from vitscope.plots import plot_answers, plot_answers_shown
from vitscope.results.numbers import READINGS
from vitscope.tasks.vqa import VQA
from vitscope.training.evaluate import measure

CONFIG = DataConfig((3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)


@torch.no_grad()
def all_said(model: nn.Module, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
    """(questions, answers) probabilities and how right each answer is, written down one by one."""
    said, right = [], []
    for index in range(len(data)):
        pixels = torch.from_numpy(np.asarray(data.picture(index)).copy()).movedim(-1, 0).float() / 255
        shown = ((pixels - 0.5) / 0.5)[None].to(next(model.parameters()).dtype)
        words = model.vitscope_words([data.question(index)])  # type: ignore[operator]
        said.append(model({"pixel_values": shown, **words})[0].double().numpy())
        right.append(np.asarray(data.target(index), np.float64))
    return 1 / (1 + np.exp(-np.array(said))), np.array(right)


def expected_table(model: nn.Module, data: TaskData) -> dict[tuple[str, None], Any]:
    p, t = all_said(model, data)
    chosen, row = p.argmax(1), np.arange(len(p))
    hit, sure = t[row, chosen], p.max(1)
    bins = np.ceil(15 * sure)
    found = {
        "accuracy": hit.mean(),
        "top5": t.max(1).mean(),  # there are four
        "nll": -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum(1).mean(),
        "brier": np.square(p - t).sum(1).mean(),
        "confidence": sure.mean(),
        "ece": sum(abs((sure - hit)[bins == b].sum()) for b in range(1, 16)) / len(p),
        "signed_ece": (sure - hit).mean(),
    }
    kinds = np.where(t.max(1) == 0, 3, np.array([0, 0, 1, 2])[t.argmax(1)])
    found |= {f"{KINDS[k]} accuracy": hit[kinds == k].mean() for k in range(4) if (kinds == k).any()}
    return {(quantity, None): value for quantity, value in found.items()}


@pytest.fixture(scope="module")
def result() -> AnswersResult:
    found = vs.exams.answers(SmallAnswerer().eval(), asked(60), batch_size=16)
    assert isinstance(found, AnswersResult)
    return found


def test_pictures_are_what_is_counted_and_drawn(result: AnswersResult) -> None:
    assert (result.n, result.questions) == (20, 60)
    p, t = all_said(SmallAnswerer().eval(), asked(60))
    hit = t[np.arange(60), p.argmax(1)].reshape(20, 3).sum(1)
    drawn = hit[np.random.default_rng(0).integers(0, 20, (4000, 20))].sum(1) / 60
    assert result.replicates()["accuracy"][1:].std() == pytest.approx(drawn.std(), rel=0.15)
    low, high = mean_interval_of_few(drawn, 20)
    row = result.table().iloc[0]
    assert row["high"] - row["low"] == pytest.approx(
        high - low, rel=0.35
    )  # Wilson's, which is another interval
    assert 0.1 < row["low"] < row["value"] < row["high"] < 0.9


def test_a_training_measures_the_same(result: AnswersResult) -> None:
    row = measure(SmallAnswerer().eval(), VQA(), asked(60), CONFIG)
    assert result.accuracy == pytest.approx(row["accuracy"], rel=1e-6)
    assert result.nll == pytest.approx(row["nll"], rel=1e-5)
    own = result.table().iloc[0]  # its error is drawn, that of the training worked out
    assert [row["low"], row["high"]] == pytest.approx([own["low"], own["high"]], abs=0.02)


def test_a_training_without_a_right_answer_is_not_sure_of_it() -> None:
    class Wrong(SmallAnswerer):
        def forward(self, inputs: Any) -> torch.Tensor:
            scores = torch.zeros_like(super().forward(inputs))
            scores[:, 0] = 1.0
            return scores

    data = asked(60)
    never = [index for index in range(len(data)) if data.target(index)[0] == 0]
    row = measure(Wrong().eval(), VQA(), data.subset(never), CONFIG)
    assert (row["accuracy"], row["low"]) == (0.0, 0.0)
    pictures = len(set(data.picture_numbers[never]))
    assert 0.0 < 1.9 / pictures < row["high"] < 4.5 / pictures  # Wilson's: 3.84 / (n + 3.84)


def test_answers_are_counted_by_the_right_one_and_by_what_is_said(result: AnswersResult) -> None:
    p, t = all_said(SmallAnswerer().eval(), asked(60))
    best, hit = np.where(t.max(1) > 0, t.argmax(1), -1), t[np.arange(60), p.argmax(1)]
    table = result.answer_table().set_index("answer")
    for k, name in enumerate(ANSWERS):
        assert table.loc[name, "questions"] == (best == k).sum()
        assert table.loc[name, "said"] == (p.argmax(1) == k).sum()
        assert table.loc[name, "accuracy"] == pytest.approx(hit[best == k].mean())
    assert [kind_of(word) for word in ("Yes", "3", "2.5", "red", None)] == [0, 1, 1, 2, 3]
    assert result.kind_count.sum() == 60


def test_the_same_few_questions_are_shown(result: AnswersResult) -> None:
    data = asked(60)
    other = vs.exams.answers(SmallAnswerer().eval(), data, batch_size=7)
    assert [one.place for one in other.shown] == [one.place for one in result.shown]
    assert len(result.shown) == FEW
    p, t = all_said(SmallAnswerer().eval(), data)
    for one in result.shown:
        assert one.question == data.question(one.place)
        assert (one.picture.array == np.asarray(data.picture(one.place))).all()
        assert one.said[0] == ANSWERS[int(p[one.place].argmax())]
        assert one.confidence[0] == pytest.approx(p[one.place].max(), rel=1e-5)
        assert one.is_right == bool(t[one.place, p[one.place].argmax()] > 0)
    ax = plot_answers_shown(result)
    assert len(ax.images) == len(ax.texts) == FEW
    assert result.shown[0].question in ax.texts[0].get_text()
    assert plot_answers(result).get_ylabel() == "Accuracy"
    assert "over 60 questions about 20 pictures" in READINGS["answers"](result)


def test_a_picture_has_one_bit_whoever_is_asked_about_it() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    first = with_pictures(with_pictures(none, np.array([0, 63, 63])), np.array([63, 64, 0]))
    second = with_pictures(none, np.array([64, 300]))
    assert (bits_set(first), bits_set(second), bits_set(either(first, second))) == (3, 2, 4)
    assert torch.equal(with_pictures(first, np.array([], np.int64)), first)


def test_questions_are_asked_wherever_features_are_looked_at(tmp_path: Path) -> None:
    data = asked(6)
    words = tuple(sorted({word for i in range(3) for word in data.question(i).lower().rstrip("?").split()}))
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 48, "num_attention_heads": 2}
    model = vs.create_model("vilt_mini", num_classes=4, img_size=32, vocabulary=(*words, "?"), **sizes)
    with pytest.warns(UserWarning, match=r"left out: prediction \(it needs a label for each image\)"):
        found = vs.diagnose(model, data, batch_size=4)
    vs.diagnose(model, data, ["answers"], batch_size=4, out=tmp_path)
    assert {"answers", "fourier", "attention", "token_norms"} <= set(found)
    assert len(found["attention"].units) == 2
    others = TaskData("vqa", "vqa:small", "test", ANSWERS, data.reader)
    others.question = lambda index: "weed weed weed?"  # type: ignore[method-assign]
    again = vs.exams.fourier(model, others, batch_size=4)
    assert not np.allclose(again.table()["value"], found["fourier"].table()["value"], rtol=1e-6)
    assert (tmp_path / "figures/answers_shown.png").exists()
    assert "How right answers are" in vs.report(tmp_path, tmp_path / "page.html").read_text()


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(
        BadData, match=r"is no data of vqa; answers needs questions with answers: give --data easy-vqa"
    ):
        vs.diagnose(SmallAnswerer(), images(), ["answers"])
    with pytest.raises(UnsupportedModel, match="does not say that it is made for vqa; answers needs a model"):
        vs.exams.answers(small_vit(), asked(4))
    model = SmallAnswerer()
    model.words, model.colours = nn.Embedding(30, 2), nn.Linear(3, 2)
    with pytest.raises(
        BadData, match=r"has 4 answers to choose from, .* has 2; take a model that was trained for these"
    ):
        vs.exams.answers(model, asked(4))
    mute = SmallAnswerer()
    mute.vitscope_words = None
    with pytest.raises(UnsupportedModel, match="brings no tokenizer"):
        vs.exams.answers(mute, asked(4))


def test_few_pictures_behind_a_bin_are_no_certainty() -> None:
    data = asked(60)
    two = data.subset(np.flatnonzero(np.isin(data.picture_numbers, np.unique(data.picture_numbers)[:2])))
    found = vs.exams.answers(SmallAnswerer().eval(), two, batch_size=16)
    filled = found.reliability_table().query("questions > 0")
    assert found.n == 2
    assert filled["questions"].min() == 1
    assert (filled["accuracy_high"] - filled["accuracy_low"] > 0.5).all()
