"""Code that a file names runs only with leave of the user, whoever reads the file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.cli.app import main
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.exams.loss.hessian_training import hessian_training
from vitscope.exams.loss.trajectory import trajectory
from vitscope.models import UntrustedCode, create_model, save_model
from vitscope.models.checkpoints import INDEX
from vitscope.models.trust import allow_data, allow_model, names_code
from vitscope.studies.build_up import build_up
from vitscope.surgery import deep_ensemble

OWN = "tests.exams.factories:tiny"


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def run(tmp_path: Path, marker: Path) -> Path:
    """A run folder that, if it is believed, makes a file."""
    folder = tmp_path / "run"
    save_model(create_model("resnet_mini", num_classes=10), folder, [str(i) for i in range(10)])
    _describe(folder, "subprocess:run", {"args": ["touch", str(marker)]})
    return folder


def _describe(folder: Path, name: str, arguments: dict[str, Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= {"name": name, "arguments": arguments}
    (folder / "config.json").write_text(json.dumps(config))


def _examined(folder: Path, **model: Any) -> Path:
    """A folder of a diagnosis whose record says `model` about what was examined."""
    vs.diagnose("resnet_mini", "fashion", ["prediction"], limit=20, out=folder)
    record = json.loads((folder / "run.json").read_text())
    for key in ("origin", "run", "name"):
        record["model"].pop(key, None)
    record["model"] |= model
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "anatomy RUN",
        "diagnose RUN --exams prediction --limit 20 --out OUT",
        "evaluate RUN --exams prediction --limit 20 --out OUT",
        "operate RUN --smooth --out OUT",
        "compare RUN resnet_mini --exams prediction --limit 20 --out OUT",
        "train RUN --fraction 0.01 --epochs 1 --out OUT",
        "train vit_mini --recipe deit-distill --teacher RUN --fraction 0.01 --epochs 6 --out OUT",
        "prescribe EXAMINED --model RUN",
    ],
)
def test_no_verb_runs_what_a_run_folder_names(
    words: str, run: Path, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "EXAMINED" in words:
        _examined(tmp_path / "examined")
    places = {"EXAMINED": "examined", "RUN": "run", "OUT": "out"}
    for word, name in places.items():
        words = words.replace(word, str(tmp_path / name))
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert f"subprocess:run(args=['touch', '{marker}'])" in said
    assert "--trust-code" in said
    assert "config.json" in said
    assert not marker.exists()


@pytest.mark.parametrize(
    "use",
    [
        create_model,
        lambda run: vs.diagnose(run, "fashion", ["prediction"], limit=20),
        lambda run: vs.evaluate(run, "fashion", ["prediction"], limit=20),
        lambda run: hessian_training(run, "fashion", ["last"]),
        lambda run: trajectory(run, checkpoints=["init"]),
        lambda run: deep_ensemble([run]),
        lambda run: build_up(run, budget=1, out=run.parent / "build", data="fashion", epochs=1),
    ],
)
def test_no_function_runs_what_a_run_folder_names(
    use: Callable[[Path], Any], run: Path, marker: Path
) -> None:
    kept = [
        {"name": name, "file": "model.safetensors", "epoch": i} for i, name in enumerate(["init", "last"])
    ]
    (run / INDEX).write_text(json.dumps({"schema": 1, "checkpoints": kept}))
    with pytest.raises(UntrustedCode, match="subprocess:run"):
        use(run)
    assert not marker.exists()


def test_what_is_allowed_runs(run: Path, marker: Path) -> None:
    with pytest.raises(VitscopeError, match="returned a CompletedProcess"):
        create_model(run, trust_code=True)
    assert marker.exists()


def test_what_is_typed_needs_no_leave_and_its_folder_does(tmp_path: Path) -> None:
    save_model(create_model(OWN), tmp_path, list("abcdefghij"))
    with pytest.raises(UntrustedCode, match="--trust-code"):
        create_model(tmp_path)
    assert type(create_model(tmp_path, trust_code=True)).__name__ == "ResNet"
    assert main(["anatomy", OWN]) == 0
    assert main(["anatomy", str(tmp_path), "--trust-code"]) == 0


@pytest.mark.parametrize(
    "model",
    [
        {"origin": {"name": "subprocess:run", "arguments": {"args": ["touch", "MARKER"]}}},
        {"run": "subprocess:run"},
        {"name": "subprocess:run"},
        {"origin": {"name": "resnet18", "arguments": {"checkpoint_path": "MARKER"}}},
    ],
)
def test_prescribe_does_not_run_what_run_json_names(
    model: dict[str, Any], tmp_path: Path, marker: Path
) -> None:
    told = json.loads(json.dumps(model).replace("MARKER", str(marker)))
    with pytest.raises(UntrustedCode, match=r"run\.json"):
        vs.prescribe(_examined(tmp_path / "examined", **told))
    assert not marker.exists()


def test_members_of_an_ensemble_are_asked_about_one_by_one(tmp_path: Path, marker: Path) -> None:
    torch.manual_seed(0)
    whole = deep_ensemble([create_model("resnet_mini", num_classes=3) for _ in range(2)])
    save_model(whole, tmp_path, list("abc"))
    assert len(create_model(tmp_path).members) == 2
    config = json.loads((tmp_path / "config.json").read_text())
    member = config["model"]["arguments"]["members"][1]
    member |= {"name": "subprocess:run", "arguments": {"args": ["touch", str(marker)]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UntrustedCode, match=r"ensemble names code.*subprocess:run"):
        create_model(tmp_path)
    assert not marker.exists()


def test_an_ensemble_of_ones_own_models_is_loaded_with_leave(tmp_path: Path) -> None:
    whole = deep_ensemble([create_model(OWN) for _ in range(2)])
    save_model(whole, tmp_path, list("abcdefghij"))
    with pytest.raises(UntrustedCode, match="factories:tiny"):
        create_model(tmp_path)
    assert len(create_model(tmp_path, trust_code=True).members) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint_path": "x.pth"},
        {"pretrained_cfg": {"file": "x.pth"}},
        {"pretrained_cfg_overlay": {"url": "http://x"}},
        {"_attn_implementation": "owner/kernel"},
        {"attn_implementation": "owner/kernel"},
        {"_anything": 1},
    ],
)
def test_arguments_that_load_something_are_refused(run: Path, arguments: dict[str, Any]) -> None:
    _describe(run, "resnet18", arguments)
    with pytest.raises(UntrustedCode, match=next(iter(arguments))):
        create_model(run)


@pytest.mark.parametrize("key", ["trust_code", "pretrained", "checkpoint", "name"])
def test_what_only_the_user_can_choose_is_refused_from_a_file(run: Path, key: str) -> None:
    _describe(run, OWN, {key: True})
    for trust in (False, True):
        with pytest.raises(BadResult, match=f"sets {key}=True, which only the user can"):
            create_model(run, trust_code=trust)


def test_a_folder_that_leads_to_itself_is_damaged(run: Path) -> None:
    _describe(run, str(run), {})
    with pytest.raises(BadResult, match="it names a folder"):
        create_model(run)


def test_what_would_run_is_shown_without_control_characters() -> None:
    with pytest.raises(UntrustedCode) as caught:
        allow_model("os:system", {"command": "x", "\x1b[2J": 1}, "config.json", trust_code=False)
    assert r"os:system(command='x', \x1b[2J=1)" in str(caught.value)


@pytest.mark.parametrize(("name", "arguments"), [(3, {}), ("resnet18", [1]), ("resnet18", None)])
def test_what_describes_no_model_is_damaged(name: Any, arguments: Any) -> None:
    with pytest.raises(BadResult, match="damaged"):
        allow_model(name, arguments, "config.json", trust_code=True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("resnet18", False),
        ("tv:resnet18", False),
        ("hf:owner/name", False),
        ("hf-hub:timm/resnet18", False),
        ("runs/a", False),
        ("os:system", True),
        ("vitscope.surgery.ensemble:deep_ensemble", True),
    ],
)
def test_names_code(name: str, code: bool) -> None:
    assert names_code(name) is code


def test_a_yaml_of_options_names_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    config = tmp_path / "options.yaml"
    config.write_text(f"model: {OWN}\nimg_size: 32\n")
    assert main(["anatomy", "--config", str(config)]) == 2
    said = capsys.readouterr().err
    assert OWN in said
    assert "--trust-code" in said
    assert main(["anatomy", "--config", str(config), "--trust-code"]) == 0
    assert main(["anatomy", OWN, "--config", str(config)]) == 0  # typed as well


@pytest.mark.parametrize("verb", ["diagnose", "evaluate"])
def test_nor_does_a_list_of_models_in_a_yaml(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "options.yaml"
    config.write_text(f"models: [vit_mini, '{OWN}']\nlimit: 10\n")
    assert main([verb, "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    assert OWN in capsys.readouterr().err


def test_a_yaml_cannot_give_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "options.yaml"
    config.write_text("model: vit_mini\ntrust_code: true\n")
    assert main(["anatomy", "--config", str(config)]) == 2
    assert "trust_code, which no file can" in capsys.readouterr().err


def test_images_that_a_command_fetches_are_not_opened_for_a_file() -> None:
    with pytest.raises(UntrustedCode, match="pipe:touch x"):
        allow_data("timm:wds/a.tar@pipe:touch x;", "run.json", trust_code=False)
    allow_data("timm:wds/a.tar@pipe:touch x;", "run.json", trust_code=True)
    allow_data("timm:hfds/owner/name", "run.json", trust_code=False)
    allow_data("folder:images", "run.json", trust_code=False)


def test_compare_and_apply_do_not_open_images_by_a_command_of_a_run(tmp_path: Path, marker: Path) -> None:
    folder = _examined(tmp_path / "examined", origin={"name": "resnet_mini", "arguments": {}})
    record = json.loads((folder / "run.json").read_text())
    record["options"]["data"] = f"timm:wds/a.tar@pipe:touch {marker}; (test)"
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(UntrustedCode, match="pipe:touch"):
        vs.compare(folder, "vit_mini", out=tmp_path / "out")
    with pytest.raises(UntrustedCode, match="pipe:touch"):
        vs.prescribe.apply(folder, 1, only=["temperature"])
    assert not marker.exists()


def test_a_search_trusts_the_base_that_it_was_given(tmp_path: Path) -> None:
    found = build_up(
        "vitscope.models.zoo.small:resnet_mini", _measure, budget=1, out=tmp_path, progress=False
    )
    assert (tmp_path / "base" / "config.json").exists()
    assert found.complete


def test_a_search_does_not_trust_another_base(tmp_path: Path, marker: Path) -> None:
    arguments: dict[str, Any] = {"budget": 1, "out": tmp_path, "progress": False}
    build_up("resnet_mini", _measure, **arguments)
    _describe(tmp_path / "base", "subprocess:run", {"args": ["touch", str(marker)]})
    with pytest.raises(UntrustedCode, match="subprocess:run"):
        build_up("resnet_mini", _measure, **arguments)
    assert not marker.exists()


def _measure(model: nn.Module, out: Path, seed: int) -> list[float]:
    return [0.0, 0.0]


def test_a_job_file_is_not_run_without_leave(
    tmp_path: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vitscope.studies.__main__ import main as do_job

    file = tmp_path / "job.json"
    job = {"schema": 1, "function": "os:mkdir", "arguments": {"path": str(marker)}, "out": str(tmp_path)}
    file.write_text(json.dumps(job))
    assert do_job([str(file)]) == 1
    assert "os:mkdir" in capsys.readouterr().err
    assert not marker.exists()
    assert os.listdir(tmp_path) == ["job.json"]


@pytest.mark.parametrize(
    "options",
    [
        "deep_ensemble: ['{own}']",
        "operations: ['build_up budget=1 measure={own}']",
        "operations: ['build_up budget=1 measure=this']",
        "operations: ['build_up budget=1 data=timm:wds/x@pipe:true']",
    ],
)
def test_nor_do_operations_in_a_yaml(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    config = tmp_path / "options.yaml"
    config.write_text(f"model: preresnet_mini\n{options.format(own=OWN)}\n")
    assert main(["operate", "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "which was not run" in said
    assert "--trust-code" in said
    assert not (tmp_path / "out").exists()
