"""Files that take long come first, so that two processes end together. A file is one process's (``--dist loadfile``).

Both would compile the same rules, and start the same clusters, where they shared a file.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = (
    *("tests/algorithms", "tests/compiled", "tests/running", "tests/paper", "tests/cli"),
    *("docs", "tests/evaluation", "tests/core"),
)
"""A rough order: folders whose slowest tests were the slowest where nothing was compiled yet."""


def _place(item):
    path = item.path.relative_to(ROOT)
    return next((k for k, first in enumerate(LONGEST) if path.is_relative_to(first)), len(LONGEST))


def pytest_collection_modifyitems(items):
    items.sort(key=_place)  # within a folder they stay as they are


class WithoutTheExtra(pytest.Directory):
    """The tests of `gradtd.deep`, where JAX or optax is missing."""

    def collect(self):
        pytest.skip("needs JAX and optax: pip install 'gradtd[deep]'")


def pytest_collect_directory(path, parent):
    missing = path == ROOT / "tests" / "deep" and not (find_spec("jax") and find_spec("optax"))
    return WithoutTheExtra.from_parent(parent, path=path) if missing else None
