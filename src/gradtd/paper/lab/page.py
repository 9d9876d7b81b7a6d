"""The page: a template, the styles, the scripts and the tables, put together into one file that needs no other."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gradtd.paper.lab.figures import PROBLEMS, defaults, figures
from gradtd.paper.lab.tables import problem_tables

ASSETS = Path(__file__).parent / "assets"
KERNEL = ("random", "stream", "traces", "indices", "buffers", "estimates", "rules", "loop")
THEORY = ("dense", "tracelaw", "theory", "summary")
WORKER = ("settings", *KERNEL, *THEORY, "worker")
PAGE = ("settings", "outside", "chart", "story", "curves", "pictures", "app")
"""The modules of the Web Worker and of the page, each after those it imports."""

_IMPORT = re.compile(r"^import\s[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def lab_page() -> str:
    """The lab as the text of one HTML file: no other file and no network is needed to open it."""
    template = (ASSETS / "lab.html").read_text()
    parts = {
        "STYLE": (ASSETS / "lab.css").read_text(),
        "DATA": json.dumps(page_data(), separators=(",", ":")),
        "WORKER": bundle(WORKER),
        "PAGE": bundle(PAGE),
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: _inline(parts[found[1]]), template)


def write_lab(path: Path | str) -> Path:
    """Write the lab to a file and say where it is.

    Parameters
    ----------
    path
        The HTML file; folders on the way are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lab_page(), encoding="utf-8")
    return path


def page_data() -> dict[str, Any]:
    """What the page knows besides its code: problems, published step-sizes, the paper's figures."""
    return {
        "version": version("gradtd"),
        "problems": [problem_tables(name) | {"title": title, "says": says} for name, (title, says) in PROBLEMS.items()],
        "defaults": {name: defaults(name) for name in PROBLEMS},
        "figures": figures(),
    }


def bundle(names: tuple[str, ...]) -> str:
    """Modules as one script: in this order every name is known where it is used, so imports can go."""
    parts = []
    for name in names:
        text = (ASSETS / f"{name}.mjs").read_text()
        parts.append(_EXPORT.sub("", _IMPORT.sub("", text)))
    return "\n".join(parts)


def _inline(text: str) -> str:
    """Text that cannot end the element it stands in."""
    return text.replace("</", "<\\/")
