"""Links in a run folder, which may come from a stranger: nothing is written through one that leads out of it.

A link to a file is harmless: writing replaces the link (see `atomic`). A folder behind a link would be written into.
"""

import os
from pathlib import Path

from vitscope.core.errors import BadResult

LOCK = ".lock"


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder in which writing would leave it."""
    inside = folder.resolve()
    for here, folders, files in os.walk(folder):
        for path in (Path(here, name) for name in (*folders, *files) if os.path.islink(Path(here, name))):
            target = Path(os.path.realpath(path))
            out = target != inside and inside not in target.parents
            if out and (path.name == LOCK or not target.is_file()):
                raise BadResult(
                    f"{path} is a link that leads out of the run folder, to {target}; nothing is written through it: "
                    "remove it, or give another folder"
                )
