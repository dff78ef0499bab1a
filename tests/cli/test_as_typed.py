"""Messages of the command line say what is typed there, not what Python takes."""

from pathlib import Path

import pytest

from vitscope.cli.app import main
from vitscope.cli.as_typed import as_typed
from vitscope.cli.diagnose import Options as Diagnose
from vitscope.cli.operate import Options as Operate
from vitscope.cli.prescribe import Options as Prescribe

COMMANDS = [
    ("operate vit_mini --ensemble", "would be the same; first: --mc-dropout\n"),
    (
        "operate vit_mini --mc-dropout --mc-dropout",
        "do mc_dropout once, with another p=, or choose other layers\n",
    ),
    ("operate resnet_mini --alternate last=50", "try last=4, or extra_block=true\n"),
    ("operate resnet_mini --alternate msa=9,9,9,9", "give at most msa=1,1,1,1\n"),
    ("operate vit_mini --broadcast-context tokens=text", "among the tokens; use tokens=all\n"),
    ("operate vit_mini --smooth", "; where=stage_ends smooths before its head\n"),
    ("operate vit_mini --smooth --output 1", "vitscope: --output 1 is to choose among several outputs, but "),
    ("operate vit_mini --smooth --output 1", "leave --output out\n"),
    (
        "diagnose vit_mini --exams hessian --hessian.batches 100000",
        "the data has 6000; use --hessian.batches 375\n",
    ),
    (
        "diagnose vit_mini --exams hessian --hessian.batches 1 --hessian.max-products 2",
        "vitscope: --hessian.max-products is 2 for 5 eigenvalues",
    ),
    (
        "diagnose vit_mini --exams hessian --hessian.batches 1 --hessian.params nothing",
        "vitscope: --hessian.params nothing matches no parameter",
    ),
    (
        "diagnose vit_mini --exams hessian --hessian.batch-size 8",
        "vitscope: no option --hessian.batch-size; did you mean --hessian.batches?",
    ),
    (
        "diagnose vit_mini --exams cka --batch-size 2",
        "vitscope: --batch-size is 2, 'cka' needs at least 4 images",
    ),
    (
        "diagnose vit_mini --exams prediction --no-pretrained --num-classes 3 --limit 20",
        "give the model --num-classes 10 or more",
    ),
    ("diagnose vit_mini --exams temporal", "give --data frames:PATH, coral-stream or camvid-frames:PATH\n"),
    (
        "diagnose vit_mini --exams variance --hessian.batches 3",
        "vitscope: --hessian.batches is for hessian, which is not among the exams: variance; add it\n",
    ),
    (
        "evaluate vit_mini --exams prediction --corruption.severities 1 2 --corruption.cache false",
        "vitscope: --corruption.severities, --corruption.cache are for corruption, which is not among the exams: ",
    ),
]


@pytest.mark.parametrize(("command", "message"), COMMANDS)
def test_a_refusal_says_what_to_type(
    command: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    assert message in capsys.readouterr().err


def test_a_note_says_what_to_type(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eigenvalues cannot be found with so few products."""
    monkeypatch.chdir(tmp_path)
    few = "--hessian.batches 1 --hessian.k 1 --hessian.max-products 3 --limit 16"
    assert main(f"diagnose vit_mini --exams hessian {few}".split()) == 0
    (note,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert note.endswith(": raise --hessian.max-products, or take them as rough")


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        (
            "say so: output='a' or output=1 (in Python for good: vs.declare)",
            "say so: --output a or --output 1",
        ),
        ("pass mean=0, std=1 if they are plain", "pass --mean 0, --std 1 if they are plain"),
        ("pass the mean= and std= of the images", "pass the --mean and --std of the images"),
        ("mean=(0.5, 0.4)", "--mean 0.5 0.4"),
        ("add --trust-code (in Python: trust_code=True)", "add --trust-code"),
        ("go on with --trust-code (trust_code=True)", "go on with --trust-code"),
        ("use split_batch=True (in Python also a smaller batch_size)", "use --hessian.split-batch"),
        ("use pretrained=False", "use --no-pretrained"),
        ("use split_batch=False", "use --hessian.split-batch=false"),
        (
            "skip_broken=True (diagnose; in a study's file skip_broken: true)",
            "--skip-broken (diagnose; in a study's file skip_broken: true)",
        ),
        ("a line batch_size: 16 in the file", "a line batch_size: 16 in the file"),
        ("raise max_products", "raise --hessian.max-products"),
        ("first: vs.surgery.temporal(model)", "first: vitscope operate MODEL --temporal"),
        ("limit (--limit) is about examining", "limit (--limit) is about examining"),
        ("batch_size (--batch-size) is about examining", "batch_size (--batch-size) is about examining"),
    ],
)
def test_names_become_flags(message: str, typed: str) -> None:
    import vitscope.exams  # noqa: F401 - whose options are known once it is loaded

    assert as_typed(message, "diagnose", Diagnose, "hessian") == typed


@pytest.mark.parametrize(
    "message",
    [
        "--config a.yaml: no option bach_size; did you mean batch_size?",
        "cannot read runs/batch_size=3/hessian.json",
        "'batch_size' is no image",
        "the images and the data of this seed, limit and device",
        "cannot read hessian.json",
        "hessian.json is damaged",
        "config.json names code, which was not run: my_nets:net(num_classes=3, batch_size=2); if you trust it",
        "mine.yaml: a recipe has no 'x'; there are: epochs, batch_size, lr, num_classes",
        "vit_mini takes no argument 'x'; it takes: depth, img_size, num_classes",
    ],
)
def test_what_is_no_name_of_an_option_stays(message: str) -> None:
    assert as_typed(message, "diagnose", Diagnose, "hessian") == message


def test_a_verb_without_options_of_exams_says_who_takes_them() -> None:
    import vitscope.exams  # noqa: F401 - whose options are known once it is loaded

    said = as_typed(
        "3 batches of 8 need 24 images, the data has 17; use batches=2", "prescribe", Prescribe, "hessian"
    )
    assert said.endswith(
        "use --hessian.batches 2 (prescribe takes no options of exams: give it to vitscope diagnose)"
    )


def test_words_of_an_operation_are_typed_as_they_are() -> None:
    message = "use kind='cb' or heads=(3, 6), or example= (in Python only), or img_size=64"
    assert as_typed(message, "operate", Operate) == "use kind=cb or heads=3,6, or example=, or --img-size 64"
