"""Turns figures into SVG for pages, which is sharp at every size and small.

Curves are simplified without a visible change. Text remains text. The background is transparent, for dark mode. Pages
can include a second version for phones.
"""

from __future__ import annotations

import io
import re
import textwrap
from typing import Any
from urllib.parse import quote

import numpy as np

from gradtd.core.arrays import Floats

LOOKS_THE_SAME = 0.25
"""Maximum deviation of a simplified curve, in points: a third of the thinnest line."""

PHONE = 4.2
"""Width in inches of plots for phones, so that their text is as large as the page's."""


class Picture(str):
    """The data URL of an image. ``tall`` is the version for narrow screens, if there is one."""

    tall = ""

    def __html__(self) -> str:
        """For templates: the URL needs no escaping between double quotes."""
        return self


def picture(figure: Any, phone: bool = True) -> Picture:
    """A figure as a data URL. The figure is not used afterwards."""
    drawn = Picture(_address(figure))
    if phone:
        make_tall(figure)
        drawn.tall = Picture(_address(figure))
    return drawn


def _address(figure: Any) -> str:
    return "data:image/svg+xml," + quote(svg(figure), safe=" '/:;=,()!*+-._~")


def make_tall(figure: Any) -> None:
    """Make a figure fit a narrow screen: legends move below the plot, and long names are broken into lines."""
    figure.set_size_inches(PHONE, 1.15 * figure.get_size_inches()[1])
    for axes in figure.axes:
        axes.set_title(textwrap.fill(axes.get_title("left"), 44), loc="left", fontsize=10)
        axes.set_xlabel(textwrap.fill(axes.get_xlabel(), 36))
        axes.set_ylabel(textwrap.fill(axes.get_ylabel(), 36))
        names = [name.get_text() for name in axes.get_yticklabels()]
        if any(len(name) > 20 and "$" not in name for name in names):  # labels in words, not the formulas of a log axis
            axes.set_yticks(axes.get_yticks(), [textwrap.fill(name, 20) for name in names], fontsize=8)
    for legend in [*(axes.get_legend() for axes in figure.axes), *figure.legends]:
        if legend is not None:
            _put_below(figure, legend)


def _put_below(figure: Any, legend: Any) -> None:
    """Move a legend below the plot, in two columns if they fit."""
    lines, words = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
    title = legend.get_title().get_text().replace("\n", " ")
    legend.remove()
    columns = 2 if max(map(len, words), default=0) <= 22 else 1
    look = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "alignment": "left", "ncols": columns}
    figure.legend(lines, words, title=title, loc="outside lower left", **look)


def svg(figure: Any) -> str:
    """A figure as SVG. The same figure gives the same text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "gradtd", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return lighter(buffer.getvalue())


def lighter(text: str) -> str:
    """A smaller version of the SVG: no header, simplified curves, coordinates to a tenth of a point."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<= d=")[^"<>]*(?="[^<>]*>)', lambda found: _path(found[0]), text)
    # A data URL may contain ' but not ", so attributes use single quotes where possible. Text between tags stays.
    return re.sub(r"\s*\n\s*", " ", re.sub(r"=\"([^\"'<>]*)\"(?=[^<>]*>)", r"='\1'", text))


def _path(drawn: str) -> str:
    """One path: a long line of straight pieces is simplified, anything else only rounded."""
    words = drawn.split()
    if len(words) < 40 or not set(re.findall("[A-Za-z]", drawn)) <= {"M", "L", "z"}:
        return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.3f}".rstrip("0").rstrip("."), " ".join(words))
    pieces = re.findall(r"M([^M]*)", drawn)
    return "".join(_piece(piece) for piece in pieces)


def _piece(drawn: str) -> str:
    points = np.array(re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", drawn), dtype=float).reshape(-1, 2)
    tenths = np.rint(10 * points[simplified(points, LOOKS_THE_SAME)]).astype(int)
    moves = np.diff(tenths, axis=0, prepend=0).ravel() / 10
    first, rest = "".join(f" {x:g}" for x in moves[:2]), "".join(f" {x:g}" for x in moves[2:])
    short = rest.replace(" -", "-").replace("-0.", "-.").replace(" 0.", " .")
    return f"M{first} l{short}{'z' if 'z' in drawn else ''}"


def simplified(points: Floats, tolerance: float) -> Floats:
    """Simplify a line so that it deviates by at most the tolerance (Douglas and Peucker)."""
    keep = np.zeros(len(points), dtype=bool)
    keep[[0, -1]] = True
    open_pieces = [(0, len(points) - 1)]
    while open_pieces:
        first, last = open_pieces.pop()
        if last - first < 2:
            continue
        away = _distances(points[first + 1 : last], points[first], points[last])
        furthest = int(np.argmax(away))
        if away[furthest] > tolerance:
            middle = first + 1 + furthest
            keep[middle] = True
            open_pieces += [(first, middle), (middle, last)]
    return keep


def _distances(points: Floats, start: Floats, end: Floats) -> Floats:
    """Distances of points from the segment between two others."""
    along = end - start
    length = float(along @ along)
    share = np.clip((points - start) @ along / length, 0.0, 1.0) if length else np.zeros(len(points))
    away: Floats = np.hypot(*(points - start - share[:, None] * along).T)
    return away
