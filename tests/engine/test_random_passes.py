from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.cases import HUGGING_FACE
from vitscope.engine.random_passes import Members, RandomPasses, random_network, smoothed_copy
from vitscope.surgery.tools.record import record


class WithDropout(nn.Module):
    """A residual convolution with dropout in its branch."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.drop(self.conv(x))
        return self.head(x.mean((2, 3)))


IMAGES = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def test_a_models_own_dropout_is_used() -> None:
    model = WithDropout(0.4).eval()
    network = random_network(model, vs.anatomy(model, IMAGES), IMAGES, 0.3, seed=0)
    assert network is not None
    assert (network.model, network.own) == (model, True)
    assert not model.drop.training


def test_dropout_that_does_nothing_does_not_count() -> None:
    model = WithDropout(0.0).eval()
    network = random_network(model, vs.anatomy(model, IMAGES), IMAGES, 0.3, seed=0)
    assert network is not None
    assert network.model is not model
    assert network.source == "MC dropout, p = 0.3"
    assert not hasattr(model, "vitscope_surgery")
    with torch.no_grad():
        torch.testing.assert_close(network.model(IMAGES), model(IMAGES))


def test_own_dropout_among_which_the_units_are_lost_is_left_alone() -> None:
    case = next(
        case for case in HUGGING_FACE if "swin" in case.name
    )  # its stochastic depth adds, as its units do
    model, images = case.model(), case.images(4)
    network = random_network(model, vs.anatomy(model, images), images, 0.3, seed=0)
    assert network is not None
    assert network.source == "MC dropout, p = 0.3"


class DropsInItsHead(WithDropout):
    """The dropout stands where no map comes after it, as in many classifiers."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.conv(x)
        return self.head(self.drop(x.mean((2, 3))))


def test_draws_in_the_head_count_for_predictions_and_not_for_features() -> None:
    model = DropsInItsHead(0.5).eval()
    for_features = random_network(model, vs.anatomy(model, IMAGES), IMAGES, 0.3, seed=0)
    assert for_features is not None
    assert (for_features.source, for_features.p) == ("MC dropout, p = 0.3", 0.3)
    assert for_features.model is not model
    for_predictions = random_network(model, None, IMAGES, 0.3, seed=0)
    assert for_predictions is not None
    assert (for_predictions.source, for_predictions.p) == ("the model's own dropout", None)
    assert for_predictions.model is model


@torch.no_grad()
def test_a_model_that_averages_over_passes_is_asked_for_single_ones() -> None:
    model = WithDropout(0.0).eval()
    vs.surgery.mc_dropout(model, p=0.3, example=(3, 12, 12))
    single = random_network(model, None, IMAGES, 0.3, seed=0)
    vs.surgery.ensemble(model, passes=4, example=(3, 12, 12))
    network = random_network(model, None, IMAGES, 0.3, seed=0)
    assert single is not None
    assert network is not None
    assert network.model is not model
    with network.passes(0, 0):
        drawn = torch.stack([network.model(IMAGES) for _ in range(4)])
    torch.testing.assert_close(model(IMAGES), drawn.softmax(2).mean(0).log())


def test_mc_dropout_that_is_there_is_used() -> None:
    model = WithDropout(0.0).eval()
    vs.surgery.mc_dropout(model, p=0.1, example=(3, 12, 12))
    network = random_network(model, vs.anatomy(model, IMAGES), IMAGES, 0.3, seed=0)
    assert network is not None
    assert network.model is model
    assert network.source == "the model's MC dropout"


def test_a_model_without_a_place_for_dropout() -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    plain.eval()
    with pytest.warns(UserWarning, match="no spread over passes"):
        assert random_network(plain, vs.anatomy(plain, IMAGES), IMAGES, 0.3, seed=0) is None


@pytest.mark.parametrize("p", [0.4, 0.0])
@torch.no_grad()
def test_passes_differ_inside_and_repeat_with_the_seed(p: float) -> None:
    model = WithDropout(p).eval()
    network = random_network(model, vs.anatomy(model, IMAGES), IMAGES, 0.3, seed=0)
    assert network is not None
    plain = network.model(IMAGES)
    drawn = []
    for seed, first in ((3, 0), (3, 0), (4, 0)):
        with network.passes(seed, first):
            drawn.append(torch.stack([network.model(IMAGES) for _ in range(3)]))
    torch.testing.assert_close(drawn[0], drawn[1], rtol=0, atol=0)
    assert (drawn[0] != drawn[2]).any()
    assert (drawn[0][0] != drawn[0][1]).any()
    torch.testing.assert_close(network.model(IMAGES), plain, rtol=0, atol=0)


PICTURES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_passes_are_those_of_the_seed_whatever_is_taken_of_them(small_vit: nn.Module) -> None:
    small_vit.eval()
    source = RandomPasses(small_vit, random_network(small_vit, None, PICTURES, 0.3, 0), seed=5)
    three = list(source.passes(PICTURES, 0, 3))
    two = list(source.passes(PICTURES, 0, 2))
    torch.testing.assert_close(two, three[:2], rtol=0, atol=0)
    assert (three[0] != three[1]).any()
    torch.testing.assert_close(source.single(PICTURES), small_vit(PICTURES), rtol=0, atol=0)
    assert (source.draw(PICTURES, 7) != source.draw(PICTURES, 8)).any()
    torch.testing.assert_close(source.draw(PICTURES, 7), source.draw(PICTURES, 7), rtol=0, atol=0)
    assert (source.p, source.most) == (0.3, None)


@torch.no_grad()
def test_smoothing_keeps_the_masks(small_vit: nn.Module) -> None:
    small_vit.eval()
    vs.surgery.pool_tokens(small_vit)
    source = RandomPasses(small_vit, random_network(small_vit, None, PICTURES, 0.3, 0), seed=5)
    smoothed = source.smoothed((3, 32, 32))
    assert smoothed is not None
    by_hand = deepcopy(small_vit)
    vs.surgery.mc_dropout(by_hand, p=0.3)
    vs.surgery.smooth(by_hand, "stage_ends")
    torch.testing.assert_close(smoothed.single(PICTURES), by_hand(PICTURES))
    with vs.surgery.sampling(by_hand, seed=5):
        expected = [by_hand(PICTURES) for _ in range(2)]
    torch.testing.assert_close(list(smoothed.passes(PICTURES, 0, 2)), expected)
    assert (smoothed.single(PICTURES) != source.single(PICTURES)).any()


def test_smoothing_has_no_place_in_a_model_that_reads_its_class_token_alone(small_vit: nn.Module) -> None:
    assert smoothed_copy(small_vit, (3, 32, 32)) is None
    assert record(small_vit) == []


@torch.no_grad()
def test_members_come_in_their_order(small_vit: nn.Module) -> None:
    other = deepcopy(small_vit)
    nn.init.normal_(other.head.weight)  # type: ignore[union-attr, arg-type]
    small_vit.eval(), other.eval()
    source = Members([small_vit, other])
    torch.testing.assert_close(list(source.passes(PICTURES, 0, 5)), [small_vit(PICTURES), other(PICTURES)])
    torch.testing.assert_close(source.single(PICTURES), small_vit(PICTURES))
    assert source.smoothed((3, 32, 32)) is None
