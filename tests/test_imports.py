import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import Import, by_package, cycle, graph, imports_of, modules, package_of, steps

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
FRONT_DOOR = ""  # vitscope/__init__.py: hands out names of all packages on first use


def storeys() -> list[set[str]]:
    """The line of CONTRIBUTING.md: packages from top to bottom."""
    text = CONTRIBUTING.read_text()
    block = text[text.index("Imports point one way") :].split("\n\n")[1]
    return [set(re.findall(r"\w+", storey)) for storey in " ".join(block.split()).split("->")]


def test_imports_point_one_way():
    place = {package: number for number, packages in enumerate(storeys()) for package in packages}
    assert set(place) == {package_of(module) for module in modules()} - {FRONT_DOOR}
    wrong = [
        str(one)
        for package, used in by_package(graph()).items()
        for imported, found in used.items()
        for one in found
        if package != FRONT_DOOR
        and ((imported == FRONT_DOOR and package != "cli") or place.get(imported, 99) < place[package])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_package_leads_back_to_itself():
    found = graph()
    edges = {
        package: {name for name in used if name != FRONT_DOOR}
        for package, used in by_package(found).items()
        if package != FRONT_DOOR
    }
    way = cycle(edges)
    assert not way, steps(way, found, package_of)


def test_no_module_leads_back_to_itself():
    found = graph()
    edges: dict[str, set[str]] = {}
    for one in found:
        if package_of(one.module) != FRONT_DOOR:
            edges.setdefault(one.module, set()).add(one.imported)
    edges.pop("vitscope", None)
    way = cycle(edges)
    assert not way, steps(way, found)


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import vitscope.a", "vitscope.a"),
        ("from vitscope.a import something", "vitscope.a"),
        ("from vitscope import a", "vitscope.a"),
        ("def f():\n    from vitscope.a.b import c", "vitscope.a.b"),
        ("WHERE = 'vitscope.a.b:function'", "vitscope.a.b"),
        ("WHERE = 'vitscope.a.b:Class.method'", "vitscope.a.b"),
        ("WHERE = 'vitscope:name'", "vitscope"),
        ("WHERE = f'vitscope.a.{name}'", "vitscope.a"),
        ("WHERE = f'vitscope.a.b:{name}'", "vitscope.a.b"),
        ("WHERE = f'vitscope.{name}'", "vitscope"),
        ("WHERE = 'vitscope.a.' + name", "vitscope.a"),
        ("WHERE = 'vitscope' + '.a.b'", "vitscope.a.b"),
        ("WHERE = 'vitscope.' + name + '.b'", "vitscope"),
        ("WHERE = 'vitscope.a.{}'.format(name)", "vitscope.a"),
        ("from . import a", "vitscope.a"),
        ("from .a import something", "vitscope.a"),
        ("import_module('.a.b', 'vitscope')", "vitscope.a.b"),
        ("importlib.import_module('.b', package='vitscope.a')", "vitscope.a.b"),
        ("import_module(f'.a.{name}', __package__)", "vitscope.a"),
        ("import_module('.b', package)", "vitscope"),
        ("import os", None),
        ("from os import path", None),
        ("import_module('os')", None),
        ("OURS = name.startswith('vitscope.')", None),
        ("TEXT = f'vitscope: {error}'", None),
        ("TEXT = 'see vitscope.a for more'", None),
        ("if TYPE_CHECKING:\n    from vitscope.a import b", None),
    ],
)
def test_imports_are_found_wherever_they_stand(text, imported):
    known = frozenset({"vitscope", "vitscope.a", "vitscope.a.b", "vitscope.me"})
    found = imports_of("vitscope.me", text, known)
    assert [one.imported for one in found] == ([imported] if imported else [])


@pytest.mark.parametrize(
    ("module", "text", "imported"),
    [
        ("vitscope.a.b", "from .. import c", "vitscope.c"),
        ("vitscope.a.b", "from ..c import d", "vitscope.c.d"),
        ("vitscope.a.b", "from . import something", "vitscope.a"),
        ("vitscope.a", "from . import b", "vitscope.a.b"),  # a package's first dot is itself
        ("vitscope.a", "from ..c import d", "vitscope.c.d"),
        ("vitscope.c.d", "import_module('..a.b', __package__)", "vitscope.a.b"),
        ("vitscope.a.b", "WHERE = f'vitscope.a.{name}'", None),  # its own package
        ("vitscope.a.b", "WHERE = 'vitscope.a.' + name", None),
    ],
)
def test_relative_imports_are_resolved(module, text, imported):
    known = frozenset({"vitscope", "vitscope.a", "vitscope.a.b", "vitscope.c", "vitscope.c.d"})
    found = imports_of(module, text, known)
    assert [one.imported for one in found] == ([imported] if imported else [])


def test_a_cycle_names_the_lines_that_make_it():
    first = next(
        one for one in graph() if package_of(one.module) == "engine" and package_of(one.imported) == "core"
    )
    assert steps(["engine", "core"], [first], package_of) == (
        f"{modules()[first.module]}:{first.line} imports {first.imported}"
    )


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []
    assert str(Import("vitscope.a", 3, "vitscope.b")) == "vitscope.a, line 3, imports vitscope.b"


def test_pages_need_no_torch():
    packages = ", ".join(f"vitscope.{name}" for name in ("report", "serve", "findings", "plots", "claims"))
    heavy = ("torch", "timm", "torchvision", "transformers")
    code = f"import sys, {packages}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


DIAGNOSE = """
import sys
from vitscope.cli.app import main
from torch.nn.modules.module import register_module_forward_hook
seen = []
register_module_forward_hook(lambda *_: seen.append({"pandas", "matplotlib", "plotly", "scipy"} & set(sys.modules)))
assert main([*"diagnose vit_mini --limit 8 --exams fourier variance --device cpu --out".split(), sys.argv[1]]) == 0
assert seen and {"pandas", "matplotlib"} <= set(sys.modules)
print("loaded:", set().union(*seen))
"""


def test_tables_and_figures_are_not_waited_for(tmp_path):
    done = subprocess.run([sys.executable, "-c", DIAGNOSE, tmp_path], capture_output=True, text=True)
    assert "loaded: set()" in done.stdout, done.stdout + done.stderr


def test_pandas_and_matplotlib_come_on_first_use():
    own = "vitscope.drawing.matplotlib_names"
    at_once = re.compile(r"^(?:import|from) (?:pandas|matplotlib)\b", re.MULTILINE)
    found = [name for name, path in modules().items() if name != own and at_once.search(path.read_text())]
    assert not found, f"take them from vitscope.core.pd and vitscope.drawing.mpl: {found}"
