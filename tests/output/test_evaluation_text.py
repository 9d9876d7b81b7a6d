"""An evaluation as people read it: a table, a piece of HTML, a frame, a picture, a page."""

import sys

import pytest
from rich.console import Console

from gradtd import InputError, evaluate
from naive.evaluation import walk

INFLUENCES = "Confidence interval from per-episode influence values."
REFITS = "Confidence interval from 10 refits on resampled episodes."


def evaluation(episodes=40, **how):
    return evaluate(walk(episodes), **{"gamma": 0.9, "algorithm": "lstd", "resamples": 10, "threads": 1} | how)


def printed(made, width=200):
    console = Console(width=width)
    with console.capture() as text:
        console.print(made)
    return text.get()


def test_printed_by_rich_it_is_a_table():
    """Brackets in a note are text, not markup; every method and every reason is there."""
    made = evaluation(15)
    text = printed(made)
    assert text.startswith(f"value {made.value:.5g}, 95% interval")
    assert "\nnot usable\n  - The log has 15 independent episodes or blocks" in text
    assert "sandwich interval [" in text
    for row in made.estimates:
        assert f"{row.value:.5g}" in text
    assert max(map(len, printed(made, 60).splitlines())) <= 60


def test_html_for_a_notebook_escapes_what_it_shows():
    made = evaluation(15, target={"<b>": "target"})["<b>"]
    text = made._repr_html_()
    assert text.count("<tr>") == 1 + len(made.estimates) + len(made.evidence) + 2 * (made.behaviour is not None)
    assert f"{made.value:.5g}" in text
    assert "<li>The log has 15 independent episodes or blocks" in text
    for tag in ("div", "table", "ul", "li", "tr", "td", "p"):
        assert text.count(f"<{tag}>") + text.count(f"<{tag} ") == text.count(f"</{tag}>")
    assert "algorithm=&#39;lstd&#39;" in evaluation(60, algorithm="td", alpha=0.01, updates=2)._repr_html_()


def test_as_a_frame_it_has_one_row_per_method():
    pandas = pytest.importorskip("pandas")
    made = evaluation()
    frame = made.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == [row.method for row in made.estimates]
    assert frame.loc["lstd", "value"] == made.value
    assert tuple(frame.loc["lstd", ["low", "high"]]) == made.interval


def test_without_pandas_a_frame_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"^to_frame needs pandas: pip install gradtd\[frames\]\.$"):
        evaluation().to_frame()


def test_plot_and_page_write_the_files_they_are_asked_for(tmp_path):
    made = evaluation()
    assert made.plot(tmp_path / "it.svg").get_xlabel() == "value from the start states"
    assert (tmp_path / "it.svg").read_text().count("<svg") == 1
    assert "Value of a policy, from a log" in made.page(tmp_path / "it.html").read_text()
    with pytest.raises(InputError, match="html"):
        made.page(tmp_path / "it.txt")
    with pytest.raises(InputError, match=r"a picture takes a file that ends in \.png, \.svg or \.pdf"):
        made.plot(tmp_path / "it.doc")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, REFITS),
        ({"resamples": 0}, f"{INFLUENCES} No bootstrap samples."),
        ({"algorithm": "auto"}, f"{INFLUENCES} The comparison rows use 10 bootstrap samples."),
        ({"algorithm": "wis"}, REFITS),
    ],
)
def test_how_many_resamples_were_made_is_always_said(how, said, tmp_path):
    made = evaluation(40, **how)
    assert made.resampling == made.to_dict()["resampling"] == said
    assert said in printed(made)
    assert said in made.page(tmp_path / "page.html").read_text(encoding="utf-8")
