"""What it costs to start: CPU time of setting a command up, against importing what it truly needs.

    report      pandas, matplotlib, jinja2, plotly      at most 1.3 times
    serve       these, starlette and uvicorn            at most 1.3 times
    diagnose    torch, timm                             at most 1.2 times

A page is set up when everything that it is drawn with is there, a diagnosis when its pass can begin
(tests/test_imports.py: until it ends, nothing else is imported that tables and figures are made with).
Every program is started several times, in turns, with bytecode at hand; the least of its times counts.
"""

import os
import resource
import subprocess
import sys
import tempfile

from ratios import measured

ROUNDS = 5
PAGE = "import pandas, matplotlib.figure, jinja2, plotly"
SERVER = f"{PAGE}, starlette.applications, uvicorn"
MODEL = "import torch, timm"
CASES = {
    "report": (
        "import vitscope.cli.app, vitscope.cli.report, vitscope.report, vitscope.report.console\n"
        f"import vitscope.drawing.matplotlib_names\n{PAGE}",
        PAGE,
        1.3,
    ),
    "serve": (
        "import vitscope.cli.app, vitscope.cli.serve, vitscope.serve.server, vitscope.serve.pages\n"
        f"import vitscope.report, vitscope.drawing.matplotlib_names\n{SERVER}",
        SERVER,
        1.3,
    ),
    "diagnose": (
        "import vitscope.cli.app, vitscope.cli.diagnose, vitscope.exams, vitscope.report.console\n"
        "from vitscope import create_model, load_data",
        MODEL,
        1.2,
    ),
}


def cpu_seconds(code: str, cache: str) -> float:
    """User and system time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        **os.environ,
        "PYTHONPYCACHEPREFIX": cache,
        "PYTHONDONTWRITEBYTECODE": "",
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    programs = dict.fromkeys(code for ours, needed, _ in CASES.values() for code in (ours, needed))
    times: dict[str, list[float]] = {code: [] for code in programs}
    with tempfile.TemporaryDirectory() as cache:
        for code in programs:
            cpu_seconds(code, cache)  # writes the bytecode
        for _ in range(ROUNDS):
            for code in programs:
                times[code].append(cpu_seconds(code, cache))
    for verb, (ours, needed, most) in CASES.items():
        mine, theirs = min(times[ours]), min(times[needed])
        verdict = "within" if mine <= most * theirs else "MORE THAN"
        measured(f"setting up {verb}", "importing what it needs", mine / theirs, most)
        print(f"{verb}: {mine:.2f} s against {theirs:.2f} s, {mine / theirs:.2f} times: {verdict} {most}")


if __name__ == "__main__":
    main()
