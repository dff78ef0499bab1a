"""AlterNet's build-up rule as a search ("How Do Vision Transformers Work?", section 4):

1. alternately replace Conv blocks by MSA blocks from the end of the network;
2. if the added MSA does not improve the score, replace a Conv block at the end of an earlier stage instead;
3. more heads in later stages;

until the budget of MSA blocks is used or nothing is left to try. Every candidate is made from the same base model, has
the same weights where no block is replaced, and gets the same training, so that one block is what two of them differ
in. It is kept if mean(b - a) > min_gain over the same images (b: with the block, a: without), or, asked for
`significant`, if the lower end of that difference's 95 % interval is.
"""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.anatomy.structure.dissect import dissect
from vitscope.anatomy.watch.example import example_shapes
from vitscope.core.arguments import Count, Number, Seed, Side, Workers, checked
from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import BadArgument
from vitscope.models.sources.run_folder import copy_model
from vitscope.results import Run
from vitscope.studies.build_up_candidate import candidate_folder, keep_base, run_candidate
from vitscope.studies.build_up_search import BuildUp, Counts, Search
from vitscope.studies.engines import Backend, make_runner
from vitscope.studies.job import Function, Job, find_function
from vitscope.studies.job import address as address_of
from vitscope.surgery.tools.choose import Example, Heads
from vitscope.surgery.tools.operate import read_words
from vitscope.surgery.tools.replaceable import conv_stages

TRAIN_AND_SCORE = "vitscope.training.candidate:train_and_score"  # by name: training builds on surgery
_TYPED = (*"budget min_gain significant heads window extra_block workers backend address measure".split(),)
_GIVEN = ("model", "out", "seed")  # what `measure` is called with


@checked
def build_up(
    model: str | os.PathLike[str] | nn.Module,
    measure: str | Function = TRAIN_AND_SCORE,
    *,
    budget: Count,
    out: str | os.PathLike[str],
    min_gain: Number = 0.0,
    significant: bool = False,
    heads: Sequence[Heads] | None = None,
    window: Side | None = None,
    extra_block: bool = False,
    example: Example = None,
    seed: Seed = 0,
    workers: Workers = 0,
    backend: Backend = "local",
    address: str | None = None,
    progress: bool = True,
    trust_code: bool = False,
    **options: Any,
) -> BuildUp:
    """Search for the MSA blocks that improve a CNN.

        vs.build_up("preresnet_mini", data="fashion", recipe="mini", epochs=2, budget=4, out="runs/build")

    Interrupted and called again it goes on: a candidate that is done is not done again. At the end `out` is a run
    folder with the best model.

    Args:
        model: A name that `create_model` knows, a run folder, or a model that `create_model` made.
        measure: `measure(model, out, seed, **options)` trains a candidate in place and returns one number per held-out
            image, larger is better; a function or its "package.module:name". Default: `train_and_score`, which takes
            `data`, `recipe`, `epochs` ... as `vs.train` does, and holds a part of the training images out.
        budget: MSA blocks at most.
        out: The folder of the search.
        min_gain: A candidate is kept if its mean difference to the kept one is larger.
        significant: Keep only if the lower end of the difference's interval is larger than `min_gain`.
        heads: As for `alternate`.
        window: As for `alternate`.
        extra_block: As for `alternate`; the base model gets it too.
        example: As for `alternate`.
        seed: Of all weights, and for `measure`.
        workers: Processes in which candidates are done at once: the next one, and on speculation those that may come
            after it. 0: this process.
        backend: "local", or "ray" for a cluster.
        address: Of the Ray cluster.
        progress: Tell every decision on stderr.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).
        **options: Goes to `measure`; plain values.

    Returns:
        The table, which is also in `out/build_up.json` and `out/build_up.csv` after every candidate.
    """
    folder = Path(out)
    asked = {
        "model": os.fspath(model) if not isinstance(model, nn.Module) else type(model).__name__,
        "measure": address_of(measure),
        "budget": budget,
        "extra_block": extra_block,
        **options,
    }
    with Run.start(folder, asked, seed):
        base, trusted = keep_base(model, folder, extra_block, example, seed, trust_code)
        surgery = {"heads": heads, "window": window}
        if example is not None:
            surgery["example"] = example_shapes(base, example)  # type: ignore[assignment]

        def job(msa: Counts) -> Job:
            arguments = {"msa": msa, "surgery": surgery, "measure": measure, "options": options, "seed": seed}
            arguments |= {"trust_code": True} if trusted else {}
            return Job(run_candidate, arguments, candidate_folder(folder, msa))

        rule = BuildUp((), budget, min_gain, significant, complete=False)
        stages = conv_stages(dissect(base, example))
        search = Search(stages, rule, job, lambda table: table.save(folder), progress)
        with make_runner(workers, backend, address) as runner:
            found = search.run(runner)
        copy_model(candidate_folder(folder, found.msa), folder)
    return found


def read_build_up(words: Sequence[str], called: str) -> dict[str, Any]:
    """The arguments of `build_up`, and of its `measure`, out of words: "budget=4", "data=fashion", "epochs=2" ...

    Errors call the whole `called`.
    """
    measures = [word.partition("=")[2] for word in words if word.startswith("measure=")]
    measure = inspect.unwrap(find_function(measures[0] if measures else TRAIN_AND_SCORE))
    search = inspect.unwrap(build_up)
    bare = [word for word in words if "=" not in word]
    if bare:
        raise BadArgument(
            f"{called}: '{bare[0]}' has no name; write key=value, as in {called} budget=4 data=fashion"
        )
    own = {key: one for key, one in inspect.signature(search).parameters.items() if key in _TYPED}
    theirs = {
        key: one
        for key, one in inspect.signature(measure).parameters.items()
        if key not in _GIVEN and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    return read_words(words, {**theirs, **own}, {**hints_of(measure), **hints_of(search)}, called)
