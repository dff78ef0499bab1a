from copy import deepcopy

import torch
from torch import nn

import vitscope as vs
from vitscope.engine.random_passes import Members, RandomPasses, random_network, smoothed_copy
from vitscope.surgery.tools.record import record

IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_passes_are_those_of_the_seed_whatever_is_taken_of_them(small_vit: nn.Module) -> None:
    small_vit.eval()
    source = RandomPasses(small_vit, random_network(small_vit, None, IMAGES, 0.3, 0), seed=5)
    three = list(source.passes(IMAGES, 0, 3))
    two = list(source.passes(IMAGES, 0, 2))
    torch.testing.assert_close(two, three[:2], rtol=0, atol=0)
    assert (three[0] != three[1]).any()
    torch.testing.assert_close(source.single(IMAGES), small_vit(IMAGES), rtol=0, atol=0)
    assert (source.draw(IMAGES, 7) != source.draw(IMAGES, 8)).any()
    torch.testing.assert_close(source.draw(IMAGES, 7), source.draw(IMAGES, 7), rtol=0, atol=0)
    assert (source.p, source.most) == (0.3, None)


@torch.no_grad()
def test_smoothing_keeps_the_masks(small_vit: nn.Module) -> None:
    small_vit.eval()
    vs.surgery.pool_tokens(small_vit)
    source = RandomPasses(small_vit, random_network(small_vit, None, IMAGES, 0.3, 0), seed=5)
    smoothed = source.smoothed((3, 32, 32))
    assert smoothed is not None
    by_hand = deepcopy(small_vit)
    vs.surgery.mc_dropout(by_hand, p=0.3)
    vs.surgery.smooth(by_hand, "stage_ends")
    torch.testing.assert_close(smoothed.single(IMAGES), by_hand(IMAGES))
    with vs.surgery.sampling(by_hand, seed=5):
        expected = [by_hand(IMAGES) for _ in range(2)]
    torch.testing.assert_close(list(smoothed.passes(IMAGES, 0, 2)), expected)
    assert (smoothed.single(IMAGES) != source.single(IMAGES)).any()


def test_smoothing_has_no_place_in_a_model_that_reads_its_class_token_alone(small_vit: nn.Module) -> None:
    assert smoothed_copy(small_vit, (3, 32, 32)) is None
    assert record(small_vit) == []


@torch.no_grad()
def test_members_come_in_their_order(small_vit: nn.Module) -> None:
    other = deepcopy(small_vit)
    nn.init.normal_(other.head.weight)  # type: ignore[union-attr, arg-type]
    small_vit.eval(), other.eval()
    source = Members([small_vit, other])
    torch.testing.assert_close(list(source.passes(IMAGES, 0, 5)), [small_vit(IMAGES), other(IMAGES)])
    torch.testing.assert_close(source.single(IMAGES), small_vit(IMAGES))
    assert source.smoothed((3, 32, 32)) is None
