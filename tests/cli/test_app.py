"""The command line as a user meets it: real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run
from vitscope.cli.app import VERBS, main, read_options
from vitscope.core.errors import VitscopeError

VITSCOPE = [str(Path(sys.executable).with_name("vitscope"))]


def vitscope(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*VITSCOPE, *arguments], capture_output=True, text=True, timeout=900, **more)


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_does_not_import_what_is_slow(verb):
    command = [sys.executable, "-X", "importtime", *VITSCOPE, *([verb] if verb else []), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "usage: vitscope" in done.stdout
    assert "default: )" not in " ".join(done.stdout.replace("│", " ").split())
    assert "(default: None)" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}
    assert imported.isdisjoint({"torch", "timm", "torchvision", "pandas", "matplotlib"})


def test_importing_the_package_does_not_import_torch():
    code = "import sys, vitscope; assert 'torch' not in sys.modules; print(vitscope.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
    assert done.stdout.strip() == "0.9.0", done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "diagnose vit_mini --exams furier",
        "diagnose vit_mini --furier.bins 3",
        "evaluate vit_mini --exams furier",
        "compare vit_mini resnet_mini --exams furier",
        "demo --exams furier",
        "train vit_mini --monitor furier",
    ],
)
def test_a_misspelt_exam_is_refused_before_torch_is_imported(words):
    code = (
        "import sys; from vitscope.cli.app import main; assert main(sys.argv[1:]) == 2; "
        "assert not {'torch', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, timeout=900
    )
    assert (done.returncode, done.stderr) == (0, "vitscope: no exam 'furier'; did you mean fourier?\n")


def test_errors_go_to_stderr_in_one_line_with_a_code():
    done = vitscope("anatomy", "no_such_model")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("vitscope: no model 'no_such_model'")
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("-m", "vitscope.cli.app", "anatomy", "no_such_model", "--debug").stderr
    unknown = vitscope("frobnicate")
    assert (unknown.returncode, "no verb 'frobnicate'; there are: demo" in unknown.stderr) == (2, True)
    near = vitscope("diagnos")
    said = "vitscope: no verb 'diagnos'; did you mean diagnose? (see: vitscope --help)\n"
    assert (near.returncode, near.stderr) == (2, said)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "vitscope 0.9.0\n"


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        f"{VITSCOPE[0]} diagnose --help | true",  # gone before anything is written
        shell=True,
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ,
    )
    assert "Error" not in done.stderr


def test_options_come_from_a_file_and_flags_win(tmp_path):
    from vitscope.cli.diagnose import Options

    config = tmp_path / "options.yaml"
    config.write_text("models: [vit_mini]\nlimit: 100\nexams: [fourier]\n")
    options = read_options(Options, ["--config", str(config), "--limit", "7"], "vitscope diagnose")
    assert (options.models, options.limit, options.exams) == (("vit_mini",), 7, ("fourier",))
    config.write_text("limits: 100\n")
    with pytest.raises(VitscopeError, match="no option limits; did you mean limit"):
        read_options(Options, [f"--config={config}"], "vitscope diagnose")
    missing = tmp_path / "none.yaml"
    with pytest.raises(VitscopeError, match=rf"^cannot read --config {missing}: it does not exist; check"):
        read_options(Options, ["--config", str(missing)], "vitscope diagnose")


@pytest.mark.parametrize(
    ("words", "said"), [("diagnose vit_mini", ": the same command goes on with it"), ("report runs/a", "")]
)
def test_ctrl_c_promises_only_what_is_so(words, said, monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"vitscope.cli.{words.split()[0]}.run", interrupted)
    assert main(words.split()) == 130
    kept = "; what was finished is kept" if said else ""
    assert capsys.readouterr().err == f"\nvitscope: interrupted{kept}{said}\n"
