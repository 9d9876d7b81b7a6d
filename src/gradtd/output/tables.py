"""A small table of words and numbers, shown as text, on a terminal, or as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gradtd.core.checks import printable


@dataclass(frozen=True)
class Table:
    """A title, column names, and rows of text cells.

    Columns are right-aligned, except for the first ``words`` of them. ``notes`` are sentences below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 0
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Remove control characters, which names of columns and files may contain."""
        shown: dict[str, Any] = {name: list(map(printable, getattr(self, name))) for name in ("columns", "notes")}
        shown |= {"title": printable(self.title), "rows": [list(map(printable, row)) for row in self.rows]}
        for name, value in shown.items():
            object.__setattr__(self, name, value)

    def text(self) -> str:
        """The table as lines of plain text."""
        lines = [self.title] if self.title else []
        lines += [self._line(row) for row in (self.columns, *self.rows)]
        return "\n".join([*lines, *self.notes])

    def html(self) -> str:
        """The table as self-contained HTML, for notebooks and pages."""
        parts = [f"<p>{escape(self.title)}</p>" if self.title else "", "<table>", self._html_row("th", self.columns)]
        parts += [self._html_row("td", row) for row in self.rows]
        return "\n".join([*parts, "</table>", *(f"<p>{escape(note)}</p>" for note in self.notes)])

    def rich(self) -> Any:
        """The table as `rich` prints it."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable()
        for place, name in enumerate(self.columns):
            table.add_column(Text(name), justify="left" if place < self.words else "right")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return Group(*[Text(self.title)] * bool(self.title), table, *map(Text, self.notes))

    def _line(self, cells: Sequence[str]) -> str:
        return "  ".join(
            f"{cell:<{width}}" if place < self.words else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(cells, self._widths(), strict=True))
        ).rstrip()

    def _widths(self) -> list[int]:
        """The width of each column: that of its widest cell, and at least that of a number."""
        longest = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        return [max(width, 8 if place == 0 else 10) for place, width in enumerate(longest)]

    def _html_row(self, kind: str, cells: Sequence[str]) -> str:
        sides = ["left" if place < self.words else "right" for place in range(len(cells))]
        inside = (
            f'<{kind} style="text-align: {side}">{escape(cell)}</{kind}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{''.join(inside)}</tr>"
