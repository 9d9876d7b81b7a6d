"""Examples on these pages are tests, each in a folder of its own."""

from importlib.util import find_spec
from pathlib import Path

import pytest

SLOW = {"tutorial.md", "icu-sepsis.md", "large-logs.md", "krylov.md", "guide.md", "deep.md", "control.md"}
"""Pages that take long: `make test` leaves them out, `make test-all` runs them."""
WITH_COMMANDS = {"click-logs.md", "better-policy.md", "propensities.md", "compare.md", "larger-than-memory.md"}
"""Pages that `tests/test_docs.py` runs with their commands: once is enough in `make test`."""

NEEDS = {
    "icu-sepsis.md": ("icu_sepsis", "--no-deps -r requirements-data.txt"),
    "deep.md": ("optax", "'gradtd[deep]'"),
    "control.md": ("optax", "'gradtd[deep]'"),
}
"""What a page needs that may be missing, and how it is installed."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name in SLOW | WITH_COMMANDS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Pages write files by the names that their commands use."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _beside(request, monkeypatch):
    """Pages that import a module which stands beside them."""
    if request.path.parent.name == "coming-from":
        monkeypatch.syspath_prepend(request.path.parent)


@pytest.fixture(autouse=True)
def _installed(request):
    package, how = NEEDS.get(request.path.name, ("numpy", ""))
    if find_spec(package) is None:
        pytest.skip(f"no {package} here: pip install {how}")
