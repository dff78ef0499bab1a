import subprocess
import sys
from pathlib import Path

import pytest

import vitscope as vs
from tests.data.test_folder import fill
from vitscope.cli.app import main


def test_two_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--exams", "prediction", "--limit", "20", "--out", str(tmp_path / "runs")]
    page = tmp_path / "page.html"
    assert (
        main(["compare", "resnet_mini", "vit_mini", *arguments, "-o", str(page), "--title", "Both <sides>"])
        == 0
    )
    assert f"wrote {page}" in capsys.readouterr().out
    text = page.read_text()
    assert "Both &lt;sides&gt;" in text
    assert "McNemar" in text
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["resnet_mini", "vit_mini"]


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "compare",
                "resnet_mini",
                "no_such_model",
                "--out",
                str(tmp_path),
                "--limit",
                "4",
                "--exams",
                "x",
            ]
        )
        == 2
    )
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys, vitscope.cli.compare; assert 'torch' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_is_not_compared_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in ("compare", "diagnose"):
        assert main([verb, "vit_mini", "vit_mini"]) == 2
        assert capsys.readouterr().err == "vitscope: vit_mini is named twice; name each model once\n"
    assert not any(tmp_path.iterdir())


def test_broken_images_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In both models that are examined, and in one that is examined as a run beside it was."""
    fill(tmp_path / "photos", {"a": 3, "b": 3})
    (tmp_path / "photos" / "a" / "1.png").write_bytes(b"no picture")
    words = ["--data", f"folder:{tmp_path / 'photos'}", "--exams", "variance", "--out", str(tmp_path / "out")]
    assert main(["compare", "vit_mini", "resnet_mini", *words]) == 2
    assert "1.png" in capsys.readouterr().err
    assert main(["compare", "vit_mini", "resnet_mini", *words, "--skip-broken"]) == 0
    assert "a/1.png" in capsys.readouterr().err
    runs = sorted(path.parents[2] for path in (tmp_path / "out").glob("*/exams/variance/result.json"))
    assert [vs.Result.load(run / "exams" / "variance").n for run in runs] == [5, 5]
    beside = ["compare", str(runs[0]), "mixer_mini", "--out", str(tmp_path / "beside"), "--skip-broken"]
    assert main([*beside, "--no-pretrained"]) == 0
