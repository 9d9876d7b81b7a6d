"""Pages that need no other file: a template, filled in, with its pictures inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradtd.core.files import replace_file


def render(template: str, **values: Any) -> str:
    """Fill in one of our templates."""
    import jinja2

    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def write_text(path: Path, text: str) -> Path:
    """Write a page; whoever opens the file meanwhile sees the old one or the new one."""
    return replace_file(path, lambda part: part.write_text(text, encoding="utf-8"))
