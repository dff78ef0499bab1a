"""The page in a real browser: skipped only where there is none."""

import io
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.browser.chromium import Chromium
from vitscope.results import Result


def into_view(browser: Chromium, element: str) -> dict[str, float]:
    """Scroll to an element, given as an expression; its place in the window."""
    browser.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    return browser.run(f"{element}.getBoundingClientRect().toJSON()")


def choose(browser: Chromium, element: str, value: str) -> None:
    """Choose an option of a select element."""
    browser.run(f"{element}.value = {value!r}, {element}.dispatchEvent(new Event('change'))")


def ready(browser: Chromium, section: str) -> None:
    into_view(browser, f"document.querySelector('#{section} [data-widget]')")
    browser.wait_for(f"document.querySelector('#{section} [data-widget]').dataset.ready")


def test_loads_without_an_error_or_a_request_and_within_two_seconds(browser: Chromium, page: Path) -> None:
    browser.run("window.scrollTo(0, document.body.scrollHeight)")
    for section in ("fourier", "cka", "maps", "landscape"):
        ready(browser, section)
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]
    browser.wait_for("performance.getEntriesByName('first-contentful-paint').length")
    browser.call("Performance.enable")
    metrics = {one["name"]: one["value"] for one in browser.call("Performance.getMetrics")["metrics"]}
    # Seconds of the page's own work until it is laid out: wall time depends on what else the machine does.
    assert metrics["ScriptDuration"] + metrics["LayoutDuration"] + metrics["RecalcStyleDuration"] < 2.0


def test_nothing_but_our_scripts_may_run(browser: Chromium) -> None:
    done = browser.run(
        """(async () => { const s = document.createElement("script"); s.textContent = "window.broken = 1";
        document.body.append(s); const i = new Image();
        const failed = new Promise((r) => { i.onerror = () => r(true); i.onload = () => r(false); });
        i.src = "https://example.invalid/a.png"; return [await failed, window.broken === undefined]; })()"""
    )
    assert done == [True, True]
    assert any("Content Security Policy" in text for text in browser.problems)


@pytest.mark.parametrize("width", [375, 768])
def test_does_not_scroll_sideways(browser: Chromium, width: int) -> None:
    browser.look(width, 800)
    wide = browser.run(
        """[...document.querySelectorAll("details")].forEach((d) => { d.open = true; }),
        new Promise((r) => setTimeout(() => r(document.documentElement.scrollWidth), 300))"""
    )
    assert wide <= width


def test_a_cell_of_the_heat_map_says_its_units_and_value(browser: Chromium, page: Path) -> None:
    ready(browser, "cka")
    result: Any = Result.load(page.parent / "resnet_mini" / "exams" / "cka")
    box = into_view(browser, "document.querySelector('#cka image')")
    cell = box["width"] / len(result.units)
    browser.pointer(box["left"] + 0.5 * cell, box["top"] + box["height"] - 2.5 * cell)
    text = browser.run("document.getElementById('tip').textContent")
    assert text.startswith(f"{result.units[2].name} (conv) and {result.units[0].name} (stem): CKA ")
    assert float(text.split("CKA ")[1].split()[0]) == pytest.approx(result.value[2, 0], abs=0.006)
    browser.run("document.querySelector('#cka svg').focus()")
    browser.key("ArrowUp")
    assert browser.run("document.getElementById('tip').textContent").startswith(f"{result.units[3].name} ")
    browser.key("Escape")
    assert browser.run("document.getElementById('tip').hidden")


