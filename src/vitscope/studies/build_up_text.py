"""A build-up search as it is typed: "build_up budget=4 data=fashion recipe=mini epochs=2"."""

import inspect
from collections.abc import Sequence
from typing import Any

from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import BadArgument
from vitscope.studies.build_up import TRAIN_AND_SCORE, build_up
from vitscope.studies.job import find_function
from vitscope.surgery.tools.operate import read_words

OWN = (*"budget min_gain significant heads window extra_block workers backend address measure".split(),)
GIVEN = ("model", "out", "seed")  # what `measure` is called with


def read_build_up(words: Sequence[str], called: str) -> dict[str, Any]:
    """The arguments of `build_up` out of words, with those of the function that trains and measures.

    Args:
        words: Each "key=value".
        called: How errors call it.
    """
    measures = [word.partition("=")[2] for word in words if word.startswith("measure=")]
    measure = inspect.unwrap(find_function(measures[0] if measures else TRAIN_AND_SCORE))
    search = inspect.unwrap(build_up)
    bare = [word for word in words if "=" not in word]
    if bare:
        raise BadArgument(
            f"{called}: '{bare[0]}' has no name; write key=value, as in {called} budget=4 data=fashion"
        )
    own = {key: one for key, one in inspect.signature(search).parameters.items() if key in OWN}
    theirs = {
        key: one
        for key, one in inspect.signature(measure).parameters.items()
        if key not in GIVEN and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    return read_words(words, {**theirs, **own}, {**hints_of(measure), **hints_of(search)}, called)
