"""The layout that CONTRIBUTING describes: imports go one way, and importing gradtd stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import gradtd

SOURCE = Path(gradtd.__file__).parent
ROOMS = [
    *("core", "compiled", "estimates", "features", "logs", "problems", "algorithms", "output", "running", "theory"),
    *("evaluation", "paper", "cli"),
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


def test_only_the_engine_imports_numba():
    users = [p.name for p in SOURCE.rglob("*.py") if "import numba" in p.read_text() or "from numba" in p.read_text()]
    assert users == ["engine.py"]


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
    )
    code = f"import sys, gradtd, gradtd.logs; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_everything_public_is_there():
    for name in gradtd.__all__:
        assert getattr(gradtd, name) is not None
    assert set(gradtd.__all__) <= set(dir(gradtd))
