import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.exams.factories import small_transformer
from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import ImageData, relabel
from vitscope.engine.cache_key import data_fingerprint
from vitscope.exams.prediction.prediction import PredictionResult
from vitscope.models import create_model
from vitscope.results import Run

ONE = ["prediction"]


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    return create_model("resnet_mini", pretrained=True)


def test_models_on_the_same_images(trained: nn.Module, fashion: ImageData) -> None:
    models = {"small": small_transformer(), "trained": trained}
    found = vs.evaluate(models, fashion, ONE, limit=60)
    assert list(found.results) == ["small", "trained"]
    table = found.table().set_index(["model", "quantity"])
    change = found.differences().set_index("quantity").loc["accuracy"]
    accuracy = table["value"]["trained", "accuracy"], table["value"]["small", "accuracy"]
    assert change["value"] == pytest.approx(accuracy[0] - accuracy[1])
    assert change["low"] > 0.5
    assert (change["model"], change["minus"], change["exam"], change["n"]) == (
        "trained",
        "small",
        "prediction",
        60,
    )
    flips = found.flips("trained")
    assert flips.n == 60
    assert flips.difference == pytest.approx(change["value"])
    assert flips.p_value < 1e-6


def test_which_images_are_right_is_what_the_model_says(trained: nn.Module, fashion: ImageData) -> None:
    result = vs.evaluate(trained, fashion, ONE, limit=30).results["resnet_mini"]["prediction"]
    assert isinstance(result, PredictionResult)
    seen, right = result.outcomes()
    with torch.no_grad():
        for images, labels, indices in vs.data.batches(fashion.subset(seen), trained, batch_size=30):
            said = trained.eval()(images).argmax(1) == labels
            np.testing.assert_array_equal(right[indices.numpy()], said.numpy())


def test_finished_work_is_not_done_again_and_a_temperature_is_other_work(
    trained: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    path = tmp_path / "exams" / "prediction" / "result.json"
    times = []
    for temperature in (None, None, 2.0, 2.0):
        vs.evaluate(trained, fashion, ONE, limit=20, out=tmp_path, temperature=temperature)
        times.append(path.stat().st_mtime_ns)
    assert times[0] == times[1] < times[2] == times[3]
    assert Run.open(tmp_path).record["options"]["settings"] == {"prediction": {"temperature": 2.0}}


def test_restricted_classes_are_all_that_can_be_chosen(
    trained: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    names = tmp_path / "classes.txt"
    names.write_text("Coat\nShirt\n")
    wide = vs.evaluate(trained, fashion, ONE, limit=200).results["resnet_mini"]["prediction"]
    pair = vs.evaluate(trained, fashion, ONE, classes=str(names), limit=40).results["resnet_mini"][
        "prediction"
    ]
    assert isinstance(pair, PredictionResult)
    assert isinstance(wide, PredictionResult)
    assert pair.class_names == ("Coat", "Shirt")
    assert pair.class_count.tolist() == [20, 20]
    data = relabel(fashion, classes=str(names))
    right = []
    with torch.no_grad():
        for images, labels, indices in vs.data.batches(data, trained, batch_size=400):
            chosen = trained.eval()(images)[:, [4, 6]].argmax(1)
            right += [
                (int(i), bool(r))
                for i, r in zip(indices, labels == torch.tensor([4, 6])[chosen], strict=True)
            ]
    seen, said = pair.outcomes()
    assert dict(zip(seen.tolist(), said.tolist(), strict=True)).items() <= dict(right).items()


def test_exams_under_conditions_read_outputs_the_same_way(
    trained: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    path = tmp_path / "labels.json"
    tops = [0, 2, 3, 4, 6]  # T-shirt, pullover, dress, coat and shirt are what it mixes up
    path.write_text(json.dumps([[int(k), *(tops if k in tops else [])] for k in fashion.labels]))
    request = {"limit": 60, "labels": f"real:{path}"}
    found = vs.evaluate(trained, fashion, ["prediction", "occlusion"], **request).results["resnet_mini"]
    several = found["prediction"].table().set_index("quantity")["value"]["accuracy"]
    unharmed = found["occlusion"].table().iloc[0]
    assert (unharmed["quantity"], unharmed["value"]) == ("accuracy", several)
    plain = vs.evaluate(trained, fashion, ONE, limit=60).table().set_index("quantity")["value"]["accuracy"]
    assert several > plain


def test_any_right_label_is_right(trained: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps([list(range(10))] * len(fashion)))
    found = vs.evaluate(trained, fashion, ONE, labels=f"real:{path}", limit=40)
    result = found.results["resnet_mini"]["prediction"]
    assert isinstance(result, PredictionResult)
    assert result.accuracy == 1.0
    assert result.data == f"fashion, labels real:{path} (test)"


def test_labels_are_part_of_what_finished_work_is_known_by(fashion: ImageData, tmp_path: Path) -> None:
    path, prints = tmp_path / "labels.json", []
    for others in ([], [3], [4]):  # the first label, which is all that the data itself keeps, is the same
        path.write_text(json.dumps([[int(k), *others] for k in fashion.labels]))
        prints.append(data_fingerprint(relabel(fashion, labels=f"real:{path}")))
    prints.append(data_fingerprint(relabel(fashion, labels=f"real:{path}", classes="present")))
    assert len(set(prints)) == 4


@pytest.mark.filterwarnings("ignore:the model has 10 outputs")
def test_numbers_as_folder_names_are_pointed_out(fashion: ImageData) -> None:
    names = tuple(sorted(map(str, range(12))))
    data = ImageData("folder:x", "test", names, fashion.labels[:20], images=fashion.images[:20])  # type: ignore[index]
    with pytest.warns(UserWarning, match="add --labels numeric"):
        vs.evaluate(small_transformer(), data, ONE)


def test_models_of_one_name_are_told_apart(fashion: ImageData) -> None:
    found = vs.evaluate([small_transformer(), small_transformer()], fashion, ONE, limit=10)
    assert list(found.results) == ["VisionTransformer", "VisionTransformer-2"]
    rows = found.differences()
    assert (rows["value"] == 0).all()
    assert ((rows["low"] <= 0) & (rows["high"] >= 0)).all()


def test_bad_requests(trained: nn.Module, fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match="no exam 'palmistry'"):
        vs.evaluate(trained, fashion, ["palmistry"])
    with pytest.raises(VitscopeError, match="for prediction, which is not among the exams: variance; add it"):
        vs.evaluate(trained, fashion, ["variance"], temperature="fit")
    with pytest.raises(VitscopeError, match="no model was named"):
        vs.evaluate([], fashion)
    with pytest.raises(VitscopeError, match="known from 'prediction' alone"):
        vs.evaluate(trained, fashion, ["variance"], limit=10).flips("resnet_mini")
    with pytest.raises(BadData, match="num_classes=10"):
        vs.evaluate(["vit_mini"], fashion, ONE, limit=10, num_classes=3, pretrained=False)


def test_outputs_that_are_not_numbers_are_refused(fashion: ImageData) -> None:
    model = small_transformer()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(VitscopeError, match="are not finite"):
        vs.evaluate(model, fashion, ONE, limit=10)


def test_the_same_model_twice_is_refused(trained: nn.Module, fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match="vit_mini is named twice"):
        vs.evaluate(["vit_mini", "vit_mini"], fashion, ONE, limit=4)
    with pytest.raises(VitscopeError, match="resnet_mini is given twice; give each model once"):
        vs.evaluate([trained, trained], fashion, ONE, limit=4)
