"""The pages: an index of runs, the training of a run, and its report, which is kept as long as the run is the same."""

import re
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Self

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import escape

from vitscope import __version__
from vitscope.errors import VitscopeError
from vitscope.serve.index import Entry, Fingerprint, Index, fingerprint, training_rows

KEPT_PAGES = 16  # reports of a few MB each
_COLUMNS = ("epoch", "train_loss", "nll", "accuracy", "lr", "images_per_second", "seconds")
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')
_NO_SCRIPTS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


class Pages:
    """Renders; one page at a time, because matplotlib is not made for threads."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._templates = Environment(
            loader=PackageLoader("vitscope.serve"),
            autoescape=select_autoescape(["html"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._lock = threading.Lock()
        self._reports: OrderedDict[Path, tuple[Fingerprint, str]] = OrderedDict()
        self._scratch = tempfile.TemporaryDirectory(prefix="vitscope-serve-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._scratch.cleanup()

    def front(self) -> str:
        """The index."""
        return self._templates.get_template("index.html").render(
            entries=self.index.entries(), folder=self.index.root.name, version=__version__, percent=percent
        )

    def training(self, folder: Path) -> str:
        """The page that follows a training."""
        return self._templates.get_template("training.html").render(
            **self.progress(folder), version=__version__
        )

    def progress(self, folder: Path) -> dict[str, Any]:
        """What that page shows and asks for again."""
        entry, rows = self.index.entry(folder), training_rows(folder)
        columns = [name for name in _COLUMNS if rows and name in rows[0]]
        cells = [[_short(row.get(name) or "") for name in columns] for row in rows]
        return {"entry": entry, "columns": columns, "rows": cells}

    def curve(self, folder: Path) -> bytes | None:
        """The figure of a training as SVG; None while no epoch is finished."""
        from vitscope.plots.figures import new_panel, render
        from vitscope.plots.style import styled
        from vitscope.plots.training import plot_training

        with self._lock, styled(**{"svg.hashsalt": "training"}):
            try:
                return render(plot_training(folder, new_panel()), "svg")
            except VitscopeError:
                return None

    def report(self, folder: Path) -> str:
        """The page that `vs.report` makes of the run, with a way back to the index."""
        mark = fingerprint(folder)
        with self._lock:
            known = self._reports.get(folder)
            if known is None or known[0] != mark:
                known = (mark, self._make_report(folder))
                self._reports[folder] = known
                while len(self._reports) > KEPT_PAGES:
                    self._reports.popitem(last=False)
            self._reports.move_to_end(folder)
        return known[1]

    def _make_report(self, folder: Path) -> str:
        from vitscope.report import report

        page = report(folder, Path(self._scratch.name) / "report.html").read_text()
        return re.sub(r"<body[^>]*>", lambda body: body[0] + _bar(self.index.entry(folder)), page, count=1)


def policy_of(page: str) -> str:
    """The Content-Security-Policy that a page asks for itself, else one under which no script runs."""
    found = _POLICY.search(page)
    return found[1].replace("&#39;", "'") if found else _NO_SCRIPTS


def percent(entry: Entry) -> str:
    """Accuracy with its interval."""
    if entry.accuracy is None or entry.low is None or entry.high is None:
        return "–"
    return f"{100 * entry.accuracy:.1f} % [{100 * entry.low:.1f}, {100 * entry.high:.1f}]"


def _bar(entry: Entry) -> str:
    training = f' · <a href="/training/{escape(entry.path)}">training</a>' if entry.epochs else ""
    return f'<p style="margin:0 0 1rem;font-size:.9rem"><a href="/">all runs</a>{training}</p>'


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
