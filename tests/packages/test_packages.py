"""What goes into the package, and the lower bounds of what it needs."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from packages import installed

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_holds_everything_that_is_read_at_run_time(tmp_path):
    """Built without isolation from a copy, in seconds; `make test-wheel` installs it into an empty environment."""
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    code = "from setuptools import build_meta as b; b.build_wheel('.')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("gradtd-*.whl"))) as wheel:
        inside = {name for name in wheel.namelist() if not name.endswith("/")}
    wanted = {
        str(path.relative_to(tmp_path / "src")) for path in (tmp_path / "src" / "gradtd").rglob("*") if path.is_file()
    }
    assert wanted - inside == set()
    assert not [name for name in inside if name.startswith("tests")]


def test_every_requirement_has_a_lower_bound_that_can_be_installed_as_it_stands():
    assert all("==" in requirement for requirement in installed.lowest_versions())


def test_readme_has_commands_to_try():
    assert "gradtd evaluate log.parquet --gamma 1 --plot evaluation.png" in installed.readme_commands()