def test_lines_of_a_kind_can_be_switched_off_and_a_unit_picked_out(browser: Chromium) -> None:
    ready(browser, "fourier")
    panels = "[...document.querySelectorAll('#fourier [data-widget=series]')]"
    panel = f"{panels}[1]"  # the ViT's spectrum
    browser.wait_for(f"{panel}.querySelectorAll('input').length")
    kinds = browser.run(f"[...{panel}.querySelectorAll('label')].map((l) => l.textContent)")
    assert kinds == ["stem", "msa", "mlp"]
    shown = f"[...{panel}.querySelectorAll('[data-series]')].filter((g) => g.style.display !== 'none').length"
    assert browser.run(shown) == 13
    browser.run(f"{panel}.querySelectorAll('input')[1].click()")
    assert browser.run(shown) == 7
    choose(browser, f"{panel}.querySelector('select')", "blocks.3.mlp")
    assert browser.run(f"{panel}.querySelectorAll('.faded').length") == 12
    line = f"{panel}.querySelector('[data-series=\"0\"] path')"
    into_view(browser, line)
    middle = f"{line}.getPointAtLength({line}.getTotalLength() / 2).matrixTransform({line}.getScreenCTM())"
    place = browser.run(f"[{middle}.x, {middle}.y]")
    browser.pointer(*place)
    assert browser.run("document.getElementById('tip').textContent") == "patch_embed (stem)"


def test_attention_maps_follow_the_choice_of_head_and_image(browser: Chromium) -> None:
    ready(browser, "maps")
    pixels = "document.querySelector('#maps canvas').toDataURL()"
    seen = [browser.run(pixels)]
    for position in (1, 2):  # head, image
        choose(browser, f"document.querySelectorAll('#maps select')[{position}]", "1")
        seen.append(browser.run(pixels))
    assert len(set(seen)) == 3
    assert "head 1" in browser.run("document.querySelector('#maps canvas').getAttribute('aria-label')")


def test_tables_unfold_and_are_saved_as_they_are_in_the_run(
    browser: Chromium, page: Path, tmp_path: Path
) -> None:
    kept = (page.parent / "resnet_mini" / "exams" / "cka" / "cka.csv").read_text()
    details = "document.querySelector('#cka details.data')"
    browser.run(f"{details}.open = true")
    browser.wait_for(f"{details}.querySelector('table')")
    table = pd.read_csv(io.StringIO(kept))
    assert browser.run(f"{details}.querySelectorAll('tbody tr').length") == len(table)
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.run(f"{details}.querySelector('button').click()")
    end = time.monotonic() + 60
    while not (saved := list(tmp_path.glob("*.csv"))) and time.monotonic() < end:
        time.sleep(0.05)
    assert [path.name for path in saved] == ["resnet_mini-cka.csv"]
    assert saved[0].read_text() == kept


def test_the_surface_turns(browser: Chromium) -> None:
    ready(browser, "landscape")
    browser.run("document.querySelector('#landscape .controls button').click()")
    browser.wait_for("document.querySelector('#landscape .surface canvas')")
    browser.wait_for("!document.querySelector('#landscape .controls')")
    eye = "JSON.stringify(document.querySelector('#landscape .surface')._fullLayout.scene._scene.getCamera().eye)"
    before = browser.run(eye)
    box = into_view(browser, "document.querySelector('#landscape .surface')")
    x, y = box["left"] + box["width"] / 2, box["top"] + box["height"] / 2
    browser.pointer(x, y)
    browser.pointer(x, y, "mousePressed", button="left", buttons=1, clickCount=1)
    for step in range(1, 6):
        browser.pointer(x + 20 * step, y, buttons=1)
    browser.pointer(x + 100, y, "mouseReleased", button="left", clickCount=1)
    browser.wait_for(f"{eye} !== {before!r}")
    assert browser.problems == []


def test_the_page_is_dark_for_who_wants_it_dark(browser: Chromium) -> None:
    colours = "['color', 'backgroundColor'].map((c) => getComputedStyle(document.body)[c])"
    light = browser.run(colours)
    browser.look(1280, dark=True)
    dark = browser.run(colours)
    brightness = [[sum(int(n) for n in c[4:-1].split(",")) for c in pair] for pair in (light, dark)]
    assert brightness[0][0] < brightness[0][1]
    assert brightness[1][0] > brightness[1][1]


def test_names_are_shown_as_they_are(browser: Chromium) -> None:
    assert browser.run("document.querySelector('h1').textContent") == "Two <models>"
    assert browser.run("document.querySelectorAll('.card h2')[1].textContent") == "a <b>ViT</b> & more"
    assert browser.run("document.querySelectorAll('b').length") == 0
