"""Strangers: run folders and requests that want to run code, to reach what is outside, to script a page."""

import functools
import html.parser
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import vitscope as vs
from tests.prove.input.data_files import put
from tests.prove.input.properties import prop
from tests.prove.record import CannotTry, Finding, Kind, Trial
from tests.prove.watched import STRANGER, command, stranger, watched
from tests.serve.server import Server
from tests.test_source import SOURCE, problems
from vitscope.results.result import _checksum

MARK = "alert(31337)"
SECRET = "the-secret-of-another-folder"
SCRIPTS = [
    f"<script>{MARK}</script>",
    f'"><img src=x onerror={MARK}>',
    f"javascript:{MARK}",
    f"</script><script>{MARK}</script>",
    f"</title><script>{MARK}</script>",
    f"</style><script>{MARK}</script>",
    f"' onmouseover='{MARK}",
    f"<svg/onload={MARK}>",
    f"\\u003cscript\\u003e{MARK}",
    f"[x](javascript:{MARK})",
    "{{7*191}}",
    "${7*191}",
    "<!--",
    "]]>",
]
PLACES = [
    "../outside",
    "/etc/passwd",
    "..",
    "../../outside/secret",
    "~/x",
    "\0",
    "outside",
    "a/../../outside",
    "file:///etc/passwd",
]
CODE = [
    f"{STRANGER}:model",
    "os:getcwd",
    "subprocess:run",
    f"upernet:{STRANGER}:model",
    "builtins:eval",
    f"hf:../{STRANGER}",
]
FILES = (
    "config.json",
    "run.json",
    "manifest.json",
    "checkpoints.json",
    "exams/prediction/result.json",
    "metrics.csv",
)


def kinds() -> list[Kind]:
    """What is tried."""
    return [
        Kind("source", "every source file, read for what runs code out of data", 0, _source),
        prop(
            "run-folders",
            "run folders of strangers, to every verb that reads one",
            250,
            run_folders(),
            check_run,
        ),
        Kind("requests", "requests to a server: paths, hosts, methods", 1500, _requests),
        Kind("listening", "who is listened to: loopback alone unless told", 4, _listening),
        Kind("packages", "known holes of the installed packages (pip-audit)", 1, _packages),
    ]


def _source(trial: Trial) -> tuple[int, list[Finding]]:
    files = sorted(SOURCE.rglob("*.py"))
    return len(files), [
        Finding(f"{path}:{problem}") for path in files for problem in problems(path.read_text())
    ]


_kept: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def _honest() -> Path:
    """A run with a model, a training's table, checkpoints and an exam."""
    _kept.append(tempfile.TemporaryDirectory(prefix="security-"))
    folder = Path(_kept[-1].name) / "run"
    model = vs.create_model("vit_mini", depth=2)
    vs.save_model(model, folder)
    vs.diagnose(model, vs.load_data("fashion"), ["prediction"], limit=8, out=folder)
    kept = [{"name": "init", "file": "model.safetensors", "epoch": 0.0, "accuracy": None, "nll": None}]
    (folder / "checkpoints.json").write_text(json.dumps({"schema": 1, "checkpoints": kept}))
    names = "epoch,lr,train_loss,nll,accuracy,low,high,images_per_second,waiting,monitoring,seconds,broken"
    (folder / "metrics.csv").write_text(f"{names}\n1,0.001,1.5,1.2,0.5,0.4,0.6,100,0.1,0,1,0\n")
    return folder


@st.composite
def run_folders(draw: st.DrawFn) -> list[tuple[str, list[int], str, bool]]:
    """Up to three changes: a file, a place in it, and the stranger's text; or the file is a link that leads out."""
    text = st.sampled_from(SCRIPTS + PLACES + CODE)
    one = st.tuples(
        st.sampled_from(FILES), st.lists(st.integers(0, 12), min_size=1, max_size=6), text, st.integers(0, 9)
    )
    return [
        (file, path, said, link == 0)
        for file, path, said, link in draw(st.lists(one, min_size=1, max_size=3))
    ]


def check_run(case: list[tuple[str, list[int], str, bool]], folder: Path) -> None:
    """No code runs, nothing is read or written outside, no page is scripted."""
    run, outside = shutil.copytree(_honest(), folder / "run"), folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    stranger(folder)
    for file, path, said, link in case:
        if link:
            (run / file).unlink(missing_ok=True)
            (run / file).symlink_to(outside / "secret")
        elif file == "metrics.csv" and not (run / file).is_symlink():
            rows = [line.split(",") for line in (run / file).read_text().splitlines()]
            rows[path[0] % len(rows)][path[-1] % len(rows[0])] = said.replace("\0", "").replace(",", "")
            (run / file).write_text("\n".join(",".join(row) for row in rows) + "\n")
        elif not (run / file).is_symlink():
            _said_in(run / file, path, said)
    before = {p: p.read_bytes() for p in outside.rglob("*")}
    here = os.getcwd()
    os.chdir(folder)
    try:
        for words in (
            ["report", str(run), "-o", str(folder / "page.html")],
            ["anatomy", str(run)],
            ["prescribe", str(run)],
        ):
            _, shown = command(words, run.parent)
            if SECRET in shown:
                raise Finding(f"{words[0]} shows what is outside: {case}")
        watched(lambda: vs.create_model(run, checkpoint="init"), run.parent, case)
    finally:
        os.chdir(here)
    if {p: p.read_bytes() for p in outside.rglob("*")} != before:
        raise Finding(f"files outside were changed: {case}")
    page = folder / "page.html"
    if page.exists():
        _check_page(page.read_text(), case)


