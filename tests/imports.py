"""Who imports whom in vitscope, read from the source: imports on top, inside functions, and modules named in strings.

`python -m tests.imports` prints the packages and what each of them imports.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import resolve_name
from itertools import pairwise, takewhile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
# "vitscope.a.b", "vitscope.a:function", "vitscope:name", and what such a name begins with: "vitscope.a.", "vitscope.{}"
_NAMED = re.compile(r"(vitscope(?=[.:])[\w.]*)(?:[:{%]\S*)?")


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
    inside = f"{module}." if any(name.startswith(f"{module}.") for name in known) else module
    here = inside.rpartition(".")[0]  # what a first dot stands for
    found, read = [], set(unread)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            place = "." * node.level + (node.module or "")
            origin = resolve_name(place, here) if node.level else place
            names = [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            package = [*node.args[1:], *(word.value for word in node.keywords)]
            names = _relative(_beginning(node.args[0]), package, here)
            read |= {id(said) for said in package}
        elif id(node) not in read and (named := _NAMED.fullmatch(_beginning(node))):
            read |= {id(part) for part in ast.walk(node)}  # their parts begin nothing of their own
            name = named[1].rstrip(".")
            own = name != "vitscope" and module.startswith(
                f"{name}."
            )  # its own package: templates, `python -m`
            names = [] if own or _is_ours_in_general(node) else [name]
        for name in names if id(node) not in unread else ():
            imported = _longest(name, known)
            if imported and imported != module:
                found.append(Import(module, getattr(node, "lineno", 0), imported))
    return found


def _is_ours_in_general(node: ast.AST) -> bool:
    """As in `name.startswith("vitscope.")`."""
    return isinstance(node, ast.Constant) and node.value == "vitscope."


def _beginning(node: ast.AST) -> str:
    """What a string begins with, as far as the source says it: of "a" + b and of f"a{b}" it is "a"."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_beginning, takewhile(lambda part: isinstance(part, ast.Constant), node.values)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _beginning(node.left)
        return left + _beginning(node.right) if isinstance(node.left, ast.Constant) else left
    return ""


def _relative(name: str, package: list[ast.expr], here: str) -> list[str]:
    """Where `import_module(".name", package)` leads; in a package that the source does not tell, to all of vitscope."""
    if not name.startswith("."):
        return []
    own = any(ast.unparse(said) in ("__package__", "__name__") for said in package)
    told = here if own else "".join(map(_beginning, package))
    return [resolve_name(name, told) if told else "vitscope"]


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


def steps(way: list[str], found: list[Import], by: Callable[[str], str] = str) -> str:
    """A line for every step of a cycle: the file and the line that take it, where modules go `by` these names."""
    files = modules()
    lines = []
    for name, following in pairwise(way):
        taken = next(one for one in found if (by(one.module), by(one.imported)) == (name, following))
        lines.append(f"{files[taken.module]}:{taken.line} imports {taken.imported}")
    return "\n".join(lines)


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
