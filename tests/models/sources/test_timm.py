"""timm's models through `create_model`."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.models import BadWeights, UnknownArgument, UnknownModel, create_model, origin, save_model
from vitscope.models.create import check_name
from vitscope.models.errors import TwinWarning
from vitscope.models.zoo import fitting, timms_own


def test_image_size_goes_to_models_that_take_one() -> None:
    model = create_model("vit_tiny_patch16_224", img_size=32, num_classes=10, depth=1)
    assert model.pretrained_cfg["input_size"] == (3, 32, 32)
    assert model.pos_embed.shape[1] == 1 + 4
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_image_size_of_models_that_take_none_is_for_the_data() -> None:
    model = create_model("resnet26", img_size=(64, 48), num_classes=10)
    assert model.pretrained_cfg["input_size"] == (3, 64, 48)
    assert model.conv1.stride == (2, 2)
    assert model(torch.randn(2, 3, 64, 48)).shape == (2, 10)


@pytest.mark.parametrize("name", ["hrnet_w18_small", "poolformerv2_s12", "ese_vovnet19b_slim_dw"])
def test_models_that_refuse_an_image_size_in_words_of_their_own_are_built_without(name: str) -> None:
    with torch.device("meta"):
        model = create_model(name, img_size=64)
        assert model.pretrained_cfg["input_size"] == (3, 64, 64)
        with pytest.raises(UnknownArgument, match="takes no argument 'depht'"):
            create_model(name, depht=2)


def test_a_folder_without_a_model_of_timms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownModel, match=r"no model 'local-dir:.*': there is no config.json that timm reads"
    ):
        create_model(f"local-dir:{tmp_path}")


@pytest.mark.parametrize("make", [create_model, check_name])
def test_weights_that_timm_does_not_have_are_refused_by_their_name(make: Callable[[str], object]) -> None:
    with pytest.raises(UnknownModel, match=r"resnet18 has no weights 'a1_in2k'; did you mean a1_in1k"):
        make("resnet18.a1_in2k")
    with pytest.raises(UnknownModel, match=r"resnet18_32 has no weights 'a1_in1k'; there are: untrained"):
        make("resnet18_32.a1_in1k")
    with pytest.raises(UnknownModel, match=r"davit_giant has no weights 'a1_in1k'; it has none"):
        make("davit_giant.a1_in1k")


def test_small_images_get_the_twin_made_for_them() -> None:
    said = r"^resnet50 at 32 pixels is built as resnet50_32, its twin .*: resnet50\.a1_in1k$"
    with pytest.warns(TwinWarning, match=said):
        model = create_model("resnet50", img_size=32, num_classes=100)
    assert sum(p.numel() for p in model.parameters()) == 23_705_252
    assert model.conv1.kernel_size == (3, 3)
    assert model.eval().forward_features(torch.randn(1, 3, 32, 32)).shape == (1, 2048, 4, 4)
    made = origin(model)
    assert made is not None
    assert (made.name, dict(made.arguments)) == ("resnet50", {"img_size": 32, "num_classes": 100})


def test_twin_is_made_again_from_its_run_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = create_model("resnet18", img_size=32, num_classes=3).eval()
    save_model(model, tmp_path, ["a", "b", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwinWarning)  # who named it was told
        again = create_model(tmp_path).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(again(images), model(images), rtol=0, atol=0)


def test_larger_images_and_named_weights_get_timms_own() -> None:
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("error", TwinWarning)
        large, tagged = create_model("resnet18", img_size=65), create_model("resnet18.a1_in1k", img_size=32)
    with torch.device("meta"), pytest.warns(TwinWarning):
        small = create_model("resnet18", img_size=64)
    assert large.conv1.kernel_size == tagged.conv1.kernel_size == (7, 7)
    assert small.conv1.kernel_size == (3, 3)


def test_timms_own_has_a_name() -> None:
    twins = [name for name in timm.list_models() if fitting(name, 32) != name]
    assert "resnet18" in twins
    for name in map(timms_own, twins):
        check_name(name)
        assert fitting(name, 32) == name


def test_twins_stem_cannot_be_chosen() -> None:
    with pytest.raises(UnknownArgument, match="takes no 'stem_type', its stem is one 3x3 convolution"):
        create_model("resnet18", img_size=32, stem_type="deep")


def test_data_configuration_is_complete() -> None:
    config = create_model("vit_tiny_patch16_224", num_classes=3, in_chans=1, depth=1).pretrained_cfg
    assert config["input_size"] == (1, 224, 224)
    assert config["num_classes"] == 3
    assert {"mean", "std", "interpolation", "crop_pct"} <= config.keys()


def test_one_model_does_not_change_the_next() -> None:
    create_model("resnet18", img_size=32)
    assert create_model("resnet18").pretrained_cfg["input_size"] == (3, 224, 224)


def test_surplus_argument_beside_an_image_size() -> None:
    with pytest.raises(UnknownArgument, match="resnet18 takes no argument 'window'"):
        create_model("resnet18", img_size=32, window=4)


def test_no_weights_for_the_name() -> None:
    with pytest.raises(
        BadWeights, match=r"no pretrained weights for vit_tiny_r_s16_p8_224: .*vitscope models"
    ):
        create_model(
            "vit_tiny_r_s16_p8_224", pretrained=True, pretrained_cfg={"url": "", "architecture": "x"}
        )


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors"])
def test_weights_of_a_stranger_are_never_unpickled(file: str, tmp_path: Path) -> None:
    made = timm.create_model("test_resnet", num_classes=3)
    config = {
        "architecture": "test_resnet",
        "num_classes": 3,
        "pretrained_cfg": {"input_size": [3, 160, 160]},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    if file.endswith(".bin"):
        torch.save(made.state_dict(), tmp_path / file)
        with pytest.raises(
            VitscopeError, match=r"weights as a pickle \(pytorch_model\.bin\), which is never read"
        ):
            vs.create_model(f"local-dir:{tmp_path}", pretrained=True)
    else:
        save_file(made.state_dict(), tmp_path / file)
        read = vs.create_model(f"local-dir:{tmp_path}", pretrained=True)
        assert torch.equal(read.conv1[0].weight, made.conv1[0].weight)
