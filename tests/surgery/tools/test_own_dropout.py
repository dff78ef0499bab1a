"""Which modules of models draw and do nothing else in training mode, and that they draw inside `sampling`."""

import warnings
from collections.abc import Callable

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
import transformers
from torch import Tensor, nn

import vitscope as vs
from tests.cases import HF_SMALL
from vitscope.surgery.tools.own_dropout import own_dropouts

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


class Attends(nn.Module):
    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 8, 8)
        self.attn = nn.MultiheadAttention(12, 3, dropout=dropout, batch_first=True)
        self.norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).mT
        x = x + self.attn(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x.mean(1)))


class ByFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.first(x), 0.3, self.training).mean((2, 3))
        return self.second(F.alpha_dropout(x, p=0.1, training=self.training))


class SaysMoreInTraining(ByFunction):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (1.0 if self.training else 0.0)


class Counts(ByFunction):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return super().forward(x)


class WantsTargets(ByFunction):
    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        found = super().forward(x)
        if self.training:
            assert targets is not None
        return found


def hugging_face(implementation: str) -> nn.Module:
    size = {**HF_SMALL, "image_size": 32}
    config = transformers.ViTConfig(
        **size, intermediate_size=96, attention_probs_dropout_prob=0.2, attn_implementation=implementation
    )
    return transformers.ViTForImageClassification(config)


REACHED: dict[str, Callable[[], nn.Module]] = {
    "nn.MultiheadAttention": Attends,
    "timm": lambda: timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, attn_drop_rate=0.2
    ),
    "timm's windows": lambda: timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=32, window_size=2, depths=(1, 1, 1, 1), attn_drop_rate=0.2
    ),
    "torchvision": lambda: torchvision.models.VisionTransformer(32, 8, 2, 3, 48, 96, attention_dropout=0.2),
    "torchvision's windows": lambda: torchvision.models.SwinTransformer(
        [4, 4], 24, [1, 1], [2, 4], [2, 2], stochastic_depth_prob=0.0, attention_dropout=0.2
    ),
    "Hugging Face, fused": lambda: hugging_face("sdpa"),
    "Hugging Face, by hand": lambda: hugging_face("eager"),
    "the model itself": ByFunction,
}


def said(model: nn.Module) -> Tensor:
    output = model(IMAGES)
    return output if isinstance(output, Tensor) else output.logits


@pytest.mark.parametrize("name", REACHED)
@torch.no_grad()
def test_dropout_by_a_function_is_on_inside_sampling_and_nowhere_else(name: str) -> None:
    torch.manual_seed(0)
    model = REACHED[name]().eval()
    for head in (module for module in model.modules() if isinstance(module, nn.Linear)):
        nn.init.normal_(head.weight, std=0.2)  # some begin at 0
    state = {key: value.clone() for key, value in model.state_dict().items()}
    random, plain = torch.get_rng_state(), said(model)
    drawn = []
    for seed in (1, 1, 2):
        with vs.surgery.sampling(model, seed, own_dropout=True, example=(3, 32, 32)):
            drawn.append(torch.stack([said(model) for _ in range(2)]))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.allclose(drawn[0], drawn[2])
    assert not torch.allclose(drawn[0][0], drawn[0][1])
    torch.testing.assert_close(said(model), plain, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("model", [SaysMoreInTraining(), Counts(), WantsTargets()])
def test_a_module_that_does_more_in_training_stays_out_with_a_word(model: nn.Module) -> None:
    both = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Dropout(0.1), model).eval()
    with pytest.warns(UserWarning, match=r"the dropout inside 2 stays off: training mode changes more there"):
        assert own_dropouts(both, IMAGES) == [both[1]]
    assert not any(module.training for module in both.modules())
    assert not any(buffer.any() for buffer in both.buffers())


def test_others_stay_on_beside_one_that_does_more() -> None:
    both = nn.Sequential(
        ByFunction(), nn.Unflatten(1, (5, 1, 1)), nn.Conv2d(5, 3, 1), SaysMoreInTraining()
    ).eval()
    with pytest.warns(UserWarning, match="the dropout inside 3 stays off"):
        assert both[0] in own_dropouts(both, IMAGES)


def test_nothing_is_said_where_no_function_drops() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_dropouts(Attends(dropout=0.0).eval(), IMAGES) == []


def test_without_an_example_of_the_right_size_the_modules_draw() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * 32 * 32, 5)).eval()
    with (
        pytest.warns(
            UserWarning, match="until it has an example=, dropout inside modules with weights stays off"
        ),
        vs.surgery.sampling(model, own_dropout=True),
    ):
        assert not torch.equal(model(IMAGES), model(IMAGES))
    with (
        pytest.raises(vs.VitscopeError, match="cannot be run on a 2x3x16x16 input"),
        vs.surgery.sampling(model, own_dropout=True, example=(3, 16, 16)),
    ):
        pass
