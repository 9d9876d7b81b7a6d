"""The package as somebody else gets it: built, installed into an empty environment, and used as README says.

    python tests/packages/installed.py wheel      # the wheel made from the sdist, with the newest of everything
    python tests/packages/installed.py lowest     # the same with the lowest versions that pyproject allows

Both take minutes and download packages. Every ``gradtd`` command of README's shell blocks is run as it stands, every
command's help is asked for, and the examples of README's Python blocks are run. ``--python`` names the interpreter.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lowest_versions() -> list[str]:
    """The dependencies with their lower bounds as the versions wanted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


def readme_commands() -> list[str]:
    """The gradtd commands of README's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("gradtd ") and "reproduce" not in line]


def build(python: str, folder: Path) -> Path:
    """An sdist of this tree, and the wheel that is made from it."""
    code = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
    sdist = _run([python, "-c", code, "build_sdist", str(folder)], ROOT).split()[-1]
    _run(["tar", "xzf", sdist], folder)
    wheel = _run([python, "-c", code, "build_wheel", str(folder)], folder / sdist.removesuffix(".tar.gz")).split()[-1]
    return folder / wheel


def _run(words: list[str], where: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(words, cwd=where, env=clean | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def use(environment: Path, folder: Path) -> None:
    """Run what README shows."""
    there = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    python, gradtd = str(environment / "bin" / "python"), str(environment / "bin" / "gradtd")
    where = _run([python, "-c", "import gradtd; print(gradtd.__file__, gradtd.__version__)"], folder).strip()
    print("installed:", where, flush=True)
    listed = "from gradtd.cli.app import COMMANDS; print(*(name for panel in COMMANDS.values() for name in panel))"
    for name in _run([python, "-c", listed], folder).split():
        _run([gradtd, name, "--help"], folder)
    for command in readme_commands():
        print(command, flush=True)
        _run([gradtd, *command.split()[1:]], folder, **there)
    _run(
        [python, "-W", "ignore", "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", str(ROOT / "README.md")],
        folder,
        **there,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("wheel", "lowest"))
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        wheel = build(sys.executable, folder)
        _run([given.python, "-m", "venv", "clean"], folder)
        pinned = lowest_versions() if given.what == "lowest" else []
        print(*pinned, wheel.name, flush=True)
        install = ["clean/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*install, *pinned, str(wheel)], folder)
        (folder / "work").mkdir()
        use(folder / "clean", folder / "work")
    print(f"{given.what}: everything ran")


if __name__ == "__main__":
    main()
