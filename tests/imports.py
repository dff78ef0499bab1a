"""Who imports whom in vitscope, read from the source: imports on top, inside functions, and modules named in strings.

`python -m tests.imports` prints the packages and what each of them imports.
"""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
_NAMED = re.compile(r"vitscope(\.\w+)+(:\w+)?")


@dataclass(frozen=True)
class Import:
    """One module uses another."""

    module: str
    line: int
    imported: str

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}, imports {self.imported}"


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Files by the names they are imported by."""
    found = {}
    for path in sorted((source / "vitscope").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(module: str, text: str, known: frozenset[str]) -> list[Import]:
    """What a module uses of ours; what only type checkers read does not count."""
    tree = ast.parse(text)
    unread = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED.fullmatch(node.value):
            name = node.value.partition(":")[0]
            names = [] if module.startswith(f"{name}.") else [name]  # its own package: templates, `python -m`
        for name in names if id(node) not in unread else ():
            imported = _longest(name, known)
            if imported and imported != module:
                found.append(Import(module, getattr(node, "lineno", 0), imported))
    return found


def graph(source: Path = SOURCE) -> list[Import]:
    """Every use of one of our modules by another."""
    files = modules(source)
    known = frozenset(files)
    return [found for name, path in files.items() for found in imports_of(name, path.read_text(), known)]


def package_of(module: str) -> str:
    """The folder in vitscope/ that a module lies in; "" for vitscope itself, which hands out what the others have."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Some names that lead back to the first of them; empty if there are none."""
    done: set[str] = set()
    for start in edges:
        way, open_ends = [], [(start, iter(sorted(edges[start])))]
        way.append(start)
        while open_ends:
            name, ends = open_ends[-1]
            if name in done:
                open_ends.pop(), way.pop()
                continue
            following = next(ends, None)
            if following is None:
                done.add(name)
                open_ends.pop(), way.pop()
            elif following in way:
                return [*way[way.index(following) :], following]
            elif following not in done:
                way.append(following)
                open_ends.append((following, iter(sorted(edges.get(following, ())))))
    return []


def by_package(found: list[Import]) -> dict[str, dict[str, list[Import]]]:
    """Uses between packages."""
    edges: dict[str, dict[str, list[Import]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        package, imported = package_of(one.module), package_of(one.imported)
        if package != imported:
            edges[package][imported].append(one)
    return edges


def _longest(name: str, known: frozenset[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


if __name__ == "__main__":
    for package, used in sorted(by_package(graph()).items()):
        counts = ", ".join(f"{name or 'vitscope'} {len(found)}" for name, found in sorted(used.items()))
        print(f"{package or 'vitscope'}: {counts}")
