import re
from pathlib import Path

from markupsafe import Markup

from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import MODELS, MSA_BAR, styled
from vitscope.plots import plot_variance
from vitscope.report import page
from vitscope.report.card import KINDS
from vitscope.report.inline import SharedStyles, inline_svg
from vitscope.results import Run


def test_equal_styles_have_one_class_in_all_figures() -> None:
    styles = SharedStyles()
    first = styles.share(Markup('<g><path style="fill:none" d="M0 0"/><path style="stroke:#123456"/></g>'))
    second = styles.share(Markup('<path style="stroke:#123456"/>'))
    assert first == '<g><path class="v0" d="M0 0"/><path class="v1"/></g>'
    assert second == '<path class="v1"/>'
    assert styles.css == ".v0{fill:none}\n.v1{stroke:#123456}"


def test_nothing_that_could_end_the_sheet_enters_it() -> None:
    styles = SharedStyles()
    odd = Markup('<path style="fill:url(&quot;}&lt;/style>"/>')
    assert styles.share(odd) == odd
    assert styles.css == ""


def test_kinds_of_units_have_no_models_colour_and_msas_that_of_the_figures() -> None:
    css = (Path(page.__file__).parent / "templates" / "page.css").read_text()
    colours = {kind: re.findall(rf"--{kind}: (#[0-9a-f]+);", css)[0] for kind in KINDS}
    assert len(set(colours.values())) == len(KINDS)
    assert not set(colours.values()) & set(MODELS)
    assert colours["msa"] == MSA_BAR


def test_text_is_left_alone() -> None:
    text = Markup('<text>a style="fill:none" of its own</text>')
    assert SharedStyles().share(text) == text


def test_every_style_of_a_figure_can_be_found_again(runs: Path) -> None:
    result = Run.open(runs / "resnet").results()["variance"]
    with styled():
        svg = inline_svg(plot_variance(result, new_panel()), "variance")  # type: ignore[arg-type]
    styles = SharedStyles()
    shared = styles.share(svg)
    rules = dict(re.findall(r"\.(v\d+)\{(.*)\}", styles.css))
    back = re.sub(r'class="(v\d+)"', lambda m: f'style="{rules[m[1]]}"', shared)
    assert back == svg
    assert len(shared) < 0.8 * len(svg)
