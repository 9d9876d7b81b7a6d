"""The page and the pictures of an evaluation."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from gradtd import InputError, evaluate
from gradtd.evaluation.report.result import Estimate
from gradtd.output.evaluation_page import estimates_figure, figures, write_page
from gradtd.output.evaluation_text import explained
from naive.evaluation import walk


def evaluation(**how):
    log = how.pop("log", None) or walk(40)
    return evaluate(log, **{"gamma": 0.9, "algorithm": "lstd", "resamples": 20, "threads": 1} | how)


class Page(HTMLParser):
    """Every address that a page names, and the balance of its tags."""

    def __init__(self, text):
        super().__init__()
        self.addresses, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in ("meta", "img", "br", "link", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def test_a_page_needs_no_other_file(tmp_path):
    path = write_page({"target": evaluation()}, tmp_path / "page.html", "gradtd evaluate <log> & more")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.addresses
    for address in page.addresses:
        kind, content = address.split(",", 1)
        assert kind == "data:image/svg+xml"
        assert ElementTree.fromstring(unquote(content)).tag.endswith("svg")
    outside = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"https?:|file:|url\(|@import|<script|<link", outside)
    assert "gradtd evaluate &lt;log&gt; &amp; more" in text
    assert ">unchecked</span>" in text  # refits of a named method are not the checked interval
    assert text.count("<figure") == 7 - 1  # all values of the start states are one: no picture of them
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_page_says_what_the_evaluation_says(tmp_path):
    made = evaluation(log=walk(15))
    text = write_page({"target": made}, tmp_path / "page.html").read_text()
    assert f"{made.value:.5g}, between {made.interval[0]:.5g} and {made.interval[1]:.5g}" in text
    assert "not usable" in text
    for sentence in made.reasons:
        assert sentence.replace("'", "&#39;") in text
    for line in made.evidence:
        assert f"<td>{line.what}</td><td>{line.word}</td><td>{line.number}</td>".replace("'", "&#39;") in text
    for row in made.estimates:
        assert f"<td>{row.label}</td>" in text
        assert f"{row.value:.5g}" in text
    for words, number in explained(made):
        assert words.replace("'", "&#39;") in text
        assert f">{number}<" in text


def test_several_targets_share_a_page(tmp_path):
    both = evaluation(target={"old <b>": "behaviour", "new": "target"})
    text = both.page(tmp_path / "page.html").read_text()
    assert ">old &lt;b&gt;</h2>" in text
    assert ">new</h2>" in text
    assert "old <b>" not in text
    for made in both.values():
        assert text.count(f"{made.value:.5g}") >= 2


@pytest.mark.parametrize(
    "how",
    [
        {"algorithm": "monte_carlo"},
        {"algorithm": "td", "alpha": 1e3},
        {"algorithm": "wis", "resamples": 0},
        {"resamples": 0},
        {"target": "behaviour"},
        {"algorithm": "impression_gtd", "alpha": 1e-3, "updates": 10},
    ],
)
def test_pages_and_pictures_of_whatever_was_found(how, tmp_path):
    """Also where there is no value, no interval, no resamples; warnings are errors here."""
    made = evaluation(**how)
    text = write_page({"target": made}, tmp_path / "page.html").read_text()
    assert "<img" in text
    made.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_pictures():
    made = evaluation()
    assert list(figures(made)) == ["estimates", "checks", "lambda", "resamples", "over_log", "ratios"]
    assert list(figures(evaluation(target="behaviour"))) == ["estimates", "checks", "lambda", "resamples", "over_log"]
    spread = evaluation(log=walk(40) | {"obs": np.minimum(walk(40)["t"] + walk(40)["episode"] % 3, 4)})
    assert "starts" in figures(spread)
    axes = estimates_figure(made).axes[0]
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert shown == [row.label for row in made.estimates]
    assert shown[0] == "LSTD"
    first = axes.get_lines()[0]
    assert first.get_xdata().tolist() == list(made.interval)


def test_returns_and_values_over_the_log():
    """By hand: 40 episodes in 4 parts of 10; the mean of the parts' values is the value."""
    log = walk(40)
    made = evaluation(log=log)
    last, mean, error, value = made.pictured["over_log"]
    begins = np.flatnonzero(np.r_[True, np.diff(log["episode"]) != 0])
    since = np.arange(len(log["reward"])) - np.repeat(begins, np.diff(np.r_[begins, len(log["reward"])]))
    returns = np.add.reduceat(0.9**since * log["reward"], begins)
    assert last.tolist() == [10, 20, 30, 40]
    assert mean == pytest.approx(returns.reshape(4, 10).mean(1))
    assert error == pytest.approx(returns.reshape(4, 10).std(1, ddof=1) / np.sqrt(10))
    assert value.mean() == pytest.approx(made.value)
    assert "over_log" not in figures(evaluation(log=walk(15)))


def test_an_interval_that_is_too_wide_is_cut_and_marked():
    from dataclasses import replace

    made = evaluation()
    row = Estimate("is", made.value, made.value - 1e6, made.value + 1e6, 1.0)
    axes = estimates_figure(replace(made, estimates=(made.estimates[0], row))).axes[0]
    marks = [line.get_marker() for line in axes.get_lines()]
    assert "<" in marks
    assert ">" in marks
    low, high = axes.get_xlim()
    assert high - low < 100 * np.diff(made.interval)[0]


def test_numbers_in_words():
    words = dict(explained(evaluation()))
    assert words["Episodes that terminated"] == "40"
    assert "Updates" not in words
    assert "Updates" in dict(explained(evaluation(algorithm="td", alpha=0.01, updates=50)))


def test_files_of_a_wrong_kind_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a page takes a file that ends in \.html"):
        write_page({"target": evaluation()}, tmp_path / "page.pdf")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_drawn_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """A page or a picture replaces an older one only when it is whole."""
    from matplotlib.figure import Figure

    def half(figure, file, **how):
        file.write(b"half of")
        raise KeyboardInterrupt

    made = evaluation()
    picture = tmp_path / "value.PNG"
    picture.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(KeyboardInterrupt):
        made.plot(picture)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("value.PNG", b"old")]


@pytest.mark.parametrize("ending", [".png", ".SVG", ".pdf"])
def test_a_picture_is_the_same_bytes_again(ending, tmp_path):
    made = evaluation()
    for k in range(2):
        made.plot(tmp_path / f"{k}{ending}")
    first, second = ((tmp_path / f"{k}{ending}").read_bytes() for k in range(2))
    assert first == second
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"0{ending}", f"1{ending}"]


def test_a_folder_cannot_be_a_page(tmp_path, monkeypatch):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(InputError, match=r"a page takes a file, and .*page\.html' is a folder"):
        write_page({}, tmp_path / "page.html")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InputError, match="nothing can be written to the folder"):
        write_page({}, tmp_path / "other.html")
