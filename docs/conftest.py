"""Examples on these pages are tests, each in a folder of its own. One of them needs data that come as a package."""

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Pages write files by the names that their commands use."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _data(request):
    if request.path.name == "icu-sepsis.md" and find_spec("icu_sepsis") is None:
        pytest.skip("no icu-sepsis here: pip install --no-deps -r requirements-data.txt")
