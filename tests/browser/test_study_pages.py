"""The pages of a study and of a survey in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium, find_chromium
from tests.report.study_tables import a_study, compared
from vitscope.report.atlas import write_atlas
from vitscope.report.study_page import write_study_page

NAMES = ("slow", "quick", "tiny")
SIZES = (3_000, 20_000, 1_000)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    comparisons = [compared(f"number {i}", verdict) for i, verdict in enumerate(("holds", "inconclusive"))]
    study = a_study(missing=["something"], comparisons=comparisons)
    arms = a_study(NAMES).tables["arms"].to_dict("records")
    for row, parameters in zip(arms, SIZES, strict=True):
        row["parameters"] = parameters
    empty: dict[str, list[object]] = {"comparisons": [], "by_seed": [], "curves": [], "differences": []}
    survey = a_study(NAMES, arms=arms, **empty)
    return {
        "study": write_study_page(study, folder / "study.html"),
        "atlas": write_atlas(survey, folder / "atlas.html"),
    }


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if find_chromium() is None:
        pytest.skip(
            "no Chromium on this machine: the pages were not looked at (Debian: apt-get install chromium)"
        )
    with Chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.mark.parametrize("name", ["study", "atlas"])
@pytest.mark.parametrize("width", [1280, 375])
def test_fits_the_window_without_complaint_or_network(
    browser: Chromium, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.look(width)
    browser.open(pages[name])
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.problems == []
    assert all(address.startswith("file:") for address in browser.requests)


def test_on_a_phone_no_word_and_no_interval_of_a_difference_breaks(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.look(375)
    browser.open(pages["study"])
    lines = """(cell) => { const range = document.createRange(); range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size; }"""
    broken = browser.run(
        f"[...document.querySelectorAll('.forest td:is(.word, :last-child)')].filter((cell) => ({lines})(cell) > "
        "cell.textContent.trim().split(/ +/).length).map((cell) => cell.textContent)"
    )
    assert browser.run("document.querySelectorAll('.forest td.word').length") > 0
    assert broken == []


def test_models_are_sorted_by_a_click(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1280)
    browser.open(pages["atlas"])
    order = "[...document.querySelectorAll('.sortable tbody th')].map((e) => e.textContent)"
    press = "document.querySelectorAll('.sortable .sort')[%d].click()"
    assert browser.run(order) == ["slow", "quick", "tiny"]
    browser.run(press % 1)
    assert browser.run(order) == ["quick", "slow", "tiny"]  # the largest first
    browser.run(press % 1)
    assert browser.run(order) == ["tiny", "slow", "quick"]
    assert browser.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    browser.run(press % 0)
    assert browser.run(order) == ["quick", "slow", "tiny"]  # by name
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_points_follow_the_choice_of_numbers(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1280)
    browser.open(pages["atlas"])
    browser.run("document.querySelector('#points').scrollIntoView({behavior: 'instant'})")
    browser.wait_for("document.querySelector('#points [data-ready]')")
    across = "[...document.querySelectorAll('#points circle')].map((e) => Number(e.getAttribute('cx')))"
    slow, quick, tiny = browser.run(across)
    assert tiny < slow < quick
    assert (quick - slow) / (slow - tiny) == pytest.approx(1.727, abs=0.01)  # log(20/3) / log(3)
    browser.run(
        "(() => { const s = document.querySelector('#points select'); s.value = 'prediction: NLL';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    slow, quick, tiny = browser.run(across)  # 1.5, 1.4, 1.3
    assert slow - quick == pytest.approx(quick - tiny, abs=0.1)
    assert browser.run("document.querySelectorAll('#points .bar').length") == 6
    browser.run("document.querySelector('#points .point').focus()")
    assert "slow: prediction: NLL 1.5 [1.49, 1.51]" in browser.run(
        "document.getElementById('tip').textContent"
    )
    assert browser.problems == []


def test_tables_of_a_study_unfold(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1280)
    browser.open(pages["study"])
    browser.run("document.querySelector('#tables details').open = true")
    browser.wait_for("document.querySelector('#tables tbody tr')")
    rows = browser.run("document.querySelectorAll('#tables details[open] tbody tr').length")
    assert rows == len(a_study().table())
    assert browser.run("document.querySelectorAll('.verdict svg.interval').length") == 2


@pytest.mark.parametrize("width", [390, 1280])
def test_the_label_of_the_points_stands_clear_of_the_ticks(
    width: int, browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.look(width)
    browser.open(pages["atlas"])
    browser.run("document.querySelector('.scatter').scrollIntoView()")
    browser.wait_for("document.querySelector('.scatter svg')")
    clear = """(() => {
      const up = document.querySelectorAll(".controls select")[1], place = (text) => text.getBoundingClientRect();
      return [...up.options].every((option) => {
        up.value = option.value;
        up.dispatchEvent(new Event("change"));
        const texts = [...document.querySelectorAll(".scatter text:not(.named)")];
        const label = place(texts.find((text) => text.hasAttribute("transform")));
        const ticks = texts.filter((text) => text.getAttribute("text-anchor") === "end").map(place);
        return ticks.length > 0 && ticks.every((tick) => tick.left > label.right);
      });
    })()"""
    assert browser.run(clear) is True