def _said_in(file: Path, path: list[int], said: str) -> None:
    """The stranger's text in the place of what is there; sums are right, as a stranger would make them."""
    content = put(json.loads(file.read_text()), path, said)
    if file.name == "result.json" and isinstance(content, dict):
        content["sha256"] = _checksum({key: value for key, value in content.items() if key != "sha256"})
    file.write_text(json.dumps(content))


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag == "script"
        for name, value in attrs:
            if MARK in (value or "") and (
                name.startswith("on") or (value or "").strip().startswith("javascript:")
            ):
                self.found.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        if self._script and data.strip().startswith(MARK):
            self.found.append(f"<script>{data[:80]}")
        if "1337" in data and "7*191" not in data and str(7 * 191) in data and "{{" in data:
            self.found.append(data[:80])


def _check_page(text: str, case: object) -> None:
    tags = _Tags()
    tags.feed(text)
    if tags.found:
        raise Finding(f"the page is scripted: {tags.found[:3]} by {case}")
    if SECRET in text:
        raise Finding(f"the page shows what is outside: {case}")


ROUTES = ["files", "run", "training", "progress", "curve", "static", "", "runs.json", "x"]
PIECES = [
    "..", "%2e%2e", ".%2e", "%2e", "..%2f", "..%5c", "%252e%252e", "run", "outside", "secret", "secret.csv",
    "etc", "passwd", "%00", "run.json", ".lock", "link", "config.json", "model.safetensors", "exams", "%ff", "a" * 300,
    "?token=x", "%2f", "//",
]  # fmt: skip
HOSTS = [
    "127.0.0.1",
    "localhost",
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "",
    "[::1]",
    "0.0.0.0",
]


def _requests(trial: Trial) -> tuple[int, list[Finding]]:
    """A bounded number of them, one after the other, to a server on this machine alone."""
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        root, outside = Path(folder) / "runs", Path(folder) / "outside"
        shutil.copytree(_honest(), root / "run")
        outside.mkdir()
        (outside / "secret.csv").write_text(SECRET)
        (outside / "run.json").write_text(json.dumps({"schema": 1, "state": "done", "x": SECRET}))
        os.symlink(outside, root / "link")
        os.symlink(outside / "secret.csv", root / "run" / "secret.csv")
        before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
        with Server(root) as server:
            for number in range(trial.cases):
                draw = random.Random(f"{trial.seed} {number}")
                pieces = [draw.choice(PIECES) for _ in range(draw.randint(0, 5))]
                path = "/" + "/".join([draw.choice(ROUTES), *pieces])
                method = draw.choice(["GET"] * 6 + ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
                name = draw.choice(HOSTS[:2] * 4 + HOSTS)
                said = f"{method} {path} to {name!r}"
                answer = server.ask(path, method, host=f"{name}:{server.port}" if name else "")
                own = name in ("127.0.0.1", "localhost", "[::1]")
                if SECRET.encode() in answer.body or b"root:" in answer.body:
                    findings.append(Finding(f"{said} shows what is outside"))
                elif (
                    (answer.status < 400)
                    if own and method not in ("GET", "HEAD")
                    else (not own and answer.status != 400)
                ):
                    findings.append(Finding(f"{said} was answered with {answer.status}"))
                elif answer.status >= 500 and b"Traceback" in answer.body:
                    findings.append(Finding(f"{said}: {answer.text[:300]}"))
                trial.tell(number + 1)
            if {path: path.lstat().st_mtime_ns for path in root.rglob("*")} != before:
                findings.append(Finding("requests changed files"))
    return trial.cases, findings[:5]


def _listening(trial: Trial) -> tuple[int, list[Finding]]:
    findings = []
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        for options in ([], ["--host", "localhost"], ["--host", "0.0.0.0"], ["--host", "127.0.0.2"]):
            with Server(Path(folder), *options) as server:
                if "0.0.0.0" in options:
                    if server.ask("/").status != 401 or server.token is None:
                        findings.append(Finding("everybody is answered without a token"))
                elif server.token is not None:
                    findings.append(Finding(f"{options}: a token for this machine alone"))
                elif server.port in _open_to_others():
                    findings.append(Finding(f"{options}: others than this machine are listened to"))
    return 4, findings


def _open_to_others() -> set[int]:
    """Ports on which this machine listens to others."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A" and not address.startswith(("0100007F", "0200007F")):
            found.add(int(address.partition(":")[2], 16))
    return found


def _packages(trial: Trial) -> tuple[int, list[Finding]]:
    """With pip-audit, if it is there and reaches its list of holes."""
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    unreachable = "pip-audit does not reach its list of known holes; it needs a network"
    if "No module named" in done.stderr:
        raise CannotTry("pip-audit is not installed here; pip install pip-audit")
    try:
        report: Any = json.loads(done.stdout)
    except ValueError:
        raise CannotTry(unreachable) from None
    looked_up = [package for package in report["dependencies"] if "skip_reason" not in package]
    if not looked_up:
        raise CannotTry(unreachable)
    holes = [(p["name"], p["version"], [v["id"] for v in p["vulns"]]) for p in looked_up if p.get("vulns")]
    return len(looked_up), [Finding(f"{name} {version}: {ids}") for name, version, ids in holes]
