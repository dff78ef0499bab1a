import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import vitscope as vs
from vitscope.report.card import count, make_card
from vitscope.report.console import print_results
from vitscope.report.page import render_page
from vitscope.report.subject import find_runs
from vitscope.results import Run


def test_strip_of_a_cnn_and_a_vit(runs: Path) -> None:
    cnn, vit = (find_runs([runs / name])[0].card for name in ("resnet", "vit"))
    assert [len(stage.blocks) for stage in cnn.stages] == [3, 2, 2, 3]
    assert [stage.size for stage in cnn.stages] == ["32 × 32", "16 × 16", "8 × 8", "4 × 4"]
    assert cnn.stages[0].text == "stage 1, map 32 × 32: 1 stem, 2 conv"
    assert cnn.kinds == ["stem", "conv", "head"]
    assert [block.kind for block in vit.stages[0].blocks] == ["stem", *["msa", "mlp"] * 6, "head"]
    assert vit.stages[0].blocks[1].text == "blocks.0.attn · MSA · 3 heads · 96 × 8 × 8"


def test_facts(runs: Path) -> None:
    subject = find_runs([runs / "resnet"])[0]
    facts = dict(subject.card.facts)
    assert facts["Parameters"] == f"{subject.run.model['parameters'] / 1e3:.2f} k"
    assert facts["Cost of an image"] == f"{subject.run.model['flops'] / 1e6:.2f} MFLOP"
    assert facts["Input"] == "3 × 32 × 32"
    assert facts["Accuracy"].count("[") == 1
    assert facts["Examined on"] == "30 images of fashion (test)"


def test_surgery_and_training(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    record = json.loads(path.read_text())
    options = {"kind": "cb", "layers": list("abcdef"), "at": None}
    record["model"]["surgery"] = [{"operation": "broadcast_context", "options": options}]
    record["model"]["training"] = {
        "recipe": {"name": "mini", "epochs": 6, "lr": 0.001, "optimizer": "adamw"},
        "data": "fashion-full",
        "images": 60000,
        "epochs": 6,
        "accuracy": [0.9035, 0.8976, 0.9091],
        "seconds": 3945.3,
    }
    path.write_text(json.dumps(record))
    run = Run.open(tmp_path / "copy")
    card = make_card(run, run.results())
    assert card.surgery == ["broadcast_context(kind=cb, layers=[6 entries])"]
    assert dict(card.training) == {
        "Recipe": "mini, adamw, lr 0.001",
        "Trained on": "60\u202f000 images of fashion-full",
        "Epochs": "6 of 6",
        "Accuracy while training": "90.3 % [89.8, 90.9]",
        "Training time": "1 h 5 min",
    }


def test_the_score_of_its_task_is_on_the_card_and_in_the_curve(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    record = json.loads(path.read_text())
    record["model"]["training"] = {
        "recipe": {"name": "dense", "epochs": 2, "lr": 0.001, "optimizer": "adamw"},
        "data": "coral",
        "images": 300,
        "epochs": 2,
        "score": "mIoU",
        "own": [0.41, 0.35, 0.47],
        "curve": [[1, 1.5, 1.2, 0.3, 0.25, 0.35], [2, 1.1, None, 0.41, 0.35, 0.47]],
        "seconds": 60.0,
    }
    path.write_text(json.dumps(record))
    run = Run.open(tmp_path / "copy")
    card = make_card(run, run.results())
    assert dict(card.training)["mIoU while training"] == "41.0 % [35.0, 47.0]"
    assert not [label for label, _ in card.training if "Accuracy" in label]
    page = render_page(find_runs([tmp_path / "copy"]))
    assert "held-out mIoU" in page
    record["model"]["training"] |= {"score": "Box AP", "own": [None, None, None], "curve": []}
    path.write_text(json.dumps(record))
    run = Run.open(tmp_path / "copy")
    assert not [label for label, _ in make_card(run, run.results()).training if "while training" in label]


def test_a_run_that_recorded_less_has_a_smaller_card(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "model": {"name": "old"}}))
    card = find_runs([tmp_path / "copy"])[0].card
    assert (card.stages, card.surgery, card.training, card.kinds) == ([], [], [], [])
    assert [label for label, _ in card.facts] == ["Accuracy", "Examined on"]


@pytest.mark.parametrize(
    ("number", "text"), [(12, "12"), (1234, "1.23 k"), (5_678_901, "5.68 M"), (4.1e9, "4.10 G")]
)
def test_count(number: float, text: str) -> None:
    assert count(number) == text


def test_exams_on_different_images_say_so(tmp_path: Path) -> None:
    model, fashion = vs.create_model("vit_mini"), vs.load_data("fashion")
    vs.diagnose(model, fashion, ["fourier"], limit=6, out=tmp_path)
    vs.diagnose(model, torch.rand(4, 3, 32, 32), ["variance"], out=tmp_path)
    (subject,) = find_runs([tmp_path])
    examined = dict(subject.card.facts)["Examined on"]
    assert examined == "6 images of fashion (test); 4 images of tensors"
    page = vs.report(tmp_path, tmp_path / "page.html").read_text()
    assert "Measured on 6 images of fashion (test)." in page
    assert "Measured on 4 images of tensors." in page


def test_an_exam_that_makes_its_images_does_not_claim_those_of_the_data(tmp_path: Path) -> None:
    model, fashion = vs.create_model("vit_mini"), vs.load_data("fashion")
    vs.diagnose(model, fashion, ["covariance"], limit=4, out=tmp_path)
    vs.diagnose(model, torch.rand(4, 3, 32, 32), ["variance"], out=tmp_path)
    (subject,) = find_runs([tmp_path])
    n = subject.results["covariance"].n
    said = f" Measured on {n} images of noise, of the size of those of fashion (test)."
    assert subject.measured_on("covariance") == said
    assert subject.measured_on("variance") == " Measured on 4 images of tensors."


def test_random_weights_are_said_until_something_is_loaded(tmp_path: Path) -> None:
    model = vs.create_model("resnet_mini")
    weights = vs.create_model("resnet_mini", pretrained=True).state_dict()
    for folder, said in (("random", True), ("loaded", False)):
        vs.diagnose(model, "fashion", ["prediction"], limit=10, out=tmp_path / folder)
        assert ("Random weights</strong>" in render_page(find_runs([tmp_path / folder]))) is said
        model.load_state_dict(weights)


def test_images_that_an_exam_makes_are_not_those_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`covariance` looks at noise of its own."""
    model, fashion = vs.create_model("resnet_mini"), vs.load_data("fashion")
    results = vs.diagnose(model, fashion, ["variance", "covariance"], limit=6, out=tmp_path)
    assert results["covariance"].n > 6
    (subject,) = find_runs([tmp_path])
    assert dict(subject.card.facts)["Examined on"] == "6 images of fashion (test)"
    print_results({"resnet": results})
    assert re.search(r"^n +6 +16 *$", capsys.readouterr().out, re.MULTILINE)
