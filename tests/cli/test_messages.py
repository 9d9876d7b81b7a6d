"""The command line speaks of its options: every sentence of the library that names a parameter of Python."""

import ast
import re
from pathlib import Path

import pytest

import gradtd
from gradtd.cli.messages import typed

SOURCE = Path(gradtd.__file__).parent
ROOMS = ("core", "features", "logs", "algorithms", "evaluation")
PYTHON = re.compile(
    r"(?<!--column )\b(columns|behaviour|target|block_length|value_function|duplicates|order|log_probabilities|keep|"
    r"features|algorithm|resamples|interval_method|n_updates|clip|level|one_step|own_refits|whiten|capacity|lam|trace|"
    r"action_features|action_samples)(=|\[['\"])"
)
SPEAKS_OF_FEATURES = {"order="}
"""Parameters of a feature map, which are typed as they are: fourier:order=3."""


def text_of(node):
    """A literal, or an f-string with x in place of what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(v.value) if isinstance(v, ast.Constant) else "'x'" if v.conversion == 114 else "x" for v in node.values
        )
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return ""


def sentences():
    """What errors, rules and notes of the rooms that ``evaluate`` passes through may say."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("InputError", "Rule"):
                    for argument in node.args:
                        text = text_of(argument)
                        if PYTHON.search(text):
                            yield path.name, text


FOUND = sorted(set(sentences()))


def test_there_are_such_sentences():
    assert len(FOUND) > 15


@pytest.mark.parametrize(("file", "text"), FOUND)
def test_no_sentence_names_a_parameter_of_python(file, text):
    said = typed(text)
    left = {match.group(0) for match in PYTHON.finditer(said.replace("read_log(keep=", ""))} - SPEAKS_OF_FEATURES
    if "--set capacity=" in said:
        left -= {"capacity="}
    assert not left, (file, said)
    assert "  " not in said
    assert " ," not in said


@pytest.mark.parametrize(
    ("python", "wanted"),
    [
        ('columns={"observation": ["x", "v"]}.', "--observation x,v."),
        ("columns={'reward': 'r'}.", "--column reward=r."),
        ('columns={"episode": ...}, or one_step=True where', "--column episode=..., or --one-step where"),
        ('leave it out: columns={"t": None}', "leave it out: --column t=none"),
        ("columns={'observation': 'b', \"next_observation\": 'a'}.", "--observation b --column next_observation=a."),
        ('columns={"rho": None} or columns={"target": None}.', "--column rho=none or --column target=none."),
        ("columns={'reward': ...} takes one column", "--column reward=... takes one column"),
        ('or use duplicates="drop" where', "or use --drop-duplicates where"),
        ('or read with log_probabilities="convert".', "or read with --log-probabilities."),
        ("behaviour='estimate' needs", "--behaviour estimate needs"),
        ("give block_length=T0 to", "give --block-length T0 to"),
        ("or clip ratios (clip=20).", "or clip ratios (--clip 20)."),
        ("take algorithm='dr', or", "take --algorithm dr, or"),
        ("take features='auto', or", "take --features auto, or"),
        ("got n_updates=5: leave", "got --n-updates 5: leave"),
        ("interval_method='percentile' needs", "--percentile needs"),
        ("Give more, or interval_method='student'.", "Give more, or no --percentile."),
        ("capacity=50 would", "--set capacity=50 would"),
        ("got lam=0.5: leave it out", "got --lam 0.5: leave it out"),
        ("trace='tree' needs", "--trace tree needs"),
        ("--set lam=0.5: an evaluation", "--set lam=0.5: an evaluation"),
        ("the ratio of step 7 is not finite.", "the ratio of step 7 is not finite."),
    ],
)
def test_how_a_parameter_is_typed(python, wanted):
    assert typed(python) == wanted
