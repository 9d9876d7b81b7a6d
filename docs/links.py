"""Whether every link inside the built site leads somewhere: `python docs/links.py build/site`.

Pages, files and anchors are checked. Addresses elsewhere are counted and not visited; `make links` visits them.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")


def broken(folder: Path) -> tuple[list[str], int, set[str]]:
    """Links that lead nowhere, how many lead somewhere, and the addresses elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    wrong, held, elsewhere = [], 0, set()
    for path, page in pages.items():
        if "live" in path.relative_to(folder).parts:  # scripts that hold addresses as text; tested on their own
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme in ("http", "https"):
                    elsewhere.add(link)
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            anchors = pages[goal].anchors if goal in pages else {unquote(parts.fragment)}
            if goal.exists() and unquote(parts.fragment) in anchors:
                held += 1
            else:
                wrong.append(f"{path.relative_to(folder)}: {link}")
    return wrong, held, elsewhere


def main() -> None:
    wrong, held, elsewhere = broken(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) + "\n" * bool(wrong) + f"{held} links inside the site lead somewhere, {len(wrong)} do not.")
    print(f"{len(elsewhere)} addresses elsewhere were not visited: `make links` visits them.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
