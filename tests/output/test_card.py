"""The evaluation card: its two documents say the same, and name what they rest on."""

import hashlib
import json

import pytest

import gradtd


@pytest.fixture(scope="module")
def found():
    return gradtd.evaluate(gradtd.sample_log("random_walk_tabular", 200), gamma=1.0)


def test_both_documents_say_the_same(found, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("a,b\n1,2\n")
    page = gradtd.write_card(
        found,
        tmp_path / "card.html",
        question="Walk right?",
        data=log,
        period="2026",
        command="gradtd evaluate log.csv",
    )
    card = json.loads(page.with_suffix(".json").read_text())
    text = page.read_text()
    assert card["value"] == found.value
    assert tuple(card["interval"]) == found.interval
    assert f"{found.value:.5g}" in text
    assert found.verdict in text
    assert card["data"]["files"] == [
        {"name": "log.csv", "bytes": 8, "sha256": hashlib.sha256(b"a,b\n1,2\n").hexdigest()}
    ]
    for part in ("Walk right?", "2026", "gradtd evaluate log.csv", card["data"]["files"][0]["sha256"], "cannot show"):
        assert part in text


def test_a_folder_has_one_digest_of_all_its_files(found, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "a").write_text("1")
    (folder / "b").write_text("2")
    page = gradtd.write_card(found, tmp_path / "card.html", question="?", data=folder)
    described = json.loads(page.with_suffix(".json").read_text())["data"]["files"]
    assert described == [{"name": "log", "bytes": 2, "sha256": hashlib.sha256(b"12").hexdigest()}]


def test_names_are_text_not_markup(found, tmp_path):
    page = gradtd.write_card(found, tmp_path / "card.html", question="<script>alert(1)</script>")
    assert "<script>alert" not in page.read_text()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"question": " "}, "needs a question"),
        ({"question": "?", "data": "nowhere.parquet"}, "do not exist or are not a file: 'nowhere.parquet'"),
        ({"question": "?", "data": "/dev/zero"}, "not a file: '/dev/zero'"),
    ],
)
def test_what_a_card_cannot_be_without(found, tmp_path, given, sentence):
    with pytest.raises(gradtd.InputError, match=sentence):
        gradtd.write_card(found, tmp_path / "card.html", **given)
    assert not (tmp_path / "card.html").exists()
