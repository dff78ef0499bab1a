"""The page in a real browser: skipped only where there is none."""

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
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


def test_loads_without_an_error_or_a_request(browser: Chromium, page: Path) -> None:
    browser.run("window.scrollTo(0, document.body.scrollHeight)")
    for section in ("fourier", "cka", "maps", "landscape"):
        ready(browser, section)
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]


def test_the_first_view_waits_for_no_script(chromium: Chromium, page: Path) -> None:
    chromium.look(1280)
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    chromium.open(page)
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    drawn = (
        "[...document.querySelectorAll('.drawing svg')].filter((s) => s.getBoundingClientRect().height > 50)"
    )
    assert chromium.run(f"{drawn}.length === document.querySelectorAll('.panel').length")
    assert chromium.run("document.querySelectorAll('.signs tbody tr').length") > 3
    assert chromium.run("document.querySelectorAll('[data-ready], .controls').length") == 0


def test_what_is_out_of_sight_is_unpacked_later(browser: Chromium) -> None:
    far = "document.querySelector('#landscape [data-widget]')"
    browser.wait_for("document.readyState === 'complete'")
    assert not browser.run(f"{far}.dataset.ready")
    assert browser.run("window.Plotly === undefined")
    ready(browser, "landscape")
    assert browser.run("window.Plotly === undefined")  # only when the surface is to be turned


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
    captions = "[...document.querySelectorAll('caption span')].map((e) => e.getBoundingClientRect().right)"
    assert browser.run(captions)
    assert max(browser.run(captions)) <= width


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


def test_attention_maps_follow_the_choice_of_image_layer_and_head(browser: Chromium) -> None:
    ready(browser, "maps")
    pixels = "document.querySelector('#maps .viewer').toDataURL()"
    seen = [browser.run(pixels)]
    assert _said(browser).startswith("blocks.5.attn, head 0, image no. ")
    for position in (0, 1, 2):  # image, layer, head
        choose(browser, f"document.querySelectorAll('#maps select')[{position}]", "1")
        seen.append(browser.run(pixels))
    assert len(set(seen)) == 4
    assert _said(browser).startswith("blocks.1.attn, head 1, image no. ")


def test_attention_maps_answer_to_keys_and_clicks(browser: Chromium, page: Path) -> None:
    result: Any = Result.load(page.parent / "vit_mini" / "exams" / "maps")
    ready(browser, "maps")
    browser.run("document.querySelector('#maps .overview').focus()")
    for key in ("PageDown", "ArrowUp", "ArrowUp", "ArrowRight"):
        browser.key(key)
    layer, place = result.layers[3], int(result.indices[1])
    said = f"blocks.3.attn, head 1, image no. {place}: largest value "
    assert _said(browser).startswith(said)
    assert float(_said(browser).removeprefix(said).split(",")[0]) == pytest.approx(
        layer.highest[1, 1], rel=0.01
    )
    for _ in range(9):
        browser.key("ArrowDown")  # no further than the last row, which has one cell
    assert _said(browser).startswith("rollout of 6 layers, all heads, ")
    box = into_view(browser, "document.querySelector('#maps .overview canvas')")
    x, y = box["left"] + box["width"] * 0.5 / layer.heads, box["top"] + box["height"] * 2.5 / 7
    browser.pointer(x, y)
    assert browser.run("document.getElementById('tip').textContent") == "blocks.2.attn, head 0"
    for kind in ("mousePressed", "mouseReleased"):
        browser.pointer(x, y, kind, button="left", clickCount=1)
    assert _said(browser).startswith("blocks.2.attn, head 0, ")
    canvas = "document.querySelector('#maps .overview canvas').getContext('2d')"
    centre = browser.run(f"[...{canvas}.getImageData(16, 2 * 32 + 16, 1, 1).data]")
    rows, columns = result.layers[2].steps.shape[2:]
    step = result.layers[2].steps.array[1, 0, 15 * rows // 30, 15 * columns // 30]
    assert centre[3] == 255
    assert centre[0] == pytest.approx(_red(int(step)), abs=2)
    assert browser.problems == []


def _said(browser: Chromium) -> str:
    return str(browser.run("document.querySelector('#maps .viewer').getAttribute('aria-label')"))


def _red(step: int) -> float:
    """Red of the colour for a step from 0 to 255."""
    return float(np.interp(step, np.linspace(0, 255, 5), [0, 87, 188, 249, 252]))


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
    end = time.monotonic() + 900
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


def test_prints_on_white_paper_without_controls(browser: Chromium) -> None:
    colours = """['.holds, .does-not-hold, .inconclusive', '.signs a', '.note', 'main'].map((name) =>
        getComputedStyle(document.querySelector(name)).color)"""
    light = browser.run(colours)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.look(718)  # of a sheet of A4 between its margins
    browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
    printed = browser.run(colours)
    shown = "[...document.querySelectorAll('nav, .controls, .maps, .numbers')].filter((e) => e.offsetParent).length"
    found = browser.run(f"[document.documentElement.scrollWidth, {shown}]")
    folded = "document.querySelector('details.folded .scroll').checkVisibility({contentVisibilityAuto: true})"
    unfolded = browser.run(folded)
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert printed[:2] == light[:2]  # judgements and links can be read on white
    assert found == [718, 0]
    assert unfolded


def test_names_are_shown_as_they_are(browser: Chromium) -> None:
    assert browser.run("document.querySelector('h1').textContent") == "Two <models>"
    assert browser.run("document.querySelectorAll('.card h2')[1].textContent") == "a <b>ViT</b> & more"
    assert browser.run("document.querySelectorAll('b').length") == 0
