"""Pages that need no other file: a template, filled in, with its pictures inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render(template: str, **values: Any) -> str:
    """Fill in one of our templates."""
    import jinja2

    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)
