"""The page of public names is of this version, and says of each what it is."""

from tests.api_list import PAGE, page, public, sentence


def test_the_page_lists_what_there_is() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.api_list"


def test_every_name_is_explained() -> None:
    names = [(f"{place}.{name}", value) for place, inside in public() for name, value in inside.items()]
    assert len(names) > 250
    assert [name for name, value in names if len(sentence(value)) < 2] == []
