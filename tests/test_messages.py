"""All messages of exceptions and warnings, in one file, and their shape.

`tests/messages.txt` lists every message with its file, so that a change of wording is read as a whole. ``{}`` marks a
value. After a change write the file again, ``python tests/test_messages.py`` from the root, and read the difference.
The reasons of verdicts are in `gradtd.evaluation.report.reasons` and `verdict`.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = Path(__file__).with_name("messages.txt")
RAISED = ("InputError", "RowError", "warn")
LONGEST = 80
"""Words of a message."""
BANNED = re.compile(
    r"\b(so many|nobody|somebody|told|beside|anew|alike|speaks? (of|for|against)|what is (left|asked|given)"
    r"|st(and|ood)s? (in|beside|between|for itself)|logger|checker|resamples? of|error bar)\b"
)


def template(node: ast.expr) -> str | None:
    """The text of a string with ``{}`` for its values; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [template(side) for side in (node.left, node.right)]
        return None if sides == [None, None] else "".join("{}" if side is None else side for side in sides)
    return None


def messages() -> dict[str, list[str]]:
    """The messages of every file of the source: the first arguments of exceptions and of warnings."""
    found: dict[str, list[str]] = {}
    source = ROOT / "src" / "gradtd"
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(RAISED):
                said = template(node.args[0])
                if said and len(said.split()) > 3:
                    found.setdefault(str(path.relative_to(source)), []).append(said)
    return {name: sorted(set(said)) for name, said in found.items()}


def shown() -> str:
    parts = ("\n".join([f"# {name}", *(repr(said)[1:-1] for said in found)]) for name, found in messages().items())
    return "\n\n".join(parts) + "\n"


FOUND = sorted({(name, said) for name, found in messages().items() for said in found})


def test_the_file_lists_every_message():
    assert len(FOUND) > 300
    assert LISTED.read_text(encoding="utf-8") == shown(), "run python tests/test_messages.py, and read the difference"


def test_messages_are_whole_sentences():
    """A message ends with a full stop, or with a value that ends the sentence."""
    assert [said for _, said in FOUND if not said.rstrip(")\"'").endswith((".", "{}", "?"))] == []


def test_messages_say_no_idiom_and_are_not_too_long():
    assert [said for _, said in FOUND if BANNED.search(said)] == []
    assert [said for _, said in FOUND if len(said.split()) > LONGEST] == []


@pytest.mark.parametrize("said", ["the log stands between rows.", "rows are read anew.", "nobody recorded it."])
def test_an_idiom_is_found(said):
    assert BANNED.search(said)


if __name__ == "__main__":
    LISTED.write_text(shown(), encoding="utf-8")
