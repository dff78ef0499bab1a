"""`vitscope diagnose`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import ExamOptions
from vitscope.cli.tell import tell
from vitscope.cli.words import epilogue, expand

if TYPE_CHECKING:
    from vitscope.results import Result


__all__ = ["Options", "epilogue", "expand", "run"]


@dataclass(frozen=True, kw_only=True)
class Options(ExamOptions):
    """Examine models on images: one pass over the images for all exams of a model."""

    models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...", help_behavior_hint="")
    ]
    """Names (see: vitscope models), functions that make them (package.module:factory), or run folders."""
    exams: tuple[str, ...] = ()
    """Which exams, for example: fourier variance; default: those that share one pass; all: every one but the slow."""
    out: Path | None = None
    """The run folder, or of several models the folder above theirs; default: runs/diagnose/DATA/MODEL."""
    stream: Literal["read", "sum"] = "read"
    """Feature maps where an activation follows an addition: read (after it, as the next unit does), or the sum."""


def run(options: Options) -> None:
    """Examine each model, print what was found, say how to go on."""
    import torch

    from vitscope import create_model
    from vitscope.core import distributed
    from vitscope.core.errors import VitscopeError
    from vitscope.data import load_data
    from vitscope.data.refuse_among_images import refuse_among_images
    from vitscope.engine.choose_exams import read_options, with_options
    from vitscope.exams import diagnose, find_exams
    from vitscope.models.create import check_name, tell_of_random_weights
    from vitscope.report.console import print_results
    from vitscope.results.plain_files import default_folder, display_name, refuse_same, run_folders

    if not options.models:
        raise VitscopeError("no model was named; try: vitscope diagnose vit_mini resnet_mini --data fashion")
    refuse_same(options.models)
    chosen = find_exams(options.exams or None)
    own = read_options(options.options)
    with_options(chosen, own)
    folders = run_folders(
        options.models, options.out, default_folder("diagnose", options.data, options.split)
    )
    for name, folder in folders.items():
        refuse_among_images(folder, options.data)
        check_name(name, options.trust_code)
    with distributed.process_group(options.timeout_minutes), notes_as_typed("diagnose", Options):
        data = load_data(options.data, split=options.split, skip_broken=options.skip_broken)
        results: dict[str, dict[str, Result]] = {}
        for name, folder in folders.items():
            torch.manual_seed(options.seed)  # weights that are not loaded are the same in each process
            model = create_model(name, **options.of_models())
            label = folder.name if Path(name).is_dir() and len(folders) > 1 else display_name(name)
            results[label] = diagnose(
                model,
                data,
                options.exams or None,
                out=folder,
                name=label,
                stream=options.stream,
                options=own,
                **options.of_images(),
            )
            tell_of_random_weights(name, None if options.pretrained else False)
        if distributed.is_main():
            print_results(results)
            kept = " ".join(map(str, folders.values()))
            tell(f"kept in {kept}", f"make a page of it: vitscope report {kept} -o report.html")
