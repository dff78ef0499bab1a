import subprocess
import sys
from pathlib import Path

from tests.processes import Done, run


def vitscope(*arguments: str, **environment: str) -> Done:
    return run("-m", "vitscope.cli.app", "data", *arguments, environment=environment)


def test_list_tells_what_there_is(tmp_path: Path) -> None:
    done = vitscope("list", VITSCOPE_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert rows["fashion"].split()[1:] == [
        "classification",
        "10",
        "6,000",
        "2,000",
        "in",
        "the",
        "package",
        "MIT",
    ]
    assert rows["cifar100"].split()[1:] == [
        "classification",
        "100",
        "50,000",
        "10,000",
        "not",
        "prepared",
        "none",
        "stated",
    ]
    assert str(tmp_path) in done.stdout


def test_prepare_reports_failure_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    done = vitscope(
        "prepare", "cifar10", "--source", str(tmp_path / "files"), VITSCOPE_DATA=str(tmp_path / "cache")
    )
    assert done.returncode == 2
    assert done.stderr.startswith("vitscope: no data_batch_1.bin or data_batch_1 or data_batch_1.png below")
    assert len(done.stderr.strip().splitlines()) == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_is_missing_or_too_much_is_said() -> None:
    nothing = vitscope("prepare")
    assert nothing.returncode == 2
    assert "vitscope data prepare NAME, with a NAME of fashion-full, cifar10, cifar100" in nothing.stderr
    surplus = vitscope("list", "cifar10")
    assert surplus.returncode == 2
    assert "did you mean: vitscope data prepare NAME?" in surplus.stderr


def test_help_is_there_without_torch() -> None:
    code = "import sys\nfrom vitscope.cli.app import main\n"
    code += "try:\n    main(['data', '--help'])\n"
    code += "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "--source" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 False"
