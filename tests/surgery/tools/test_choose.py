"""Which units are chosen, and the places in their branches."""

import pytest
import timm

import vitscope as vs
from vitscope.anatomy import dissect
from vitscope.surgery.tools.choose import branch_places, choose_units, no_units
from vitscope.surgery.tools.record import CannotOperate

PARTS = vs.anatomy(vs.create_model("vit_mini"))  # six blocks


@pytest.mark.parametrize(
    ("kinds", "layers", "blocks"),
    [
        (("mlp",), "all", [0, 1, 2, 3, 4, 5]),
        (("mlp",), "upper", [3, 4, 5]),
        (("mlp",), "lower", [0, 1, 2]),
        (("mlp",), ["blocks.1.mlp", -1], [1, 5]),
        (("mlp",), [4, 0], [0, 4]),
        (("mlp",), "blocks.[23].mlp", [2, 3]),
    ],
)
def test_choices(kinds, layers, blocks) -> None:
    assert [unit.name for unit in choose_units(PARTS, kinds, layers)] == [f"blocks.{i}.mlp" for i in blocks]


def test_of_two_kinds_half_of_each_is_the_upper_half() -> None:
    names = [unit.name for unit in choose_units(PARTS, ("mlp", "msa"), "upper")]
    assert names == [f"blocks.{i}.{part}" for i in (3, 4, 5) for part in ("attn", "mlp")]


def test_halves_are_of_the_units_that_fit() -> None:
    def fits(unit) -> bool:
        return unit.name not in ("blocks.4.mlp", "blocks.5.mlp")

    def chosen(layers) -> list[str]:
        return [unit.name for unit in choose_units(PARTS, ("mlp",), layers, fits)]

    assert chosen("upper") == ["blocks.2.mlp", "blocks.3.mlp"]
    assert chosen("lower") == ["blocks.0.mlp", "blocks.1.mlp"]
    assert chosen("all") == [f"blocks.{i}.mlp" for i in range(4)]
    assert chosen([4]) == ["blocks.4.mlp"]  # asked for by name, which the operation answers


@pytest.mark.parametrize("wanted", [6, -7, "blocks.9.mlp", "layer*"])
def test_what_is_not_there_is_named(wanted) -> None:
    with pytest.raises(CannotOperate, match=f"{wanted}".replace("*", r"\*")):
        choose_units(PARTS, ("mlp",), [wanted])


@pytest.fixture(scope="module")
def vit():
    return dissect(vs.create_model("vit_mini"))


def test_both_means_msa_and_mlp_of_the_upper_half(vit) -> None:
    places = branch_places(vit, "both", "end", "upper")
    assert [place.unit.name for place in places] == [
        f"blocks.{i}.{kind}" for i in (3, 4, 5) for kind in ("attn", "mlp")
    ]
    assert all(place.port.channels == 96 for place in places)


def test_the_middle_is_as_wide_as_the_hidden_layer(vit) -> None:
    assert {place.port.channels for place in branch_places(vit, "mlp", "mid", "all")} == {384}


@pytest.mark.parametrize("pyramid", [["blocks.4"], "blocks.4.mlp", ["blocks.4*"]])
def test_blocks_that_feed_a_pyramid_are_left_out_aloud(vit, pyramid) -> None:
    with pytest.warns(UserWarning, match=r"left out of layers='upper': blocks\.4\.mlp \(feeds the pyramid\)"):
        places = branch_places(vit, "mlp", "end", "upper", pyramid)
    assert [place.unit.name for place in places] == ["blocks.3.mlp", "blocks.5.mlp"]


def test_a_block_that_feeds_a_pyramid_cannot_be_chosen_by_name(vit) -> None:
    with pytest.raises(CannotOperate, match=r"'blocks\.4\.mlp' feeds the pyramid"):
        branch_places(vit, "mlp", "end", ["blocks.3.mlp", "blocks.4.mlp"], ["blocks.4"])


def test_an_unknown_pyramid_is_an_error(vit) -> None:
    with pytest.raises(CannotOperate, match=r"no unit or block 'stages\.3'"):
        branch_places(vit, "mlp", "end", "upper", ["stages.3"])


def test_units_on_the_class_token_alone_are_left_out() -> None:
    body = dissect(timm.create_model("cait_xxs24_224", img_size=32, patch_size=8, depth=2), (3, 32, 32))
    with pytest.warns(UserWarning, match="blocks_token_only.0.mlp"):
        places = branch_places(body, "mlp", "end", "all")
    assert [place.unit.name for place in places] == ["blocks.0.mlp", "blocks.1.mlp"]
    with pytest.raises(CannotOperate, match="is not on the image's tokens"):
        branch_places(body, "mlp", "end", ["blocks_token_only.0.mlp"])


def test_the_upper_half_is_of_the_units_on_the_image() -> None:
    """Two class-attention blocks follow four others: they are not counted."""
    small = {"img_size": 32, "patch_size": 8, "depth": 4, "embed_dim": 48, "num_heads": 4}
    body = dissect(timm.create_model("cait_xxs24_224", **small), (3, 32, 32))
    for kind, name in (("mlp", "mlp"), ("msa", "attn")):
        with pytest.warns(UserWarning, match=r"left out of layers='upper': blocks_token_only\.0"):
            places = branch_places(body, kind, "end", "upper")
        assert [place.unit.name for place in places] == [f"blocks.{i}.{name}" for i in (2, 3)]


def test_padding_is_nobodys_token() -> None:
    body = dissect(
        timm.create_model("twins_svt_small", img_size=32), (3, 32, 32)
    )  # windows of 7 on maps of 8
    with pytest.raises(CannotOperate, match=r"padded at the front .* at='end'"):
        branch_places(body, "msa", "front", "all")
    assert len(branch_places(body, "msa", "end", "all")) == 18


def test_what_was_looked_for_is_named() -> None:
    assert "msa or mlp" in no_units("both", "all")
