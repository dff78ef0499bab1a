"""Refused arguments: which one, what there is, and errors of other kinds left alone."""

import pytest
from torch import nn

from vitscope.models.constructor_arguments import arguments_of, call, signature_of
from vitscope.models.errors import UnknownArgument


def build(width: int = 1) -> nn.Module:
    return nn.Linear(width, width)


def known() -> set[str]:
    return signature_of(build)


def test_optional_arguments_are_left_out_where_they_are_refused() -> None:
    model = call("net", build, {"width": 3}, known, optional={"img_size": 4})
    assert model.in_features == 3


def test_refused_argument() -> None:
    with pytest.raises(UnknownArgument, match="net takes no argument 'widht'; did you mean width") as caught:
        call("net", build, {"widht": 3}, known)
    assert caught.value.argument == "widht"


def test_nothing_is_near() -> None:
    with pytest.raises(UnknownArgument, match="it takes: width"):
        call("net", build, {"q": 3}, known)


def test_other_errors_pass() -> None:
    with pytest.raises(TypeError, match="empty"):
        call("net", build, {"width": "a"}, known)


def test_arguments_of_a_class_include_those_of_its_bases() -> None:
    class Base(nn.Module):
        def __init__(self, depth: int = 1) -> None:
            super().__init__()

    class Child(Base):
        def __init__(self, heads: int = 1, **kwargs: int) -> None:
            super().__init__(**kwargs)

    assert arguments_of(Child()) == {"heads", "depth", "**"}
