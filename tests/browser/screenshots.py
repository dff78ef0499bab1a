"""Pictures of the demo's page for the documentation: `python -m tests.browser.screenshots runs/demo docs/figures`."""

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser.chromium import Chromium

SIZES = {"demo_desktop": (1280, 1800), "demo_phone": (375, 2400)}
MODEL, FIGURE = "vit_mini", "fourier"  # what the README shows of it


def take(runs: Path, folder: Path) -> None:
    """Write the pictures, with few colours: they are drawings."""
    with tempfile.TemporaryDirectory() as place, Chromium(Path(place)) as browser:
        for name, size in SIZES.items():
            browser.look(*size)
            browser.open((runs / "report.html").resolve())
            browser.wait_for("document.readyState === 'complete'")
            browser.screenshot(folder / f"{name}.png")
            picture = Image.open(folder / f"{name}.png").convert("RGB")
            picture.quantize(128).save(folder / f"{name}.png", optimize=True)
    shutil.copy(runs / MODEL / "figures" / f"{FIGURE}.png", folder / f"demo_{FIGURE}_{MODEL}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
