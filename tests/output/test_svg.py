"""Pictures in pages: simpler curves that look the same, and text that is a whole SVG."""

from itertools import pairwise
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from gradtd.output.plots import Line, canvas, sensitivity_curves, winner_curves
from gradtd.output.svg import LOOKS_THE_SAME, lighter, picture, simplified, svg


def _away(points, line):
    """The distance of every point from a line of pieces, the slow way."""
    best = np.full(len(points), np.inf)
    for start, end in pairwise(line):
        share = np.clip((points - start) @ (end - start) / max((end - start) @ (end - start), 1e-300), 0, 1)
        best = np.minimum(best, np.linalg.norm(points - start - share[:, None] * (end - start), axis=1))
    return best


def test_a_simplified_line_is_nowhere_far_from_the_original():
    rng = np.random.default_rng(0)
    points = np.stack([np.arange(300.0), rng.normal(size=300).cumsum()], axis=1)
    for tolerance in (0.2, 2.0):
        kept = simplified(points, tolerance)
        assert kept[0]
        assert kept[-1]
        assert _away(points, points[kept]).max() <= tolerance
    assert kept.sum() < 150
    straight = np.stack([np.arange(50.0), 2 * np.arange(50.0)], axis=1)
    assert simplified(straight, 0.1).sum() == 2
    round_trip = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 0.0]])
    assert simplified(round_trip, 0.1).all()


def _drawn():
    figure, axes = canvas('it\'s < a "title" & more')
    x = np.arange(2000)
    axes.plot(x, np.sin(x / 100))
    axes.fill_between(x, np.sin(x / 100) - 0.1, np.sin(x / 100) + 0.1, alpha=0.2)
    return figure


def test_a_picture_is_an_svg_with_its_text():
    address = picture(_drawn())
    kind, content = address.split(",", 1)
    assert kind == "data:image/svg+xml"
    assert not set('"<>#&\n') & set(content)
    tree = ElementTree.fromstring(unquote(content))
    assert any('it\'s < a "title" & more' in (node.text or "") for node in tree.iter())
    assert address == picture(_drawn())


def test_for_a_phone_legends_stand_below_and_long_names_in_lines():
    figure, axes = canvas("A title that is longer than a phone is wide, and so it stands in two lines")
    axes.plot([0, 1], [0, 1], label="a line")
    axes.set_yticks([0, 1], ["weighted per-decision importance sampling", "short"])
    axes.legend(title="what\nis drawn", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    drawn = picture(figure)
    wide, tall = (ElementTree.fromstring(unquote(address.split(",", 1)[1])) for address in (drawn, drawn.tall))
    assert float(tall.get("width").removesuffix("pt")) < 0.6 * float(wide.get("width").removesuffix("pt"))
    words = {node.text.strip() for node in tall.iter() if node.text and node.text.strip()}
    assert {"a line", "what is drawn", "weighted per-", "decision importance"} <= words
    assert axes.get_legend() is None


def test_a_lighter_picture_has_the_same_curve():
    """Relative moves, summed, come within rounding of the points that were drawn."""
    import re

    x = np.linspace(0, 100, 400)
    points = np.stack([x, 50 + 30 * np.sin(x / 10)], axis=1)
    drawn = "M " + " L ".join(f"{a:.6f} {b:.6f}" for a, b in points)
    text = lighter(f'<?xml?><svg><path d="{drawn}"/></svg>')
    numbers = re.findall(r"-?\d*\.?\d+", re.search(r"d='([^']*)'", text)[1])
    found = np.array(numbers, dtype=float).reshape(-1, 2).cumsum(axis=0)
    assert len(found) < 100
    assert _away(points, found).max() < LOOKS_THE_SAME + 0.1


def test_pictures_are_small():
    assert len(svg(_drawn())) < 12_000


@pytest.mark.filterwarnings("error")
def test_errors_near_the_largest_number_are_drawn_as_missing():
    made = []
    for most in (1e300, np.inf):
        places = {0.1: (2.0, 0), 0.2: (1.0, 0), 0.4: (most, 1), "auto": (most, 1)}
        step, mean = np.arange(3), np.array([1.0, 20.0, most])
        figures = (
            sensitivity_curves([Line("td", places)], "alpha", "rmsve", title="t"),
            winner_curves({"td": (step, mean, mean)}, "rmsve", title="t"),
        )
        made.append([picture(figure) for figure in figures])
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ['target="1', 'a="b" c', 'a d="1.23456 L', "a='1\" b"])
def test_names_that_look_like_attributes_are_text(name):
    figure, axes = canvas(name)
    axes.plot([1, 2])
    text = svg(figure)
    assert name in [element.text for element in ElementTree.fromstring(text).iter() if element.tag.endswith("text")]
