"""Renders self-contained pages from templates, with embedded images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradtd.core.checks import printable


def render(template: str, **values: Any) -> str:
    """Fill in one of gradtd's templates."""
    import jinja2

    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def _shown(value: Any) -> Any:
    """Text without control characters, some of which HTML forbids and UTF-8 cannot encode."""
    return printable(value, lines=True) if type(value) is str else value  # Markup has another type
