"""``gradtd lab``: write the page, and show it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradtd.core.checks import InputError


def lab(
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("lab.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the lab: one HTML file in which a slider moves the learning curve; no network, no server."""
    from gradtd.paper.lab.page import write_lab

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must be an HTML file, for example lab.html; got {str(out)!r}.")
    page = write_lab(out)
    print(f"page: {page}")
    if show:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            print("no browser was found here: open the page by hand.")
