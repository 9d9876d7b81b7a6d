"""Pictures inside a page: crisp at every size, and small.

A curve of thousands of points is drawn with as few as look the same. Text stays text. The paper is transparent, so that
a page can show the picture in the dark.
"""

from __future__ import annotations

import io
import re
from typing import Any
from urllib.parse import quote

import numpy as np

from gradtd.core.arrays import Floats

LOOKS_THE_SAME = 0.25
"""How far a simplified curve may be from the original, in points: a third of the thinnest line."""


def picture(figure: Any) -> str:
    """A figure as the address of an image, for a page that needs no other file."""
    return "data:image/svg+xml," + quote(svg(figure), safe=" '/:;=,()!*+-._~")


def svg(figure: Any) -> str:
    """A figure as SVG; the same figure gives the same text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "gradtd", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return lighter(buffer.getvalue())


def lighter(text: str) -> str:
    """The same picture in less text: no header, simpler curves, coordinates to a tenth of a point."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<= d=")[^"]*', lambda found: _path(found[0]), text)
    # An address may hold ' and not ", so attributes stand in the former where they can.
    return re.sub(r"\s*\n\s*", " ", re.sub(r"=\"([^\"']*)\"", r"='\1'", text))


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
    """Which points of a line to keep so that it moves nowhere by more than the tolerance (Douglas and Peucker)."""
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
    """Distances of points from the piece of a line between two others."""
    along = end - start
    length = float(along @ along)
    share = np.clip((points - start) @ along / length, 0.0, 1.0) if length else np.zeros(len(points))
    away: Floats = np.hypot(*(points - start - share[:, None] * along).T)
    return away
