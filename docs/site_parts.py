"""What the site shows and a Markdown file cannot: the lab, the reproduction, the commands, the rules, the problems.

`conf.py` puts each part in at a comment of its name, such as ``<!-- site: lab -->``.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

NO_REPORT = "*This site was built where `make reproduce` had not been run, so its page is not here.*\n"


def make_extras(folder: Path, root: Path) -> None:
    """Write the lab, and copy the page of a reproduction where `make reproduce` has left one."""
    from gradtd.paper.lab import lab_page

    live = folder / "live"
    live.mkdir(parents=True, exist_ok=True)
    (live / "lab.html").write_text(lab_page(), encoding="utf-8")
    page = root / "reproduction" / "index.html"
    (live / "reproduction.html").unlink(missing_ok=True)
    if page.exists():
        shutil.copy(page, live / "reproduction.html")


def frame(page: str, title: str, up: str) -> str:
    """A page shown inside another, and the way to it."""
    address = f"{up}live/{page}.html"
    return (
        f'<iframe class="embedded" src="{address}" title="{title}" loading="lazy"></iframe>\n'
        f'<p><a href="{address}">{title} on a page of its own</a></p>\n'
    )


def lab(up: str, folder: Path) -> str:
    return frame("lab", "The lab", up)


def reproduction(up: str, folder: Path) -> str:
    there = (folder / "live" / "reproduction.html").exists()
    return frame("reproduction", "The reproduction", up) if there else NO_REPORT


def commands(up: str, folder: Path) -> str:
    """What every command prints with --help."""
    from typer.main import get_command

    from gradtd.cli.app import app

    names = sorted(get_command(app).commands)  # type: ignore[attr-defined]
    return "\n".join(f"## gradtd {name}\n\n```text\n{_help(name)}\n```\n" for name in names)


def _help(name: str) -> str:
    from typer.testing import CliRunner

    from gradtd.cli.app import app

    # Boxes of 80 columns fit the page; colours would be written as codes.
    os.environ |= {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    told = CliRunner().invoke(app, [name, "--help"], prog_name="gradtd").output
    return "\n".join(line.rstrip() for line in told.strip("\n").splitlines())


def algorithms(up: str, folder: Path) -> str:
    """Every rule: the text of its docstring, and its hyper-parameters."""
    import gradtd

    return "\n".join(_algorithm(name, rule) for name, rule in gradtd.ALGORITHMS.items())


def _algorithm(name: str, rule: object) -> str:
    text = inspect.getdoc(rule.update) or ""  # type: ignore[attr-defined]
    return f"## {name}\n\n```text\n{text}\n```\n" + "\n".join(_parameters(rule))


def _parameters(rule: object) -> Iterator[str]:
    found = rule.parameters  # type: ignore[attr-defined]
    if found:
        yield "\n| hyper-parameter | default |\n|---|---|"
        for name, parameter in found.items():
            yield f"| `{name}` | `{getattr(parameter, 'default', parameter)}` |"
        yield ""


def problems(up: str, folder: Path) -> str:
    """Every problem: the text of its docstring."""
    import gradtd

    texts = ((name, inspect.getdoc(make) or "") for name, make in gradtd.PROBLEMS.items())
    return "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, text in texts)


PARTS: dict[str, Callable[[str, Path], str]] = {
    "lab": lab,
    "reproduction": reproduction,
    "commands": commands,
    "algorithms": algorithms,
    "problems": problems,
}
