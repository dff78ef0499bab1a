"""`vitscope diagnose`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.words import epilogue, expand
from vitscope.core.arguments import BatchSize, Classes, Count, Device, Minutes, Number, Positive, Seed, Side

if TYPE_CHECKING:
    from vitscope.results import Result


__all__ = ["Options", "epilogue", "expand", "run"]


@dataclass(frozen=True)
class Options:
    """Examine models on images: one pass over the images for all exams of a model."""

    models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...", help_behavior_hint="")
    ]
    """Names (see: vitscope models) or run folders."""
    data: str = "fashion"
    """Where the images come from (see: vitscope data list)."""
    split: str = "test"
    """Which part of the data."""
    exams: tuple[str, ...] = ()
    """Which exams, for example: fourier variance; default: those that share one pass; all: every one but the slow."""
    options: tuple[str, ...] = ()
    """Options of single exams: hessian.batches=4. Shorter: --hessian.batches 4."""
    limit: Count | None = None
    """Use this many images, the same share of every class; default: all."""
    batch_size: BatchSize = 128
    """Images per forward pass."""
    seed: Seed = 0
    """Decides which images a limit takes, and the bootstrap."""
    device: Device | None = None
    """cpu, cuda, cuda:1 ...; default: a GPU if there is one."""
    out: Path | None = None
    """The run folder, or of several models the folder above theirs; default: runs/diagnose/MODEL."""
    pretrained: bool = True
    """Load the weights that come with a name; a run folder's are always loaded."""
    img_size: Side | None = None
    """Side of the images, if the model should not have its own."""
    num_classes: Classes | None = None
    """Size of the head, if the model should not have its own."""
    stream: Literal["read", "sum"] = "read"
    """Feature maps where an activation follows an addition: read (after it, as the next unit does), or the sum."""
    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided: a name such as logits, or a place from 0."""
    mean: tuple[Number, ...] | None = None
    """What was subtracted from pixels from 0 to 1, per channel, if the model should not say so itself."""
    std: tuple[Positive, ...] | None = None
    """What they were divided by, per channel."""
    trust_code: bool = False
    """Run code that a run folder, a YAML of options or a model of Hugging Face names; no file can switch this on."""
    timeout_minutes: Minutes = 60.0
    """How long the processes of torchrun wait for one that does not answer."""


def run(options: Options) -> None:
    """Examine each model, print what was found, say how to go on."""
    import torch

    from vitscope import create_model
    from vitscope.core import distributed
    from vitscope.core.errors import VitscopeError
    from vitscope.data import load_data
    from vitscope.engine.choosing import read_options, with_options
    from vitscope.exams import diagnose, find_exams
    from vitscope.models.create import check_name, tell_of_random_weights
    from vitscope.report.console import print_results
    from vitscope.results.plain_files import called, run_folders

    if not options.models:
        raise VitscopeError("no model was named; try: vitscope diagnose vit_mini resnet_mini --data fashion")
    chosen = find_exams(options.exams or None)
    own = read_options(options.options)
    with_options(chosen, own)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    folders = run_folders(options.models, options.out, Path("runs/diagnose"))
    for name in folders:
        check_name(name, options.trust_code)
    with distributed.process_group(options.timeout_minutes), notes_as_typed("diagnose", Options):
        data = load_data(options.data, split=options.split)
        sizes: dict[str, Any] = {"img_size": options.img_size, "num_classes": options.num_classes}
        results: dict[str, dict[str, Result]] = {}
        for name, folder in folders.items():
            torch.manual_seed(
                options.seed
            )  # weights that are not loaded are the same each time, in each process
            model = create_model(
                name, None if options.pretrained else False, trust_code=options.trust_code, **sizes
            )
            label = folder.name if Path(name).is_dir() and len(folders) > 1 else called(name)
            results[label] = diagnose(
                model,
                data,
                options.exams or None,
                limit=options.limit,
                batch_size=options.batch_size,
                seed=options.seed,
                device=device,
                out=folder,
                name=label,
                stream=options.stream,
                output=options.output,
                mean=options.mean,
                std=options.std,
                options=own,
            )
            tell_of_random_weights(name, None if options.pretrained else False)
        if distributed.is_main():
            print_results(results)
            kept = " ".join(map(str, folders.values()))
            print(f"kept in {kept}\nmake a page of it: vitscope report {kept} -o report.html")
