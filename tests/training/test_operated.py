"""A model that was operated on trains, is kept with its record, and goes on where it stopped."""

import json

import torch

import vitscope as vs
from vitscope.models import name_of


def test_an_operated_model_trains_and_is_loaded_again(tmp_path) -> None:
    torch.manual_seed(0)
    model = vs.surgery.broadcast_context(vs.create_model("vit_mini"), kind="cb_s", layers=[-1])
    data = vs.load_data("fashion", split="train", fraction=0.01)
    vs.train(model, data, recipe="mini", epochs=1, out=tmp_path / "a", held_out=data, progress=False)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert [entry["operation"] for entry in config["surgery"]] == ["broadcast_context"]
    again = vs.create_model(tmp_path / "a").eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        # the training's weights have the channels last, in which another kernel adds up in another order
        torch.testing.assert_close(again(images), model.eval()(images), rtol=0.0, atol=1e-6)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.state_dict().items())
    assert name_of(again) == "vit_mini + broadcast_context"
    scale = next(value for name, value in again.state_dict().items() if "context_broadcast" in name)
    assert scale.abs().max() > 0  # it learned
    vs.train(tmp_path / "a", data, recipe="mini", epochs=1, out=tmp_path / "b", held_out=data, progress=False)
    assert json.loads((tmp_path / "b" / "config.json").read_text())["surgery"] == config["surgery"]
