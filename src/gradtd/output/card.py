"""Evaluation cards: an HTML and a JSON document that a committee can read and sign."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.files import read_file, write_text, writing
from gradtd.output.pages import render

if TYPE_CHECKING:
    from gradtd.evaluation.report.result import Evaluation

FORMAT = 1
"""Version of the JSON document; readers refuse unknown versions."""
DOCUMENT = "gradtd evaluation card"
MARK = {"usable": "yes", "unchecked": "maybe", "not usable": "no"}
BLOCK = 1 << 20
CANNOT_SHOW = (
    "An unrecorded cause of both actions and rewards. Record it, or compute how strong it would have to be "
    "(confounding).",
    "Rewards or probabilities with a systematic recording error. Compare a sample with the source.",
    "Episodes that were left out before the log was written. Compare the number of episodes with the source.",
    "Whether the future will resemble the period of the log.",
)
"""Questions that no log can answer, listed on every card."""


def write_card(
    evaluation: Evaluation,
    path: str | Path,
    *,
    question: str,
    data: str | Path | Iterable[str | Path] = (),
    period: str = "",
    command: str = "",
) -> Path:
    """Write an evaluation card to ``path`` (.html), and the same content as JSON next to it (.json).

    Returns the path of the page. The card contains the question, the data with their digests, the assumptions and how
    each was checked, the value, interval and verdict, what a log cannot show, the versions, the command, and lines for
    signatures.

    Parameters
    ----------
    evaluation
        The result of `gradtd.evaluate`.
    path
        The file to write; its name ends in ``.html``.
    question
        The decision that needs the value, in one sentence.
    data
        The files of the log: their sizes and SHA-256 digests are on the card.
    period
        The period of the log, as text.
    command
        The command or script of the evaluation.

    >>> import gradtd, json, tempfile
    >>> from pathlib import Path
    >>> found = gradtd.evaluate(gradtd.sample_log("random_walk_tabular", 300), gamma=1.0)
    >>> folder = Path(tempfile.mkdtemp())
    >>> page = gradtd.write_card(found, folder / "card.html", question="Should we walk right more often?")
    >>> json.loads(page.with_suffix(".json").read_text())["verdict"]
    'usable'
    """
    target = checks.file_to_write("path", Path(path), ".html")
    if not question.strip():
        raise InputError("A card needs a question: the decision that needs the value, in one sentence.")
    files = [data] if isinstance(data, str | Path) else list(data)
    refuse_other_json(target)
    card = content(evaluation, question, files, period, command)
    with writing(target.parent, what="the card "):
        write_text(target.with_suffix(".json"), json.dumps(card, indent=2) + "\n")
        write_text(target, render("card.html", card=card, mark=MARK[evaluation.verdict]))
    return target


def refuse_other_json(page: Path) -> None:
    """Refuse a card if a JSON file of the same name exists that is not a card, such as the log itself."""
    path = page.with_suffix(".json")
    if not path.exists():
        return
    try:
        ours = json.loads(read_file(path))["document"] == DOCUMENT
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise InputError(
            f"{str(path)!r} is not an evaluation card, and a card {page.name!r} would replace it: give another name."
        )


def content(
    evaluation: Evaluation, question: str, files: Iterable[str | Path], period: str, command: str
) -> dict[str, Any]:
    """The content of the card as plain values."""
    import gradtd

    told = evaluation.to_dict()
    names = ("value", "interval", "level", "verdict", "reasons", "warnings", "notes", "gamma", "target", "method")
    return {
        "document": DOCUMENT,
        "format": FORMAT,
        "question": question.strip(),
        **{name: told[name] for name in names},
        "data": {
            "log": told["log"],
            "steps": told["steps"],
            "episodes": told["episodes"],
            "period": period,
            "files": [_described(Path(file)) for file in files],
            "understood": told["understood"],
        },
        "assumptions": told.get("assumptions", []),
        "sensitivity": told.get("confounding"),
        "cannot_show": list(CANNOT_SHOW),
        "versions": {"gradtd": gradtd.__version__, "python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba", "scipy")},
        "command": command,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _described(path: Path) -> dict[str, Any]:
    """A file's name, size and digest. For a folder, those of all its files in the order of their names."""
    if not path.is_file() and not path.is_dir():
        raise InputError(f"The data of the card do not exist or are not a file: {str(path)!r}.")
    digest, size = sha256(), 0
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            with part.open("rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
                    size += len(block)
    return {"name": path.name, "bytes": size, "sha256": digest.hexdigest()}
