"""Hugging Face's models through `create_model`, from folders that `save_pretrained` wrote: no network."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from vitscope.core.errors import VitscopeError
from vitscope.data import data_config
from vitscope.data.config import IMAGENET_MEAN
from vitscope.models import BadWeights, UnknownModel, UntrustedCode, create_model, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hf")
    config = ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
    )
    config.num_labels = 5
    torch.manual_seed(0)
    ViTForImageClassification(config).save_pretrained(path)
    ViTImageProcessor(
        size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3], image_std=[0.4, 0.5, 0.6], resample=3
    ).save_pretrained(path)
    return path


def test_returns_the_logits_of_the_saved_model(folder: Path) -> None:
    theirs = ViTForImageClassification.from_pretrained(folder).eval()
    ours = create_model(f"hf:{folder}", pretrained=True).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images).logits, rtol=0, atol=0)
    assert isinstance(ours, ViTForImageClassification)


def test_preprocessing_is_the_processors(folder: Path) -> None:
    config = create_model(f"hf:{folder}").pretrained_cfg
    assert config["mean"] == (0.1, 0.2, 0.3)
    assert config["std"] == (0.4, 0.5, 0.6)
    assert config["interpolation"] == "bicubic"
    assert (config["input_size"], config["num_classes"]) == ((3, 32, 32), 5)
    assert (config["crop_mode"], config["crop_pct"]) == ("squash", 1.0)  # both sides, whatever the picture's
    assert data_config(create_model(f"hf:{folder}")).said_by == "its image processor"


def test_without_a_processor_nobody_says_how_images_are_normalised(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    config = data_config(create_model(f"hf:{tmp_path}", pretrained=True))
    assert (config.input_size, config.mean, config.said_by) == ((3, 32, 32), IMAGENET_MEAN, "nobody")


def test_a_processor_that_does_not_normalise(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    ViTImageProcessor(size={"height": 32, "width": 32}, do_normalize=False).save_pretrained(tmp_path)
    config = data_config(create_model(f"hf:{tmp_path}"))
    assert (config.mean, config.std, config.said_by) == ((0.0,) * 3, (1.0,) * 3, "its image processor")


def test_not_pretrained_is_another_draw(folder: Path) -> None:
    saved = create_model(f"hf:{folder}", pretrained=True).state_dict()
    drawn = create_model(f"hf:{folder}").state_dict()
    assert any(not torch.equal(saved[name], drawn[name]) for name in saved)


def test_new_head(folder: Path) -> None:
    model = create_model(f"hf:{folder}", pretrained=True, num_classes=3)
    saved = create_model(f"hf:{folder}", pretrained=True)
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    first = "vit.embeddings.patch_embeddings.projection.weight"
    assert torch.equal(model.state_dict()[first], saved.state_dict()[first])


def test_unknown_argument(folder: Path) -> None:
    with pytest.raises(VitscopeError, match="has no 'hidden_width'; see ViTConfig"):
        create_model(f"hf:{folder}", hidden_width=3)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=r"no Hugging Face model .* expected hf:owner/name"):
        create_model(f"hf:{tmp_path / 'nothing'}")


def test_pickled_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    weights = ViTForImageClassification.from_pretrained(folder).state_dict()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadWeights, match="safetensors"):
        create_model(f"hf:{tmp_path}", pretrained=True)


MODELING = """

import shutil
from pathlib import Path
from typing import Any
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor
Path({marker!r}).touch()
class OwnConfig(ViTConfig):
    model_type = "own"
class OwnModel(ViTForImageClassification):
    config_class = OwnConfig
class OwnProcessor(ViTImageProcessor):
    pass
"""


@pytest.fixture
def own_code(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model with code of its own, which leaves a marker when it is imported."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody is asked on the terminal"))
    path = tmp_path / "own"
    shutil.copytree(folder, path)
    (path / "modeling_own.py").write_text(MODELING.format(marker=str(tmp_path / "marker")))
    _change(
        path / "config.json",
        model_type="own",
        auto_map={
            "AutoConfig": "modeling_own.OwnConfig",
            "AutoModelForImageClassification": "modeling_own.OwnModel",
        },
    )
    return path


def _change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("model_type", ["own", "vit"])
def test_code_of_its_own_is_not_run_without_leave(own_code: Path, tmp_path: Path, model_type: str) -> None:
    _change(own_code / "config.json", model_type=model_type)
    with pytest.raises(UntrustedCode, match=r"modeling_own.OwnModel.*--trust-code"):
        create_model(f"hf:{own_code}", pretrained=True)
    assert not (tmp_path / "marker").exists()


def test_code_of_its_own_runs_with_leave(own_code: Path, tmp_path: Path) -> None:
    model = create_model(f"hf:{own_code}", pretrained=True, trust_code=True)
    assert (type(model).__name__, (tmp_path / "marker").exists()) == ("OwnModel", True)


def test_a_run_folder_of_such_a_model_needs_leave_too(own_code: Path, tmp_path: Path) -> None:
    model = create_model(f"hf:{own_code}", pretrained=True, trust_code=True)
    save_model(model, tmp_path / "run", list("abcde"))
    with pytest.raises(UntrustedCode, match="OwnModel"):
        create_model(tmp_path / "run")
    assert type(create_model(tmp_path / "run", trust_code=True)).__name__ == "OwnModel"


def test_a_processor_with_code_of_its_own_is_read_and_not_run(
    folder: Path, own_code: Path, tmp_path: Path
) -> None:
    shutil.copyfile(folder / "config.json", own_code / "config.json")
    _change(
        own_code / "preprocessor_config.json",
        image_processor_type="OwnProcessor",
        auto_map={"AutoImageProcessor": "modeling_own.OwnProcessor"},
    )
    assert create_model(f"hf:{own_code}").pretrained_cfg["mean"] == (0.1, 0.2, 0.3)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation_internal"])
def test_attention_from_the_hub_needs_leave(own_code: Path, folder: Path, key: str) -> None:
    shutil.copyfile(folder / "config.json", own_code / "config.json")
    _change(own_code / "config.json", **{key: "owner/kernel"})
    with pytest.raises(UntrustedCode, match="owner/kernel"):
        create_model(f"hf:{own_code}")
