"""The layout that CONTRIBUTING describes: imports go one way, and importing gradtd stays light."""

import ast
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path

import gradtd

SOURCE = Path(gradtd.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
ROOMS = [
    *("core", "compiled", "estimates", "features", "logs", "problems", "algorithms", "output", "running", "theory"),
    *("deep", "evaluation", "improvement", "paper", "cli"),
]
"""A room imports only those before it."""


def _imported(path):
    """Parts of gradtd that a file imports, those for type checking only left out."""
    tree = ast.parse(path.read_text())
    hidden = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    skipped = {id(n) for block in hidden for n in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "gradtd":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gradtd."):
            yield node.module.split(".")[1]


def test_every_file_imports_only_what_stands_above_it():
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert found - {"__init__", "__main__"} == set(ROOMS)
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part in ROOMS:
            for other in _imported(path):
                assert ROOMS.index(other) <= ROOMS.index(part), f"{path.name} imports {other}"


def test_the_rooms_are_those_of_the_docs():
    root = Path(__file__).parents[1]
    listed = (root / "CONTRIBUTING.md").read_text().partition("    core, ")[2].partition("\n\n")[0]
    assert ["core", *listed.replace(",", " ").split()] == ROOMS
    table = (root / "docs/architecture.md").read_text().partition("| room |")[2].partition("\n\n")[0]
    assert [line.split("`")[1].removesuffix(".py") for line in table.splitlines()[2:]] == ROOMS


SAME_ROOT = {("estimate", "estimates"), ("table", "tables")}
"""Pairs that are still to be named apart."""


def _root(stem):
    endings = ("ing", "ed", "es", "s", "e")
    return next((stem.removesuffix(end) for end in endings if stem.endswith(end) and len(stem) > len(end) + 3), stem)


def test_no_two_modules_differ_by_an_inflection():
    stems = sorted({path.stem for path in SOURCE.rglob("*.py")})
    found = {pair for pair in itertools.combinations(stems, 2) if _root(pair[0]) == _root(pair[1])}
    assert found == SAME_ROOT


def test_files_are_replaced_and_kept_arrays_written_in_one_place():
    """`core/files.py`: elsewhere a kill could leave half a file."""
    for call in ("os.replace(", "np.savez("):
        assert {p.name for p in SOURCE.rglob("*.py") if call in p.read_text()} <= {"files.py", "stream_folder.py"}


def test_only_the_engine_imports_numba():
    users = [p.name for p in SOURCE.rglob("*.py") if "import numba" in p.read_text() or "from numba" in p.read_text()]
    assert sorted(users) == ["cache.py", "engine.py", "intrinsics.py"]


MADE_IN = {
    "Diagnostics": {"diagnostics.py"},
    "Evaluation": {"result.py"},
    "Decision": {"decide.py"},
    "Limits": {"limits.py"},
    "StreamView": {"stream.py", "window.py"},
    "compile_run": {"session.py"},
}
"""Records and functions that the docs say are made or called in one place; a stream's view by those who hold steps."""


def test_what_has_one_place_is_made_there():
    found = {name: set() for name in MADE_IN}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in found:
                found[node.func.id].add(path.name)
    assert found == MADE_IN


def test_importing_gradtd_is_light():
    heavy = (
        "numba",
        "matplotlib",
        "typer",
        "scipy",
        "rich",
        "pyarrow",
        "pandas",
        "polars",
        "gymnasium",
        "minari",
        "sklearn",
        "jax",
        "optax",
    )
    code = f"import sys, gradtd, gradtd.logs; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_everything_public_is_there():
    for name in gradtd.__all__:
        assert getattr(gradtd, name) is not None
    assert set(gradtd.__all__) <= set(dir(gradtd))


def test_the_folder_list_tells_the_story():
    entries = {path.name for path in SOURCE.iterdir()} - {"__init__.py", "__init__.pyi", "__main__.py", "__pycache__"}
    assert len(entries - {"py.typed"}) <= 15


def test_no_file_holds_the_marks_of_a_merge():
    rooms = ("src", "tests", "docs", "benchmarks")
    texts = [*ROOT.glob("*.md"), *(path for room in rooms for path in (ROOT / room).rglob("*"))]
    marked = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    kinds = {".md", ".py", ".txt", ".html", ".json", ".pyi", ".css", ".js"}
    assert not [p for p in texts if p.suffix in kinds and marked.search(p.read_text(encoding="utf-8"))]


def test_no_file_is_long():
    long = {path.name: n for path in SOURCE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}


def _functions(tree, inside=""):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, inside
        yield from _functions(node, node.name if isinstance(node, ast.ClassDef) else inside)


def test_no_function_takes_more_than_eight_parameters():
    """All parameters count but self and cls, * and **. Two exceptions.

    Keyword-only parameters of a public function (no underscore in front) do not count: a call names them. The functions
    that Typer calls with the options of a command, whose every parameter is Annotated, do not count at all.
    """
    found = set()
    for path in SOURCE.rglob("*.py"):
        for function, _ in _functions(ast.parse(path.read_text())):
            taken = function.args
            named = [*taken.posonlyargs, *taken.args]
            if named and named[0].arg in ("self", "cls"):
                named = named[1:]
            if path.parent.name == "cli" and named and all("Annotated" in ast.dump(one) for one in named):
                continue
            hidden = function.name.startswith("_") and function.name != "__init__"
            if len(named) + hidden * len(taken.kwonlyargs) > 8:
                found.add(function.name)
    assert found == set()


NO_PARAMETERS = {
    "ALGORITHMS",
    "METRICS",
    "PROBLEMS",
    "InputError",
    "Features",
    "estimates",
    "features",
    "logs",
    "theory",
}
"""Dictionaries, modules, and two classes that nobody makes with arguments of their own."""
UNDOCUMENTED: set[str] = set()
"""Names whose docstrings still describe their parameters in running text."""


def _missing(thing):
    """What a public function or class lacks: a Parameters section with every parameter, or a return annotation."""
    section = (inspect.getdoc(thing) or "").partition("Parameters\n----------\n")[2]
    heads = [line for line in section.splitlines() if line and not line.startswith(" ")]
    told = {name.strip("* ") for line in heads for name in line.partition(" : ")[0].split(",")}
    yield from (f"parameter {name}" for name in inspect.signature(thing).parameters if name not in told)
    if not isinstance(thing, type) and inspect.signature(thing).return_annotation is inspect.Signature.empty:
        yield "return annotation"


def test_every_public_name_says_what_it_takes_and_returns():
    lacking = {}
    for name in set(gradtd.__all__) - NO_PARAMETERS:
        if missing := list(_missing(getattr(gradtd, name))):
            lacking[name] = missing
    assert set(lacking) <= UNDOCUMENTED, lacking


def test_every_problem_and_feature_map_says_what_it_takes():
    things = [*gradtd.PROBLEMS.values(), *gradtd.features.FEATURES.values()]
    assert {thing.__name__: missing for thing in things if (missing := list(_missing(thing)))} == {}
