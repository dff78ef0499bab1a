"""Hugging Face's models through `create_model`, from folders that `save_pretrained` wrote: no network."""

from pathlib import Path

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from vitscope.data import data_config
from vitscope.data.config import IMAGENET_MEAN
from vitscope.errors import VitscopeError
from vitscope.models import BadWeights, UnknownModel, create_model


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
