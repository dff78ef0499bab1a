"""Tokens and position embeddings are spared from weight decay wherever a model comes from."""

import pytest
import torch
from timm.optim import param_groups_weight_decay
from torch import nn

from vitscope.models import create_model
from vitscope.models.spared import spared_from_decay

DECAYED_BY_TIMM = "botnet26t_256"  # has tables of relative positions, and says nothing


class OwnViT(nn.Module):
    """A ViT of one's own, with the names that people give."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 2, 8))
        self.pos = nn.Parameter(torch.randn(35, 8))
        self.queries = nn.Parameter(torch.randn(1, 5, 8))
        self.register_tokens = nn.Parameter(torch.randn(4, 8))
        self.position_embedding = nn.Embedding(35, 8)
        self.tokens = nn.ParameterList([torch.randn(2, 8), torch.randn(3, 8)])
        self.token_mixing = nn.Linear(35, 35)
        self.words = nn.Embedding(50, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.single = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 1, 3))
        self.weight = nn.Parameter(torch.randn(1, 8, 8))
        self.mixing = nn.Parameter(torch.randn(8, 8))
        self.position_net = nn.Sequential(nn.Linear(2, 8))


def test_names_and_shapes_of_a_model_of_ones_own() -> None:
    found = spared_from_decay(OwnViT())
    tokens = {"cls", "pos", "queries", "register_tokens", "tokens.0", "tokens.1"}
    assert found == tokens | {"position_embedding.weight"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tv:vit_b_16", {"class_token", "encoder.pos_embedding"}),
        ("tv:resnet18", set()),
        ("tv:convnext_tiny", set()),
    ],
)
def test_those_of_torchvision(name: str, expected: set[str]) -> None:
    assert spared_from_decay(create_model(name, pretrained=False)) == expected


def test_tables_of_relative_positions_are_the_same_in_torchvision_and_timm() -> None:
    ours = spared_from_decay(create_model("tv:swin_t", pretrained=False))
    theirs = spared_from_decay(create_model("swin_tiny_patch4_window7_224", pretrained=False))
    assert {name.rpartition(".")[2] for name in ours} == {"relative_position_bias_table"}
    assert len(ours) == len([name for name in theirs if name.endswith("relative_position_bias_table")]) == 12


def test_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    names = {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"}
    assert spared_from_decay(transformers.ViTForImageClassification(config)) == names
    clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**sizes, image_size=32, patch_size=8))
    assert [name.partition("embeddings.")[2] for name in spared_from_decay(clip)] == [
        "position_embedding.weight"
    ]


@pytest.mark.parametrize(
    "name",
    ["vit_mini", "resnet_mini", "alternet_mini", "pit_mini", "mixer_mini", DECAYED_BY_TIMM, "mvitv2_tiny"],
)
def test_models_of_timm_keep_what_timm_says(name: str) -> None:
    model = create_model(name, pretrained=False)
    said = getattr(model, "no_weight_decay", set)()
    expected = param_groups_weight_decay(model, 0.1, no_weight_decay_list=said)
    found = param_groups_weight_decay(model, 0.1, no_weight_decay_list=spared_from_decay(model))
    assert [[id(p) for p in group["params"]] for group in found] == [
        [id(p) for p in group["params"]] for group in expected
    ]


@pytest.mark.parametrize("name", ["upernet:vit_mini", "vilt_mini"])
def test_dense_models_and_vilt_spare_biases_and_norms_alone(name: str) -> None:
    assert spared_from_decay(create_model(name)) == set()
