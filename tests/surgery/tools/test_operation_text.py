"""Operations are read by the types of their arguments."""

import pytest

from vitscope.core.errors import BadArgument
from vitscope.surgery.tools.operate import plan_operations, read_operation


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("alternate", ("alternate", {})),
        ("alternate msa=0,1,1,2 window=7", ("alternate", {"msa": [0, 1, 1, 2], "window": 7})),
        ("alternate heads=3 extra-block=true", ("alternate", {"heads": [3], "extra_block": True})),
        ("alternate budget=none", ("alternate", {"budget": None})),
        ("mc-dropout p=3e-1", ("mc_dropout", {"p": 0.3})),
        ("mc_dropout 0.3 kinds=conv", ("mc_dropout", {"p": 0.3, "kinds": "conv"})),
        ("lesion blocks.3.attn", ("lesion", {"unit": "blocks.3.attn"})),
        ("lesion 12", ("lesion", {"unit": "12"})),
        ("extend msa", ("extend", {"kind": "msa"})),
        (
            "localize 3 layers=0,-1,blocks.1?.attn",
            ("localize", {"kernel": 3, "layers": [0, -1, "blocks.1?.attn"]}),
        ),
        ("localize layers=[2]", ("localize", {"layers": [2]})),
        ("smooth temperature=5", ("smooth", {"temperature": 5.0})),
        (
            "broadcast_context layers=all pyramid=a,b",
            ("broadcast_context", {"layers": "all", "pyramid": ["a", "b"]}),
        ),
    ],
)
def test_operations_are_read(text, wanted) -> None:
    assert read_operation(text) == wanted


def test_dicts_are_operations_in_order() -> None:
    said = {"alternate": {"budget": 4}, "smooth": None, "mc-dropout": {}}
    assert plan_operations(said) == [("alternate", {"budget": 4}), ("smooth", {}), ("mc_dropout", {})]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "an operation without a name"),
        ("smoth", "no operation 'smoth'; did you mean smooth?"),
        ("smooth heat=1", "smooth: no argument 'heat'"),
        ({"smooth": {"heat": 1}}, r"smooth\(\): no argument 'heat'"),
        ({"smooth": 3}, "smooth is 3; expected a dict of its arguments, as in {'smooth': {'where': ...}}"),
        ({"smooth": {3: 4}}, "expected a dict of its arguments"),
        ({3: {}}, "an operation is 3; expected text"),
        ({"smooth": {"temperature": -1}}, "temperature is -1"),
    ],
)
def test_mistakes_are_said(said, why) -> None:
    with pytest.raises(BadArgument, match=why):
        plan_operations(said)
