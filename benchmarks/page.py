"""How large a page is, and how long it takes until a reader sees it.

    python benchmarks/page.py report.html [--rounds 5]

Opens the page in a headless Chromium several times and prints the size of the file, the time to first contentful paint
and to the end of loading, and what of it is work of the page itself (script, style, layout): medians over rounds. The
goals are 8 MB and 2 seconds with five models.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.browser.chromium import Chromium, find_chromium

MEGABYTES, SECONDS = 8.0, 2.0
WORK = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")


def measure(browser: Chromium, page: Path) -> dict[str, float]:
    """Seconds of one visit."""
    browser.open(page)
    browser.wait_for("performance.getEntriesByName('first-contentful-paint').length")
    paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    loaded = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    metrics: list[dict[str, Any]] = browser.call("Performance.getMetrics")["metrics"]
    spent = sum(float(one["value"]) for one in metrics if one["name"] in WORK)
    return {"first view": paint / 1000, "loaded": loaded / 1000, "own work": spent}


def main() -> None:
    """Measure the page that was named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if find_chromium() is None:
        parser.error("no Chromium on this machine (Debian: apt-get install chromium)")
    page = options.page.resolve()
    size = page.stat().st_size / 1e6
    print(f"size        {size:6.2f} MB  {'within' if size <= MEGABYTES else 'OVER'} {MEGABYTES:g} MB")
    visits = []
    with tempfile.TemporaryDirectory() as folder, Chromium(Path(folder)) as browser:
        browser.call("Performance.enable")
        browser.look(1280)
        for _ in range(options.rounds):
            visits.append(measure(browser, page))
    for name in visits[0]:
        seconds = statistics.median(visit[name] for visit in visits)
        goal = f"  {'within' if seconds <= SECONDS else 'OVER'} {SECONDS:g} s" if name == "first view" else ""
        print(f"{name:<10}  {seconds:6.2f} s{goal}")


if __name__ == "__main__":
    main()
