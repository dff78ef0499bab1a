import re
from xml.etree import ElementTree

from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import INK, styled
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


def test_coordinates_are_short_and_labels_are_not() -> None:
    with styled(**{"svg.hashsalt": "c"}):
        ax = new_panel()
        ax.plot([0, 1], [0, 1])
        ax.text(0.5, 0.5, "0.123456")
        text = str(inline_svg(ax, "label"))
    tags = re.sub(r">[^<]*<", "><", text)
    assert not re.search(r"\d\.\d{3}", tags)
    assert ">0.123456<" in text


def test_series_can_be_found_by_number() -> None:
    with styled(**{"svg.hashsalt": "d"}):
        ax = new_panel()
        lines = [*ax.plot([0, 1], [0, 1]), *ax.plot([0, 1], [1, 0])]
        root = ElementTree.fromstring(str(inline_svg(ax, "label", lines)))
    groups = [g for g in root.iter() if "data-series" in g.attrib]
    assert [g.attrib["data-series"] for g in groups] == ["0", "1"]
    paths = [g.find("{http://www.w3.org/2000/svg}path") for g in groups]
    starts = [float(re.findall(r"[\d.]+", p.attrib["d"])[1]) for p in paths if p is not None]
    assert starts[0] > starts[1]  # the first begins at the bottom, and y runs down


def test_a_colour_bar_is_one_picture() -> None:
    with styled(**{"svg.hashsalt": "e"}):
        ax = new_panel()
        figure = ax.get_figure()
        assert figure is not None
        figure.colorbar(ax.imshow([[0, 1]]), ax=ax)
        text = str(inline_svg(ax, "label"))
    assert text.count("<path") < 60
    assert text.count("<image") == 2
