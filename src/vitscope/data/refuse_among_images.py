"""No run is written where its figures would be taken for images."""

import os
from pathlib import Path
from typing import Any

from vitscope.core.errors import BadArgument
from vitscope.data.folder import looked_into

_WALKED = ("folder", "frames")  # whose images are whatever pictures lie below


def refuse_among_images(out: str | os.PathLike[str], *data: Any) -> None:
    """Refuse to write into folders whose pictures are the data; `data` is what `load_data` takes or gives.

    Beside the folders of splits a run does no harm.
    """
    place = Path(os.path.realpath(out))
    for one in data:
        spec = one if isinstance(one, str) else str(getattr(one, "spec", ""))
        kind, _, path = spec.partition(":")
        root = Path(os.path.realpath(os.path.expanduser(path)))
        folders = looked_into(root) if kind in _WALKED and path else []
        if {place, *place.parents} & {Path(os.path.realpath(folder)) for folder in folders}:
            raise BadArgument(
                f"{out} lies in {spec}, where figures would be taken for images; give a folder elsewhere, such as "
                f"--out {root.parent / 'runs' / root.name} (and move there what is in this one, if anything is)"
            )
