"""How far the text of the project is from plain English: idioms of our own per 100 words, by room and by page.

    python benchmarks/voice.py [--root .] [--list PART]

Rooms: docstrings, comments and string constants of `src/gradtd`. Pages: README, docs, CHANGELOG, CONTRIBUTING and
SECURITY, without code blocks. ``--list docs/krylov.md`` prints each marked line of a room or a page. See
docs/style.md for the terms to use instead.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

MARKERS = (
    *(r"so many", r"nobody", r"somebody", r"what is\b(?! (a|an|the|wrong|new)\b)", r"\btold\b", r"\bbeside\b"),
    *(
        r"\bstands?\b",
        r"\bstood\b",
        r"speaks? (of|for|against)",
        r"\bhouse\b",
        r"\bcellar\b",
        r"\bcrew\b",
        r"\bmet no\b",
    ),
    *(r"\balike\b", r"\bhears? of\b", r"it were\b", r"\bof these very\b", r"leads? anywhere", r"says? something"),
    *(
        r"\bgoals?\b",
        r"\bmiss(ed|es)\b(?! (value|row|column|data))",
        r"busy machine",
        r"noisy machine",
        r"\bthat is had\b",
    ),
    *(r"\bby itself\b", r"\bof its own\b", r"\bto be had\b", r"\bwants? to\b", r"\bas often as\b", r"\bnone speaks\b"),
)
MARKED = re.compile("|".join(MARKERS), re.IGNORECASE)
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
HISTORY = ("docs/decisions.md", "docs/style.md")
"""Pages that tell a history, or that quote the idioms."""


def _texts_of_source(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of docstrings, comments and sentences in one Python file."""
    source = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        # A string without a space is a name or a key, not a sentence.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            for k, line in enumerate(node.value.splitlines()):
                yield node.lineno + k, line


def _texts_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of one page outside code blocks."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`", "", line)


def parts(root: Path) -> dict[str, list[tuple[str, int, str]]]:
    """Every room and page, and its lines of text with their places."""
    found: dict[str, list[tuple[str, int, str]]] = {}
    source = root / "src" / "gradtd"
    for path in sorted(source.rglob("*.py")):
        room = f"src/gradtd/{path.relative_to(source).parts[0]}"
        name = str(path.relative_to(root))
        found.setdefault(room, []).extend((name, number, line) for number, line in _texts_of_source(path))
    for path in sorted([*(root / page for page in PAGES), *(root / "docs").rglob("*.md")]):
        name = str(path.relative_to(root))
        if name not in HISTORY and "generated" not in name:
            found[name] = [(name, number, line) for number, line in _texts_of_page(path)]
    return found


def rate(lines: list[tuple[str, int, str]]) -> tuple[int, int, float]:
    """Words, markers, and markers per 100 words."""
    words = sum(len(re.findall(r"[A-Za-z]+", line)) for _, _, line in lines)
    marked = sum(len(MARKED.findall(line)) for _, _, line in lines)
    return words, marked, 100 * marked / max(words, 1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options.add_argument("--list", metavar="PART", help="print the marked lines of this room or page")
    asked = options.parse_args()
    found = parts(asked.root)
    if asked.list:
        for name, number, line in found[asked.list]:
            for marker in MARKED.finditer(line):
                print(f"{name}:{number}: [{marker.group()}] {line.strip()}")
        return
    print("| part | words | markers | per 100 words |\n|---|---|---|---|")
    for part, lines in sorted(found.items(), key=lambda item: -rate(item[1])[2]):
        words, marked, per_hundred = rate(lines)
        print(f"| {part} | {words} | {marked} | {per_hundred:.2f} |")


if __name__ == "__main__":
    main()
