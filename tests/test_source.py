"""What the source must not do, read from its syntax: no code out of data, no shell, no guessable names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vitscope"
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_CALLS = {
    "os.system": "a shell",
    "os.popen": "a shell",
    "tempfile.mktemp": "a name that another process can take first",
    "yaml.load": "use yaml.safe_load",
    "yaml.load_all": "use yaml.safe_load_all",
    "yaml.unsafe_load": "runs code",
    "yaml.full_load": "runs code",
    "pd.read_pickle": "runs code",
    "pandas.read_pickle": "runs code",
    "torch.jit.load": "runs code",
    "torch.hub.load": "runs code",
    "xmlrpc.client.loads": "not needed",
}
SHELLS = {
    "subprocess.run",
    "subprocess.Popen",
    "subprocess.call",
    "subprocess.check_output",
    "subprocess.check_call",
}


def problems(text: str) -> Iterator[str]:
    """What a source does that it must not, with the line."""
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] in FORBIDDEN_MODULES:
                    yield f"{line}: imports {name.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            yield f"{line}: imports {node.module}"
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                if _dotted(base) in ("yaml.Loader", "yaml.UnsafeLoader", "yaml.FullLoader"):
                    yield f"{line}: a loader of YAML that makes objects"
        elif isinstance(node, ast.Call):
            yield from (f"{line}: {said}" for said in _call_problems(node))


def _call_problems(call: ast.Call) -> Iterator[str]:
    name = _dotted(call.func)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in FORBIDDEN_NAMES:
        yield f"{name}()"
    if name in FORBIDDEN_CALLS:
        yield f"{name}: {FORBIDDEN_CALLS[name]}"
    if name == "torch.load" and not _is(given.get("weights_only"), True):
        yield "torch.load without weights_only=True"
    if (
        name in ("np.load", "numpy.load")
        and "allow_pickle" in given
        and not _is(given["allow_pickle"], False)
    ):
        yield f"{name} that may read a pickle"
    if name in SHELLS and (not _is(given.get("shell", ast.Constant(False)), False) or _is_text(call.args[0])):
        yield f"{name} through a shell, or with words in one text"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_source_runs_code_out_of_data() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{problem}"
        for path in sorted(SOURCE.rglob("*.py"))
        for problem in problems(path.read_text())
    ]
    assert not found, "\n".join(found)
    assert len(list(SOURCE.rglob("*.py"))) > 300


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.memory",
        "eval(text)",
        "exec(text)",
        "__import__(name)",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.FullLoader)",
        "class L(yaml.Loader): pass",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=allowed)",
        "subprocess.run('ls', check=True)",
        "subprocess.run(words, shell=True)",
        "subprocess.Popen(words, shell=shell)",
        "os.system('ls')",
        "tempfile.mktemp()",
        "pd.read_pickle(path)",
    ],
)
def test_each_of_them_is_seen(text: str) -> None:
    assert list(problems(text))


@pytest.mark.parametrize(
    "text",
    [
        "model.eval()",
        "re.compile(text)",
        "torch.compile(model)",
        "yaml.safe_load(text)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=False)",
        "np.load(path)",
        "subprocess.run(['git', *words], check=True)",
        "class L(yaml.SafeLoader): pass",
        "tempfile.mkstemp()",
    ],
)
def test_others_are_not(text: str) -> None:
    assert not list(problems(text))
