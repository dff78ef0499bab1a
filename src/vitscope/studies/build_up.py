"""AlterNet's build-up rule as a search ("How Do Vision Transformers Work?", section 4):

1. alternately replace Conv blocks by MSA blocks from the end of the network;
2. if the added MSA does not improve the score, replace a Conv block at the end of an earlier stage instead;
3. more heads in later stages;

until the budget of MSA blocks is used or nothing is left to try. Every candidate is made from the same base model, has
the same weights where no block is replaced, and gets the same training, so that one block is what two of them differ
in. It is kept if mean(b - a) > min_gain over the same images (b: with the block, a: without), or, asked for
`significant`, if the lower end of that difference's 95 % interval is.
"""

import copy
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.anatomy.structure.dissect import dissect
from vitscope.anatomy.watch.example import example_shapes
from vitscope.core.arguments import Count, Number, Seed, Side, Workers, checked
from vitscope.core.errors import BadResult
from vitscope.core.tensors import seeded
from vitscope.models import Origin, create_model, origin, read_config, save_model
from vitscope.models.sources.run_folder import copy_model
from vitscope.models.trust import names_code
from vitscope.results import Run
from vitscope.studies.build_up_candidate import BASE, candidate_folder, run_candidate
from vitscope.studies.build_up_search import Counts, Search
from vitscope.studies.build_up_table import BuildUp
from vitscope.studies.job import Function, Job
from vitscope.studies.job import address as address_of
from vitscope.studies.run import Backend, make_runner
from vitscope.surgery.alternate import alternate
from vitscope.surgery.tools.choose import Example, Heads
from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.replaceable import conv_stages

TRAIN_AND_SCORE = "vitscope.training.candidate:train_and_score"  # by name: training builds on surgery


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
        base, trusted = _base(model, folder, extra_block, example, seed, trust_code)
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


def _base(
    model: str | os.PathLike[str] | nn.Module,
    folder: Path,
    extra_block: bool,
    example: Any,
    seed: int,
    trust_code: bool,
) -> tuple[nn.Module, bool]:
    """The model that all candidates are made from, kept in the folder, and whether code that it names is the user's."""
    if isinstance(model, nn.Module) and origin(model) is None:
        raise CannotOperate(
            f"a candidate is built by name, but this {type(model).__name__} was built in Python; "
            "give vs.create_model('package.module:factory')"
        )
    with seeded(seed):
        base = (
            copy.deepcopy(model)
            if isinstance(model, nn.Module)
            else create_model(model, trust_code=trust_code)
        )
        stages = conv_stages(dissect(base, example))
        if not any(stage.replaceable for stage in stages):
            raise CannotOperate(
                f"{type(base).__name__} has no conv blocks that an MSA block could take the place of "
                "(vitscope anatomy shows what it has)"
            )
        if extra_block:
            alternate(base, msa=[0] * len(stages), extra_block=True, example=example)
    made = origin(base)
    assert made is not None
    kept = folder / BASE
    if not (kept / "model.safetensors").exists():  # which is written last
        save_model(base, kept)
    trusted = trust_code or (names_code(made.name) and _describes(read_config(kept), made))
    state, before = base.state_dict(), create_model(kept, trust_code=trusted).state_dict()
    if state.keys() != before.keys() or not all(torch.equal(state[k].cpu(), before[k].cpu()) for k in state):
        raise BadResult(
            f"{folder} holds a search that began with another model, or other weights; give the same, or another out"
        )
    return base, trusted


def _describes(config: dict[str, Any], made: Origin) -> bool:
    """Whether a folder names the very call that the user's model was made by."""
    told = config["model"]
    arguments = json.loads(json.dumps(dict(made.arguments)))
    return (told.get("name"), told.get("arguments")) == (made.name, arguments)
