"""The pages: an index of runs, the training of a run, and its report, which is kept as long as the run is the same."""

import os
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import escape

from vitscope.core import VERSION
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.interrupt import Stopped, stoppable
from vitscope.results.numbers import unbroken
from vitscope.results.plain_files import check_plain, is_shortage
from vitscope.serve.access import below
from vitscope.serve.index import Fingerprint, Index, ListedRun, fingerprint, is_study, training_rows

KEPT_PAGES = 16  # reports of a few MB each
KEPT_CURVES = 64
MOST_WAITING = 8  # requests for something that has to be drawn
_COLUMNS = (
    *"epoch train_loss nll miou box_ap mask_ap accuracy lr images_per_second seconds".split(),
)  # those that a task has
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')
_NO_SCRIPTS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


T = TypeVar("T")


class Busy(VitscopeError):
    """Not now: others wait for their pages already, or the server is about to end."""


class PageCache(Generic[T]):
    """What was made of runs, as long as their files are the same; the latest so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: OrderedDict[Path, tuple[Fingerprint, T]] = OrderedDict()

    def get(
        self, folder: Path, drawing: Callable[[], AbstractContextManager[None]], make: Callable[[Path], T]
    ) -> T:
        """What was made of the run's files, inside `drawing`; the one asked for the longest time ago is forgotten."""
        mark = fingerprint(folder)
        with drawing():
            known = self._made.get(folder)
            if known is None or known[0] != mark:
                known = self._made[folder] = (mark, make(folder))
            self._made.move_to_end(folder)
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return known[1]


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
        self._room = threading.BoundedSemaphore(MOST_WAITING)
        self._ending = threading.Event()
        self._reports: PageCache[str] = PageCache(KEPT_PAGES)
        self._curves: PageCache[bytes | None] = PageCache(KEPT_CURVES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Give up what is being drawn, after the figure under way; nothing is drawn any more."""
        self._ending.set()

    def front(self) -> str:
        """The index."""
        return self._templates.get_template("index.html").render(
            entries=self.index.entries(), folder=self.index.root.name, version=VERSION, percent=percent
        )

    def training(self, folder: Path, trouble: str = "") -> str:
        """The page that follows a training, or says what keeps the run from being shown."""
        facts = self.progress(folder)
        trouble = trouble.replace(f"{folder}{os.sep}", "").replace(str(self.index.root), ".")
        trouble = trouble or facts["entry"].trouble
        return self._templates.get_template("training.html").render(**facts, trouble=trouble, version=VERSION)

    def progress(self, folder: Path) -> dict[str, Any]:
        """What that page shows and asks for again."""
        entry, rows = self.index.entry(folder), training_rows(folder)
        columns = [name for name in _COLUMNS if rows and name in rows[0]]
        cells = [[_short(row.get(name) or "") for name in columns] for row in rows]
        return {"entry": entry, "columns": columns, "rows": cells}

    def curve(self, folder: Path) -> bytes | None:
        """The figure of a training as SVG; None while no epoch is finished."""
        return self._curves.get(folder, self._drawing, _draw_curve)

    def report(self, folder: Path) -> str:
        """The page that `vs.report` makes of the run, or the one of a study, with a way back to the index."""
        return self._reports.get(folder, self._drawing, self._make_report)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """One at a time, a few in the queue, and none once the server is about to end."""
        if not self._room.acquire(blocking=False):
            raise Busy("others wait for their pages already; ask again in some seconds")
        try:
            with self._lock, stoppable(self._ending), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about figures of damaged runs, which nobody here can mend
                if self._ending.is_set():
                    raise Stopped
                yield
        except Stopped:
            raise Busy("the server is about to end; start it again to see this page") from None
        finally:
            self._room.release()

    def _make_report(self, folder: Path) -> str:
        from vitscope.report.page import render_page
        from vitscope.report.sound import make_of_sound
        from vitscope.report.subject import find_runs

        runs = [] if is_study(folder) else find_runs([folder], self._unreadable(folder))
        page = make_of_sound(runs, render_page, set_aside=True) if runs else _study_page(folder)
        return re.sub(r"<body[^>]*>", lambda body: body[0] + _bar(self.index.entry(folder)), page, count=1)

    def _unreadable(self, folder: Path) -> dict[str, str]:
        """Exams that must not be opened, and why: they have pipes, devices, or files that are elsewhere."""
        root, found = self.index.root, {}
        files = [f for f in folder.glob("exams/*/*") if not (f.name.startswith(".") or f.is_dir())]
        for file in files:
            inside = file.relative_to(folder).as_posix()
            try:
                if below(root, file.relative_to(root).as_posix()) is None:
                    raise BadResult(f"{inside} is a link that leads out of what is served")
                check_plain([file], most=1 << 40)
            except (BadResult, OSError) as error:
                if is_shortage(error):
                    raise
                found[file.parent.name] = str(error).replace(str(file), inside)
        return found


def _study_page(folder: Path) -> str:
    """Made of its tables, not read: a page that lies there may be anybody's."""
    from vitscope.report.atlas import render_atlas
    from vitscope.report.study_page import render_study
    from vitscope.results.study_result import ATLAS, StudyResult

    result = StudyResult.load(folder)
    return render_atlas(result) if (folder / ATLAS).exists() else render_study(result)


def _draw_curve(folder: Path) -> bytes | None:
    from vitscope.drawing.figures import new_panel, render
    from vitscope.drawing.style import styled
    from vitscope.plots.training import plot_training

    with styled(**{"svg.hashsalt": "training"}):
        try:
            return render(plot_training(folder, new_panel()), "svg")
        except VitscopeError:
            return None


def policy_of(page: str) -> str:
    """The Content-Security-Policy that a page asks for itself, else one under which no script runs."""
    found = _POLICY.search(page)
    return found[1].replace("&#39;", "'") if found else _NO_SCRIPTS


def percent(entry: ListedRun) -> str:
    """The score of its task with its interval, which no line breaks; accuracy goes without saying."""
    if entry.accuracy is None or entry.low is None or entry.high is None:
        return "–"
    named = "" if entry.score == "Accuracy" else f"{entry.score} "
    return unbroken(f"{named}{100 * entry.accuracy:.1f} % [{100 * entry.low:.1f}, {100 * entry.high:.1f}]")


def _bar(entry: ListedRun) -> str:
    training = f' · <a href="/training/{escape(entry.path)}">training</a>' if entry.epochs else ""
    return f'<p style="margin:0 0 1rem;font-size:.9rem"><a href="/">all runs</a>{training}</p>'


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text
