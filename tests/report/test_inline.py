import re
from xml.etree import ElementTree

from vitscope.plots.figures import new_panel
from vitscope.plots.style import INK, styled
from vitscope.report.inline import inline_svg


def drawn(salt: str, label: str = "A <figure> & more") -> str:
    with styled(**{"svg.hashsalt": salt}):
        ax = new_panel()
        ax.plot([0, 1], [0, 1], "-o")
        ax.set_ylabel("up")
        return str(inline_svg(ax, label))


def test_is_one_element_that_scales_and_has_a_name() -> None:
    root = ElementTree.fromstring(drawn("a"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "A <figure> & more"
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib


def test_takes_the_text_colour_of_the_page() -> None:
    text = drawn("a")
    assert INK not in text
    assert "currentColor" in text
    assert "<text" in text  # letters, not outlines


def test_ids_are_only_those_that_are_used_and_differ_between_figures() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', drawn(salt))) for salt in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]
    for salt, found in zip(("a", "b"), ids, strict=True):
        assert found == set(re.findall(r"#([\w-]+)\)?[\";]", drawn(salt))) & found


def test_nothing_points_outside() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", drawn("a")))
    assert hosts <= {"www.w3.org"}  # names of formats
