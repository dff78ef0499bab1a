import io
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from vitscope.data import load_data
from vitscope.exams import diagnose
from vitscope.models import create_model
from vitscope.report.console import notes_on_stderr, print_results
from vitscope.report.subject import find_runs
from vitscope.results import Run


@pytest.fixture(scope="module")
def curvature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two exams that measure an NLL, one of them on augmented images."""
    folder = tmp_path_factory.mktemp("curvature")
    options = {"hessian": {"k": 1, "batches": 2, "tol": 0.5, "params": "fc_norm"}}
    data = load_data("fashion", split="test")
    exams = ["prediction", "hessian"]
    diagnose(
        create_model("vit_mini"), data, exams, limit=16, batch_size=8, out=folder / "vit", options=options
    )
    return folder


def printed(runs: Path, *names: str) -> str:
    console = Console(file=io.StringIO(), width=140)
    print_results({name: Run.open(runs / name).results() for name in names}, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_prints_models_side_by_side_and_units_below(runs: Path) -> None:
    text = printed(runs, "resnet", "vit")
    lines = text.splitlines()
    assert lines[0].split() == ["resnet", "vit", "n"]
    accuracy = next(line for line in lines if line.startswith("accuracy"))
    assert accuracy.count("[") == 2
    assert accuracy.count("%") == 2
    assert any(line.startswith("blocks.0.attn") and "msa" in line for line in lines)
    assert any(line.startswith("layer1.0") and line.count("[") == 2 for line in lines)


def test_arrows_follow_the_intervals(runs: Path) -> None:
    table = Run.open(runs / "vit").results()["fourier"].table()
    change = table[table["quantity"] == "change"].set_index("unit")
    for line in printed(runs, "vit").splitlines():
        unit = line.split()[0] if line.split() else ""
        if unit in change.index:
            row = change.loc[unit]
            assert ("↓" in line) == (row["high"] < 0)
            assert ("↑" in line) == (row["low"] > 0)


def test_a_narrow_console_gets_more_tables_not_broken_cells(runs: Path) -> None:
    console = Console(file=io.StringIO(), width=60)
    print_results({"resnet": Run.open(runs / "resnet").results()}, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    first = [line for line in lines if line.startswith("layer1.0")]
    assert len(first) == 2
    assert all(line.count("[") == 1 and line.count("]") == 1 for line in first)


def test_the_change_of_a_kind_has_a_line(runs: Path) -> None:
    found = Run.open(runs / "vit").results()["fourier"]
    value = found.table().query("kind == 'msa' and unit.isna()")["value"].item()
    (line,) = [
        x for x in printed(runs, "vit").splitlines() if x.startswith("fourier: mean change across MSAs")
    ]
    assert f"{value:.3g} [" in line


def test_numbers_of_two_exams_with_one_name_have_a_row_each(curvature: Path) -> None:
    found = Run.open(curvature / "vit").results()
    lines = printed(curvature, "vit").splitlines()
    for exam, result in found.items():
        value = result.table().query("quantity == 'nll'")["value"].item()
        (line,) = [x for x in lines if x.startswith(f"{exam}: nll ")]
        assert f" {value:.3g} [" in line
    assert not [x for x in lines if x.startswith("nll")]
    assert [x for x in lines if x.startswith("accuracy ")]


def test_every_number_stands_beside_how_many_images_it_is_about(curvature: Path) -> None:
    lines = printed(curvature, "vit").splitlines()
    for name, n in (("accuracy", "16"), ("hessian: nll", "32"), ("prediction: nll", "16"), ("nep", "32")):
        (line,) = [x for x in lines if x.startswith(f"{name} ")]
        assert line.split()[-1] == n
    assert lines[0].split() == ["vit", "n"]
    assert "n: how many images a number is about (throughput: batches)" in lines


def test_models_that_were_shown_other_numbers_of_images_have_one_each(curvature: Path, runs: Path) -> None:
    console = Console(file=io.StringIO(), width=140)
    found = {"few": Run.open(curvature / "vit").results(), "many": Run.open(runs / "vit").results()}
    print_results(found, console)
    assert isinstance(console.file, io.StringIO)
    (line,) = [x for x in console.file.getvalue().splitlines() if x.startswith("accuracy ")]
    assert line.rstrip().endswith(f"16 | {found['many']['prediction'].n}")


def test_units_stand_in_the_order_in_which_they_run(tmp_path: Path) -> None:
    model, data = create_model("vit_mini"), load_data("fashion", split="test")
    found = diagnose(model, data, ["lesion", "fourier"], limit=4, out=tmp_path)
    console = Console(file=io.StringIO(), width=140)
    print_results({"vit": found}, console)  # lesion, which leaves the stem alone, is first
    assert isinstance(console.file, io.StringIO)
    lines = [line.split()[0] for line in console.file.getvalue().splitlines() if line.split()]
    names = [unit for unit in lines if unit == "patch_embed" or unit.startswith("blocks.")]
    assert names[:3] == ["patch_embed", "blocks.0.attn", "blocks.0.mlp"]
    counts = [x.split() for x in console.file.getvalue().splitlines() if x.startswith("n ")]
    assert counts == [["n", "4", "4"]]


def test_numbers_of_one_batch_say_why_they_have_no_interval(tmp_path: Path) -> None:
    model, data = create_model("vit_mini"), load_data("fashion", split="test")
    for batch_size, told in ((8, 1), (4, 0)):
        console = Console(file=io.StringIO(), width=140)
        found = diagnose(model, data, ["cka"], limit=8, batch_size=batch_size, out=tmp_path / str(batch_size))
        print_results({"vit": found}, console)
        assert isinstance(console.file, io.StringIO)
        said = "cka: block_structure, block_contrast without an interval, from 1 batch; it takes 2 or more"
        assert console.file.getvalue().count(said) == told


def test_an_exam_of_augmented_images_says_so(curvature: Path, runs: Path) -> None:
    assert "hessian: on 32 images of fashion (train), augmented by recipe hdv\n" in printed(curvature, "vit")
    assert "augmented" not in printed(runs, "resnet")


def test_so_does_its_section_of_the_page(curvature: Path) -> None:
    (subject,) = find_runs([curvature / "vit"])
    assert (
        subject.measured_on("hessian")
        == " Measured on 32 images of fashion (train), augmented by recipe hdv."
    )
    assert subject.measured_on("prediction") == " Measured on 16 images of fashion (test)."


def test_warnings_become_notes(capsys: pytest.CaptureFixture[str]) -> None:
    before = warnings.showwarning
    with notes_on_stderr():
        warnings.simplefilter("always")
        warnings.warn("be careful", stacklevel=1)
    assert capsys.readouterr().err == "note: be careful\n"
    assert warnings.showwarning is before


def test_what_every_exam_warns_of_is_one_note(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # a command knows nothing of the one before
        with notes_on_stderr(str.capitalize):
            for exam in ("hessian", "landscape"):
                warnings.simplefilter("always")
                warnings.warn("few batches", stacklevel=1)
                warnings.warn(f"{exam} is slow", stacklevel=1)
        notes = capsys.readouterr().err.splitlines()
        assert notes == ["note: Few batches", "note: Hessian is slow", "note: Landscape is slow"]
